/* A rank's GPU: its context, memory, streams and events. All are created when the module is opened. */
#include <stdlib.h>

#include "module.h"

/* A lower number is a higher priority, so communication gets multiprocessors first, as in the Python executor. */
static mgx_status open_streams(mgx_rank *rank) {
  for (int i = 0; i < MGX_STREAMS; i++) {
    MGX_CUDA(cuStreamCreateWithPriority, &rank->streams[i], CU_STREAM_NON_BLOCKING, -i);
    MGX_CUDA(cuEventCreate, &rank->joins[i], CU_EVENT_DISABLE_TIMING);
  }
  MGX_CUDA(cuEventCreate, &rank->fork, CU_EVENT_DISABLE_TIMING);
  for (uint64_t i = 0; i < rank->part->events; i++) MGX_CUDA(cuEventCreate, &rank->events[i], CU_EVENT_DISABLE_TIMING);
  return MGX_OK;
}

mgx_status mgx_rank_open(mgx_module *module, mgx_rank *rank, int ordinal) {
  const mgx_table *table = &module->table;
  rank->events = calloc((size_t)rank->part->events + 1, sizeof *rank->events);
  rank->modules = calloc(table->member_count + 1, sizeof *rank->modules);
  rank->kernels = calloc(table->function_count + 1, sizeof *rank->kernels);
  rank->comms = calloc(table->splits.count + 1, sizeof *rank->comms);
  if (!rank->events || !rank->modules || !rank->kernels || !rank->comms)
    return mgx_fail(MGX_FAILED, "MG0005: not enough memory");
  MGX_CUDA(cuDeviceGet, &rank->device, ordinal);
  MGX_CUDA(cuDeviceGetAttribute, rank->capability, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, rank->device);
  MGX_CUDA(cuDeviceGetAttribute, rank->capability + 1, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, rank->device);
  MGX_CUDA(cuDevicePrimaryCtxRetain, &rank->context, rank->device);
  MGX_CUDA(cuCtxSetCurrent, rank->context);
  if (rank->part->memory) MGX_CUDA(cuMemAlloc, &rank->memory, (size_t)rank->part->memory);
  MGX_TRY(open_streams(rank));
  return mgx_kernels_load(module, rank);
}

void mgx_rank_close(const mgx_module *module, mgx_rank *rank) {
  if (rank->context) {
    mgx_gpu.cuCtxSetCurrent(rank->context);
    for (int i = 0; i < MGX_STREAMS; i++) {
      if (rank->streams[i] && !module->has_failed) mgx_gpu.cuStreamSynchronize(rank->streams[i]);
      if (rank->streams[i]) mgx_gpu.cuStreamDestroy(rank->streams[i]);
      if (rank->joins[i]) mgx_gpu.cuEventDestroy(rank->joins[i]);
    }
    if (rank->fork) mgx_gpu.cuEventDestroy(rank->fork);
    for (uint64_t i = 0; rank->events && i < rank->part->events; i++)
      if (rank->events[i]) mgx_gpu.cuEventDestroy(rank->events[i]);
    for (size_t i = 0; rank->modules && i < module->table.member_count; i++)
      if (rank->modules[i]) mgx_gpu.cuModuleUnload(rank->modules[i]);
    if (rank->memory) mgx_gpu.cuMemFree(rank->memory);
    mgx_gpu.cuDevicePrimaryCtxRelease(rank->device);
  }
  free(rank->events);
  free(rank->modules);
  free(rank->kernels);
  free(rank->comms);
}
