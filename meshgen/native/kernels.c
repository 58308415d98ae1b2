/* Loads the code of a module's kernels for a device: a cubin for it, or else PTX that its driver can compile.

   The driver takes an image without its size, so the offsets and sizes in its headers are checked here. */
#include <stdlib.h>
#include <string.h>

#include "module.h"

enum { ELF_HEADER = 64, SECTION_HEADER = 64, PROGRAM_HEADER = 56, NOBITS = 8, STATIC_SHARED_BYTES = 49152 };

static uint64_t field(const unsigned char *bytes, int count) {
  uint64_t value = 0;
  memcpy(&value, bytes, (size_t)count);
  return value;
}

/* Whether a table of headers, and each range that a header describes, are inside of the image. Source: ELF-64 object file
   format 1.5. */
static bool are_headers_inside(const mgx_member *image, uint64_t offset, uint64_t nbytes, uint64_t count, int size,
                              int offset_at, int size_at) {
  if (count && (nbytes != (uint64_t)size || !mgx_inside(offset, nbytes * count, image->nbytes))) return false;
  for (uint64_t i = 0; i < count; i++) {
    const unsigned char *header = image->data + offset + i * nbytes;
    if (size == SECTION_HEADER && field(header + 4, 4) == NOBITS) continue; /* occupies no bytes of the file */
    if (!mgx_inside(field(header + offset_at, 8), field(header + size_at, 8), image->nbytes)) return false;
  }
  return true;
}

/* Whether an image is a cubin all of whose sections and segments are inside of it. */
static bool is_cubin(const mgx_member *image) {
  const unsigned char *at = image->data;
  if (image->nbytes < ELF_HEADER || memcmp(at, "\177ELF\2", 5)) return false;
  return are_headers_inside(image, field(at + 40, 8), field(at + 58, 2), field(at + 60, 2), SECTION_HEADER, 24, 32) &&
         are_headers_inside(image, field(at + 32, 8), field(at + 54, 2), field(at + 56, 2), PROGRAM_HEADER, 8, 32);
}

/* Whether an image is text without a zero byte. The driver then cannot mistake it for a binary, and finds its end. */
static bool is_ptx(const mgx_member *image) {
  return image->nbytes && image->data[0] < 0x7f && !memchr(image->data, 0, image->nbytes);
}

static bool fits(const uint64_t *code, const int capability[2]) {
  int device_arch = 10 * capability[0] + capability[1], arch = (int)code[CODE_ARCH];
  if (code[CODE_KIND] == CODE_CUBIN) return arch / 10 == capability[0] && arch % 10 <= capability[1];
  return code[CODE_EXACT] ? arch == device_arch : arch <= device_arch;
}

static mgx_status load_image(const mgx_module *module, mgx_rank *rank, const uint64_t *code) {
  CUmodule *loaded = rank->modules + code[CODE_MEMBER];
  if (*loaded) return MGX_OK;
  const mgx_member *image = mgx_container_find(&module->container, module->table.members[code[CODE_MEMBER]]);
  if (!(code[CODE_KIND] == CODE_CUBIN ? is_cubin(image) : is_ptx(image)))
    return mgx_damaged(&module->container, "the code of a kernel is malformed");
  char *copy = malloc(image->nbytes + 1);
  if (!copy) return mgx_fail(MGX_FAILED, "MG0005: not enough memory");
  memcpy(copy, image->data, image->nbytes);
  copy[image->nbytes] = 0;
  CUresult result = mgx_gpu.cuModuleLoadData(loaded, copy);
  free(copy);
  return mgx_cuda_status(result, "cuModuleLoadData");
}

static mgx_status load_kernel(const mgx_module *module, mgx_rank *rank, const mgx_function *function, mgx_kernel *kernel) {
  const uint64_t *code = NULL;
  for (size_t i = 0; !code && i < function->codes.count; i++)
    if (fits(function->codes.items[i].words, rank->capability)) code = function->codes.items[i].words;
  if (!code)
    return mgx_fail(MGX_MISSING, "MG0602: kernel '%s' was not compiled for the device, which is sm_%d%d", function->entry,
                    rank->capability[0], rank->capability[1]);
  MGX_TRY(load_image(module, rank, code));
  MGX_CUDA(cuModuleGetFunction, &kernel->function, rank->modules[code[CODE_MEMBER]], function->entry);
  kernel->threads = (unsigned)code[CODE_THREADS];
  kernel->shared_bytes = (unsigned)code[CODE_SHARED];
  kernel->grid = code[CODE_GRID] ? code + CODE_GRID : NULL;
  if (kernel->shared_bytes > STATIC_SHARED_BYTES)
    MGX_CUDA(cuFuncSetAttribute, kernel->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)kernel->shared_bytes);
  return MGX_OK;
}

/* Checks that a launch has as many parameters as its kernel, of the same sizes. Otherwise the driver would read past them. */
static mgx_status check_parameters(const mgx_module *module, const mgx_rank *rank, mgx_list op) {
  CUfunction function = rank->kernels[op.words[LAUNCH_FUNCTION]].function;
  size_t offset, nbytes, count = (size_t)op.words[LAUNCH_COUNT];
  for (size_t i = 0; i < count; i++) {
    size_t expected = op.words[LAUNCH_PARAMETERS + 3 * i] == PARAMETER_WORD32 ? 4 : 8;
    if (mgx_gpu.cuFuncGetParamInfo(function, i, &offset, &nbytes) || nbytes != expected)
      return mgx_damaged(&module->container, "a launch does not fit its kernel");
  }
  if (!mgx_gpu.cuFuncGetParamInfo(function, count, &offset, &nbytes))
    return mgx_damaged(&module->container, "a launch does not fit its kernel");
  return MGX_OK;
}

mgx_status mgx_kernels_load(const mgx_module *module, mgx_rank *rank) {
  const mgx_lists operations = rank->part->operations;
  for (size_t i = 0; i < operations.count; i++) {
    mgx_list op = operations.items[i];
    if (op.words[0] != OP_LAUNCH) continue;
    uint64_t index = op.words[LAUNCH_FUNCTION];
    mgx_kernel *kernel = rank->kernels + index;
    if (!kernel->function) MGX_TRY(load_kernel(module, rank, module->table.functions + index, kernel));
    if (mgx_gpu.cuFuncGetParamInfo) MGX_TRY(check_parameters(module, rank, op));
  }
  return MGX_OK;
}
