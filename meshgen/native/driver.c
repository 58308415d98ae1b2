/* Loads libcuda and libnccl, and converts their errors. */
#include "driver.h"

#include <dlfcn.h>
#include <string.h>

static const int OLDEST_DRIVER = 12000; /* CUDA 12.0, for the reason in meshgen/runtime/cuda/api.py */

mgx_driver mgx_gpu;

static mgx_status find(void *library, const char *symbol, void *function) {
  void *address = dlsym(library, symbol);
  if (!address) return mgx_fail(MGX_MISSING, "MG0602: the installed library has no %s: it is too old", symbol);
  memcpy(function, &address, sizeof address); /* ISO C cannot convert an object pointer to a function pointer */
  return MGX_OK;
}

static mgx_status require_driver(void) {
  int version = 0;
  CUresult result = mgx_gpu.cuInit(0);
  if (!result) result = mgx_gpu.cuDriverGetVersion(&version);
  if (result) {
    mgx_cuda_status(result, "cuInit");
    char reason[512];
    strncpy(reason, mgx_error(), sizeof reason - 1);
    reason[sizeof reason - 1] = 0;
    return mgx_fail(MGX_MISSING, "MG0602: NVIDIA's driver does not work: %s", reason);
  }
  if (version < OLDEST_DRIVER)
    return mgx_fail(MGX_MISSING, "MG0602: NVIDIA's driver is too old: it supports CUDA %d.%d", version / 1000, version % 1000 / 10);
  return MGX_OK;
}

mgx_status mgx_load_cuda(void) {
  static bool is_loaded;
  if (is_loaded) return MGX_OK;
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) return mgx_fail(MGX_MISSING, "MG0602: NVIDIA's driver is missing: %s", dlerror());
#define FIND(name, symbol, parameters) MGX_TRY(find(library, symbol, &mgx_gpu.name));
  MGX_CUDA_FUNCTIONS(FIND)
  void *optional = dlsym(library, "cuFuncGetParamInfo");
  memcpy(&mgx_gpu.cuFuncGetParamInfo, &optional, sizeof optional);
  MGX_TRY(require_driver());
  is_loaded = true;
  return MGX_OK;
}

mgx_status mgx_load_nccl(void) {
  static bool is_loaded;
  if (is_loaded) return MGX_OK;
  void *library = dlopen("libnccl.so.2", RTLD_NOW);
  if (!library) return mgx_fail(MGX_MISSING, "MG0602: NCCL is missing: %s", dlerror());
  MGX_NCCL_FUNCTIONS(FIND)
  MGX_TRY(find(library, "ncclGetErrorString", &mgx_gpu.ncclGetErrorString));
#undef FIND
  is_loaded = true;
  return MGX_OK;
}

mgx_status mgx_cuda_status(CUresult result, const char *name) {
  if (!result) return MGX_OK;
  const char *code = "unknown", *text = "unknown";
  mgx_gpu.cuGetErrorName(result, &code);
  mgx_gpu.cuGetErrorString(result, &text);
  return mgx_fail(MGX_FAILED, "MG0604: %s failed with %d: %s, %s", name, result, code, text);
}

mgx_status mgx_nccl_status(int result, const char *name) {
  if (!result) return MGX_OK;
  return mgx_fail(MGX_FAILED, "MG0604: %s failed with %d: %s", name, result, mgx_gpu.ncclGetErrorString(result));
}
