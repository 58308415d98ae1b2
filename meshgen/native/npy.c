/* Reads and writes `.npy` files. The header is a Python dict literal; its three known entries may be in any order. */
#include "npy.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { MAX_HEADER = 1 << 16, ALIGNMENT = 64, FIXED = 10 };
static const char MAGIC[] = "\x93NUMPY";

static mgx_status bad(const char *path, const char *reason) {
  return mgx_fail(MGX_USAGE, "MG0002: '%s' cannot be read as an array: %s", path, reason);
}

/* Returns the text after `'key':` in a header, or NULL if the key is missing. */
static const char *entry(const char *header, const char *key) {
  const char *value = strstr(header, key);
  if (!value) return NULL;
  value += strlen(key);
  while (isspace((unsigned char)*value)) value++;
  return value;
}

/* Types that NumPy lacks, such as bf16, are raw bytes in files, so any raw type of the right size is accepted. */
static bool is_type(const char *descr, const mgx_tensor_info *info) {
  size_t count = strlen(info->dtype);
  if (*descr != '\'' || !strchr(descr + 1, '\'')) return false;
  if (!strncmp(descr + 1, info->dtype, count) && descr[1 + count] == '\'') return true;
  return descr[2] == 'V' && strtoul(descr + 3, NULL, 10) == info->itemsize;
}

static bool is_shape(const char *at, const mgx_tensor_info *info) {
  if (*at++ != '(') return false;
  for (int dim = 0; dim < info->rank; dim++) {
    char *end;
    if (strtoull(at, &end, 10) != info->shape[dim] || end == at) return false;
    for (at = end; *at == ',' || *at == ' ';) at++;
  }
  return *at == ')';
}

static mgx_status read_header(FILE *file, const char *path, const mgx_tensor_info *info, char *header) {
  unsigned char start[12];
  if (fread(start, 1, FIXED, file) != FIXED || memcmp(start, MAGIC, 6)) return bad(path, "it is not a .npy file");
  size_t count = start[8] | (size_t)start[9] << 8;
  if (start[6] > 1) {
    if (fread(start + FIXED, 1, 2, file) != 2) return bad(path, "it is cut off");
    count |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
  }
  if (count >= MAX_HEADER || fread(header, 1, count, file) != count) return bad(path, "its header is cut off");
  header[count] = 0;
  const char *descr = entry(header, "'descr':"), *order = entry(header, "'fortran_order':"), *shape = entry(header, "'shape':");
  if (!descr || !order || !shape || strncmp(order, "False", 5)) return bad(path, "it is not in row-major order");
  if (!is_type(descr, info)) return bad(path, "its element type does not match");
  return is_shape(shape, info) ? MGX_OK : bad(path, "its shape does not match");
}

mgx_status npy_read(const char *path, const mgx_tensor_info *info, void *data) {
  FILE *file = fopen(path, "rb");
  char *header = malloc(MAX_HEADER);
  mgx_status status = MGX_OK;
  if (!file || !header)
    status = bad(path, strerror(errno));
  else
    status = read_header(file, path, info, header);
  if (!status && info->nbytes && fread(data, 1, info->nbytes, file) != info->nbytes) status = bad(path, "it is cut off");
  free(header);
  if (file) fclose(file);
  return status;
}

mgx_status npy_write(const char *path, const mgx_tensor_info *info, const void *data) {
  char header[4096];
  int count = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (", info->dtype);
  for (int dim = 0; dim < info->rank && count < (int)sizeof header - 256; dim++)
    count += snprintf(header + count, sizeof header - (size_t)count, dim ? " %llu," : "%llu,", (unsigned long long)info->shape[dim]);
  if (info->rank > 1) count--; /* NumPy writes (8,) but (8, 12) */
  count += snprintf(header + count, sizeof header - (size_t)count, "), }");
  while ((FIXED + count + 1) % ALIGNMENT) header[count++] = ' ';
  header[count++] = '\n';
  unsigned char start[FIXED] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)count, (unsigned char)(count >> 8)};
  FILE *file = fopen(path, "wb");
  bool is_written = file && fwrite(start, 1, FIXED, file) == FIXED && fwrite(header, 1, (size_t)count, file) == (size_t)count &&
              fwrite(data, 1, info->nbytes, file) == info->nbytes;
  if (file && fclose(file)) is_written = false;
  return is_written ? MGX_OK : mgx_fail(MGX_USAGE, "MG0003: '%s' cannot be written: %s", path, strerror(errno));
}
