/* The message of the last failure of each thread. */
#include <stdarg.h>
#include <stdio.h>

#include "internal.h"

static _Thread_local char message[1024];

mgx_status mgx_fail(mgx_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  for (char *c = message; *c; c++) /* names in a file may contain terminal control characters */
    if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
  return status;
}

const char *mgx_error(void) { return message; }
