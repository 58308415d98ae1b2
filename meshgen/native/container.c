/* The module file: an uncompressed, memory-mapped zip file. Every offset in it is checked against the size of the file.

   Source: PKWARE APPNOTE 6.3.10, sections 4.3.7, 4.3.12, 4.3.14 to 4.3.16 and 4.5.3 (zip64). */
#define _POSIX_C_SOURCE 200809L /* O_CLOEXEC, fstat, strdup */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

enum { LOCAL = 30, CENTRAL = 46, END = 22, END64 = 56, LOCATOR = 20 }; /* bytes of the fixed part of each record */
static const uint32_t LOCAL_MAGIC = 0x04034b50, CENTRAL_MAGIC = 0x02014b50, END_MAGIC = 0x06054b50, END64_MAGIC = 0x06064b50;
static const uint32_t WIDE = 0xffffffff; /* the actual value is a 64-bit field elsewhere (zip64) */

typedef struct {
  uint64_t offset, nbytes, entries;
} directory;

static uint64_t read_number(const unsigned char *bytes, int count) {
  uint64_t value = 0;
  for (int i = count - 1; i >= 0; i--) value = value << 8 | bytes[i];
  return value;
}

mgx_status mgx_damaged(const mgx_container *container, const char *reason) {
  return mgx_fail(MGX_REFUSED, "MG0502: '%s' is damaged or was modified: %s", container->path, reason);
}

static mgx_status map_file(const char *path, mgx_container *container) {
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status;
  if (file < 0 || fstat(file, &status)) {
    mgx_status result = mgx_fail(MGX_USAGE, "MG0002: '%s' cannot be read: %s", path, strerror(errno));
    if (file >= 0) close(file);
    return result;
  }
  void *data = MAP_FAILED;
  if (S_ISREG(status.st_mode) && status.st_size >= END)
    data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (data == MAP_FAILED) return mgx_fail(MGX_REFUSED, "MG0501: '%s' is not a meshgen module", path);
  container->data = data;
  container->nbytes = (size_t)status.st_size;
  return MGX_OK;
}

static mgx_status find_directory(const mgx_container *file, directory *central) {
  const unsigned char *end = file->data + file->nbytes - END;
  if (read_number(file->data, 4) != LOCAL_MAGIC) return mgx_fail(MGX_REFUSED, "MG0501: '%s' is not a meshgen module", file->path);
  if (read_number(end, 4) != END_MAGIC) return mgx_damaged(file, "its end is missing");
  *central = (directory){read_number(end + 16, 4), read_number(end + 12, 4), read_number(end + 10, 2)};
  if (central->entries == 0xffff || central->offset == WIDE || central->nbytes == WIDE) {
    if (file->nbytes < END + LOCATOR + END64) return mgx_damaged(file, "its end is missing");
    const unsigned char *wide = end - LOCATOR - END64;
    if (read_number(wide, 4) != END64_MAGIC) return mgx_damaged(file, "its end record is damaged");
    *central = (directory){read_number(wide + 48, 8), read_number(wide + 40, 8), read_number(wide + 32, 8)};
  }
  if (!mgx_inside(central->offset, central->nbytes, file->nbytes) || central->entries > central->nbytes / CENTRAL)
    return mgx_damaged(file, "its directory is outside of it");
  return MGX_OK;
}

/* Reads a 64-bit field of an entry's zip64 extra field, after `skipped` other ones. */
static bool read_wide(const unsigned char *extra, size_t extra_bytes, size_t skipped, uint64_t *value) {
  if (extra_bytes < 4 + 8 * (skipped + 1) || read_number(extra, 2) != 1) return false;
  *value = read_number(extra + 4 + 8 * skipped, 8);
  return true;
}

/* Reads the member of a directory entry and copies its name to `name`. */
static mgx_status read_member(const mgx_container *file, const unsigned char *entry, char *name, mgx_member *member) {
  size_t name_bytes = read_number(entry + 28, 2), extra_bytes = read_number(entry + 30, 2);
  uint64_t nbytes = read_number(entry + 24, 4), offset = read_number(entry + 42, 4);
  const unsigned char *extra = entry + CENTRAL + name_bytes;
  bool big = nbytes == WIDE;
  if (big && !read_wide(extra, extra_bytes, 0, &nbytes)) return mgx_damaged(file, "a size is missing");
  if (offset == WIDE && !read_wide(extra, extra_bytes, big, &offset)) return mgx_damaged(file, "an offset is missing");
  if (!mgx_inside(offset, LOCAL, file->nbytes)) return mgx_damaged(file, "a member is outside of it");
  const unsigned char *local = file->data + offset;
  uint64_t start = offset + LOCAL + read_number(local + 26, 2) + read_number(local + 28, 2);
  if (read_number(local, 4) != LOCAL_MAGIC || read_number(local + 8, 2) != 0 || read_number(entry + 10, 2) != 0)
    return mgx_damaged(file, "a member is compressed or malformed");
  if (!mgx_inside(start, nbytes, file->nbytes)) return mgx_damaged(file, "a member is outside of it");
  memcpy(name, entry + CENTRAL, name_bytes);
  if (memchr(name, 0, name_bytes)) return mgx_damaged(file, "a member has a bad name");
  name[name_bytes] = 0;
  *member = (mgx_member){name, file->data + start, (size_t)nbytes};
  return MGX_OK;
}

static mgx_status read_members(mgx_container *file) {
  directory central = {0};
  MGX_TRY(find_directory(file, &central));
  file->members = calloc(central.entries + 1, sizeof *file->members);
  file->names = calloc(central.nbytes + 1, 1);
  if (!file->members || !file->names) return mgx_fail(MGX_FAILED, "MG0005: not enough memory");
  const unsigned char *entry = file->data + central.offset, *end = entry + central.nbytes;
  size_t left = file->nbytes;
  char *name = file->names; /* all names fit, because an entry is longer than its name */
  for (; file->count < central.entries; file->count++) {
    if (end - entry < CENTRAL || read_number(entry, 4) != CENTRAL_MAGIC) return mgx_damaged(file, "its directory is damaged");
    uint64_t entry_bytes = CENTRAL + read_number(entry + 28, 2) + read_number(entry + 30, 2) + read_number(entry + 32, 2);
    if (entry_bytes > (uint64_t)(end - entry)) return mgx_damaged(file, "its directory is damaged");
    mgx_member *member = file->members + file->count;
    MGX_TRY(read_member(file, entry, name, member));
    if (file->count && strcmp(member[-1].name, member->name) >= 0) return mgx_damaged(file, "its members are out of order");
    /* Overlapping members could make the digests take unbounded time. */
    if (member->nbytes > left) return mgx_damaged(file, "its members overlap");
    left -= member->nbytes;
    name += strlen(name) + 1;
    entry += entry_bytes;
  }
  return MGX_OK;
}

mgx_status mgx_container_open(const char *path, mgx_container *container) {
  *container = (mgx_container){.path = strdup(path)};
  if (!container->path) return mgx_fail(MGX_FAILED, "MG0005: not enough memory");
  MGX_TRY(map_file(path, container));
  return read_members(container);
}

void mgx_container_close(mgx_container *container) {
  if (container->data) munmap((void *)(uintptr_t)container->data, container->nbytes);
  free(container->members);
  free(container->names);
  free(container->path);
  *container = (mgx_container){0};
}

static int by_name(const void *name, const void *member) { return strcmp(name, ((const mgx_member *)member)->name); }

const mgx_member *mgx_container_find(const mgx_container *container, const char *name) {
  if (!container->count) return NULL;
  return bsearch(name, container->members, container->count, sizeof *container->members, by_name);
}
