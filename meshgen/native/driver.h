/* The functions of libcuda and libnccl that the loader calls. They are looked up when a module is opened.

   Source: cuda.h of CUDA 12 and 13, nccl.h of NCCL 2.28 and later. Building this needs no NVIDIA headers. */
#ifndef MESHGEN_DRIVER_H
#define MESHGEN_DRIVER_H

#include "internal.h"

typedef int CUresult, CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

enum {
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_NOT_READY = 600,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_STREAM_NON_BLOCKING = 1,
  CU_EVENT_DISABLE_TIMING = 2,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1
};

/* Name, symbol and parameters. The symbol is the newest version of the function in CUDA 12. */
#define MGX_CUDA_FUNCTIONS(F)                                                                                        \
  F(cuInit, "cuInit", (unsigned))                                                                                    \
  F(cuDriverGetVersion, "cuDriverGetVersion", (int *))                                                               \
  F(cuDeviceGetCount, "cuDeviceGetCount", (int *))                                                                   \
  F(cuDeviceGet, "cuDeviceGet", (CUdevice *, int))                                                                   \
  F(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int *, int, CUdevice))                                            \
  F(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice))                                   \
  F(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice))                                           \
  F(cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext))                                                                 \
  F(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t))                                                            \
  F(cuMemFree, "cuMemFree_v2", (CUdeviceptr))                                                                        \
  F(cuMemcpyHtoD, "cuMemcpyHtoD_v2", (CUdeviceptr, const void *, size_t))                                            \
  F(cuMemcpyDtoH, "cuMemcpyDtoH_v2", (void *, CUdeviceptr, size_t))                                                  \
  F(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (CUdeviceptr, CUdeviceptr, size_t, CUstream))                         \
  F(cuMemsetD8Async, "cuMemsetD8Async", (CUdeviceptr, unsigned char, size_t, CUstream))                              \
  F(cuModuleLoadData, "cuModuleLoadData", (CUmodule *, const void *))                                                \
  F(cuModuleUnload, "cuModuleUnload", (CUmodule))                                                                    \
  F(cuModuleGetFunction, "cuModuleGetFunction", (CUfunction *, CUmodule, const char *))                              \
  F(cuFuncSetAttribute, "cuFuncSetAttribute", (CUfunction, int, int))                                                \
  F(cuLaunchKernel, "cuLaunchKernel",                                                                                \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **))  \
  F(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", (CUstream *, unsigned, int))                           \
  F(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream))                                                               \
  F(cuStreamQuery, "cuStreamQuery", (CUstream))                                                                      \
  F(cuStreamSynchronize, "cuStreamSynchronize", (CUstream))                                                          \
  F(cuStreamWaitEvent, "cuStreamWaitEvent", (CUstream, CUevent, unsigned))                                           \
  F(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream, int))                                                \
  F(cuStreamEndCapture, "cuStreamEndCapture", (CUstream, CUgraph *))                                                 \
  F(cuEventCreate, "cuEventCreate", (CUevent *, unsigned))                                                           \
  F(cuEventDestroy, "cuEventDestroy_v2", (CUevent))                                                                  \
  F(cuEventRecord, "cuEventRecord", (CUevent, CUstream))                                                             \
  F(cuGraphInstantiate, "cuGraphInstantiateWithFlags", (CUgraphExec *, CUgraph, unsigned long long))                 \
  F(cuGraphLaunch, "cuGraphLaunch", (CUgraphExec, CUstream))                                                         \
  F(cuGraphDestroy, "cuGraphDestroy", (CUgraph))                                                                     \
  F(cuGraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec))                                                         \
  F(cuGetErrorName, "cuGetErrorName", (CUresult, const char **))                                                     \
  F(cuGetErrorString, "cuGetErrorString", (CUresult, const char **))

typedef struct {
  unsigned char internal[MGX_UNIQUE_ID_BYTES];
} ncclUniqueId;
typedef struct ncclComm *ncclComm_t;

enum { NCCL_IN_PROGRESS = 7, NCCL_NO_COLOR = -1 };

#define MGX_NCCL_FUNCTIONS(F)                                                                        \
  F(ncclGetUniqueId, "ncclGetUniqueId", (ncclUniqueId *))                                            \
  F(ncclCommInitRank, "ncclCommInitRank", (ncclComm_t *, int, ncclUniqueId, int))                    \
  F(ncclCommSplit, "ncclCommSplit", (ncclComm_t, int, int, ncclComm_t *, void *))                    \
  F(ncclCommGetAsyncError, "ncclCommGetAsyncError", (ncclComm_t, int *))                             \
  F(ncclCommDestroy, "ncclCommDestroy", (ncclComm_t))                                                \
  F(ncclCommAbort, "ncclCommAbort", (ncclComm_t))                                                    \
  F(ncclGroupStart, "ncclGroupStart", (void))                                                        \
  F(ncclGroupEnd, "ncclGroupEnd", (void))                                                            \
  F(ncclAllReduce, "ncclAllReduce", (CUdeviceptr, CUdeviceptr, size_t, int, int, ncclComm_t, CUstream))        \
  F(ncclAllGather, "ncclAllGather", (CUdeviceptr, CUdeviceptr, size_t, int, ncclComm_t, CUstream))             \
  F(ncclReduceScatter, "ncclReduceScatter", (CUdeviceptr, CUdeviceptr, size_t, int, int, ncclComm_t, CUstream)) \
  F(ncclBroadcast, "ncclBroadcast", (CUdeviceptr, CUdeviceptr, size_t, int, int, ncclComm_t, CUstream))        \
  F(ncclReduce, "ncclReduce", (CUdeviceptr, CUdeviceptr, size_t, int, int, int, ncclComm_t, CUstream))         \
  F(ncclSend, "ncclSend", (CUdeviceptr, size_t, int, int, ncclComm_t, CUstream))                     \
  F(ncclRecv, "ncclRecv", (CUdeviceptr, size_t, int, int, ncclComm_t, CUstream))

#define MGX_DECLARE(name, symbol, parameters) int(*name) parameters;
typedef struct {
  MGX_CUDA_FUNCTIONS(MGX_DECLARE)
  CUresult (*cuFuncGetParamInfo)(CUfunction, size_t, size_t *, size_t *); /* NULL in drivers before CUDA 12.4 */
  MGX_NCCL_FUNCTIONS(MGX_DECLARE)
  const char *(*ncclGetErrorString)(int);
} mgx_driver;
#undef MGX_DECLARE

extern mgx_driver mgx_gpu;

/* Load libcuda and initialize CUDA, or load libnccl. Both stay loaded. MGX_MISSING: the library is missing or too old. */
mgx_status mgx_load_cuda(void);
mgx_status mgx_load_nccl(void);

/* Convert the result of a CUDA or NCCL call to a status and set the error message. */
mgx_status mgx_cuda_status(CUresult result, const char *name);
mgx_status mgx_nccl_status(int result, const char *name);

#define MGX_CUDA(name, ...) MGX_TRY(mgx_cuda_status(mgx_gpu.name(__VA_ARGS__), #name))
#define MGX_NCCL(name, ...) MGX_TRY(mgx_nccl_status(mgx_gpu.name(__VA_ARGS__), #name))

#endif
