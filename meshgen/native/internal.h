/* What the files of the loader share. */
#ifndef MESHGEN_INTERNAL_H
#define MESHGEN_INTERNAL_H

#include <stdbool.h>

#include "meshgen.h"

/* error.c: keeps the message for `mgx_error` and returns the status. */
mgx_status mgx_fail(mgx_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Leaves the function with what a call comes to, unless it is MGX_OK. */
#define MGX_TRY(call)                    \
  do {                                   \
    mgx_status mgx_result = (call);      \
    if (mgx_result) return mgx_result;   \
  } while (0)

/* sha256.c: 64 digits in lower case, and a zero. */
void mgx_sha256(const void *data, size_t nbytes, char digits[65]);

/* container.c: the members of a module's file, which stays mapped. */
typedef struct {
  const char *name;
  const unsigned char *data;
  size_t nbytes;
} mgx_member;

typedef struct {
  char *path;
  const unsigned char *data;
  size_t nbytes;
  mgx_member *members; /* in order of their names */
  size_t count;
  char *names;
} mgx_container;

mgx_status mgx_container_open(const char *path, mgx_container *container);
void mgx_container_close(mgx_container *container);
const mgx_member *mgx_container_find(const mgx_container *container, const char *name); /* NULL: there is none */
mgx_status mgx_damaged(const mgx_container *container, const char *reason);

/* manifest.c: every member has the digest that the manifest lists, and the manifest has its own. */
mgx_status mgx_manifest_check(const mgx_container *container);

/* Whether `nbytes` from `place` on lie inside of `size` bytes. */
static inline bool mgx_inside(uint64_t place, uint64_t nbytes, uint64_t size) {
  return place <= size && nbytes <= size - place;
}

#endif
