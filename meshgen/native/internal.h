/* Declarations that several files of the loader share. */
#ifndef MESHGEN_INTERNAL_H
#define MESHGEN_INTERNAL_H

#include <stdbool.h>

#include "meshgen.h"

/* error.c: stores the message for `mgx_error` and returns the status. */
mgx_status mgx_fail(mgx_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns the status of a call from the current function, unless it is MGX_OK. */
#define MGX_TRY(call)                    \
  do {                                   \
    mgx_status mgx_result = (call);      \
    if (mgx_result) return mgx_result;   \
  } while (0)

/* sha256.c: writes 64 lower-case hexadecimal digits and a terminating zero. */
void mgx_sha256(const void *data, size_t nbytes, char digits[65]);

/* container.c: a module file, which is memory-mapped, and its members. */
typedef struct {
  const char *name;
  const unsigned char *data;
  size_t nbytes;
} mgx_member;

typedef struct {
  char *path;
  const unsigned char *data;
  size_t nbytes;
  mgx_member *members; /* sorted by name */
  size_t count;
  char *names;
} mgx_container;

mgx_status mgx_container_open(const char *path, mgx_container *container);
void mgx_container_close(mgx_container *container);
const mgx_member *mgx_container_find(const mgx_container *container, const char *name); /* NULL: no such member */
mgx_status mgx_damaged(const mgx_container *container, const char *reason);

/* manifest.c: checks the digest of every member against the manifest, and the manifest's own digest. */
mgx_status mgx_manifest_check(const mgx_container *container);

/* Whether the range [offset, offset + nbytes) is inside of `size` bytes. */
static inline bool mgx_inside(uint64_t offset, uint64_t nbytes, uint64_t size) {
  return offset <= size && nbytes <= size - offset;
}

#endif
