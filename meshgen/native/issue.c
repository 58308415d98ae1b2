/* Issues segments. A segment is work of all local ranks of a part that needs no decision of the host. It becomes one CUDA graph.

   NCCL calls with the same group number are issued together, so that one thread can issue them for several ranks. */
#include <stdlib.h>

#include "module.h"

static mgx_status launch(mgx_rank *rank, mgx_list op) {
  enum { SMALL = 64 };
  const uint64_t *words = op.words;
  size_t count = (size_t)words[LAUNCH_COUNT];
  const mgx_kernel *kernel = rank->kernels + words[LAUNCH_FUNCTION];
  const uint64_t *grid = kernel->grid ? kernel->grid : words + LAUNCH_GRID;
  uint64_t small_values[SMALL], *values = small_values;
  void *small_pointers[SMALL], **pointers = small_pointers;
  if (count > SMALL) {
    values = malloc(count * sizeof *values);
    pointers = malloc(count * sizeof *pointers);
  }
  mgx_status status = values && pointers ? MGX_OK : mgx_fail(MGX_FAILED, "MG0005: not enough memory");
  for (size_t i = 0; !status && i < count; i++) {
    const uint64_t *parameter = words + LAUNCH_PARAMETERS + 3 * i;
    values[i] = parameter[1] + (parameter[0] == PARAMETER_POINTER ? rank->memory : 0);
    pointers[i] = values + i; /* a 32-bit parameter is the low half, which is first in memory */
  }
  if (!status)
    status = mgx_cuda_status(
        mgx_gpu.cuLaunchKernel(kernel->function, (unsigned)grid[0], (unsigned)grid[1], (unsigned)grid[2], kernel->threads, 1,
                               1, kernel->shared_bytes, rank->streams[words[LAUNCH_STREAM]], count ? pointers : NULL, NULL),
        "cuLaunchKernel");
  if (values != small_values) free(values);
  if (pointers != small_pointers) free(pointers);
  return status;
}

/* Issues an operation that involves no other rank. */
static mgx_status issue_local(mgx_rank *rank, mgx_list op) {
  const uint64_t *words = op.words;
  CUstream stream = rank->streams[words[1]];
  switch (words[0]) {
    case OP_LAUNCH:
      return launch(rank, op);
    case OP_COPY:
      if (words[COPY_NBYTES])
        MGX_CUDA(cuMemcpyDtoDAsync, rank->memory + words[COPY_TARGET], rank->memory + words[COPY_SOURCE],
                 (size_t)words[COPY_NBYTES], stream);
      return MGX_OK;
    case OP_CLEAR:
      if (words[CLEAR_NBYTES])
        MGX_CUDA(cuMemsetD8Async, rank->memory + words[CLEAR_TARGET], 0, (size_t)words[CLEAR_NBYTES], stream);
      return MGX_OK;
    case OP_RECORD:
      MGX_CUDA(cuEventRecord, rank->events[words[EVENT_NUMBER]], stream);
      return MGX_OK;
    default:
      MGX_CUDA(cuStreamWaitEvent, stream, rank->events[words[EVENT_NUMBER]], 0);
      return MGX_OK;
  }
}

static mgx_status issue_call(mgx_rank *rank, const uint64_t *call) {
  CUdeviceptr source = rank->memory + call[CALL_SOURCE], target = rank->memory + call[CALL_TARGET];
  size_t count = (size_t)call[CALL_COUNT];
  int dtype = (int)call[CALL_DTYPE], reduction = (int)call[CALL_REDUCTION], peer = (int)call[CALL_PEER];
  ncclComm_t comm = rank->comms[call[CALL_COMM]];
  CUstream stream = rank->streams[call[CALL_STREAM]];
  switch (call[CALL_KIND]) {
    case CALL_ALL_REDUCE:
      MGX_NCCL(ncclAllReduce, source, target, count, dtype, reduction, comm, stream);
      return MGX_OK;
    case CALL_ALL_GATHER:
      MGX_NCCL(ncclAllGather, source, target, count, dtype, comm, stream);
      return MGX_OK;
    case CALL_REDUCE_SCATTER:
      MGX_NCCL(ncclReduceScatter, source, target, count, dtype, reduction, comm, stream);
      return MGX_OK;
    case CALL_BROADCAST:
      MGX_NCCL(ncclBroadcast, source, target, count, dtype, peer, comm, stream);
      return MGX_OK;
    case CALL_REDUCE:
      MGX_NCCL(ncclReduce, source, target, count, dtype, reduction, peer, comm, stream);
      return MGX_OK;
    case CALL_SEND:
      MGX_NCCL(ncclSend, source, count, dtype, peer, comm, stream);
      return MGX_OK;
    default:
      MGX_NCCL(ncclRecv, target, count, dtype, peer, comm, stream);
      return MGX_OK;
  }
}

/* Returns the operations of a rank in a segment. */
static mgx_list program_of(const mgx_local_part *part, const mgx_rank *rank, size_t segment) {
  const mgx_part *table_part = part->part;
  uint64_t rank_in_part = (uint64_t)rank->number - table_part->first;
  return table_part->programs.items[table_part->segments.items[segment].words[rank_in_part]];
}

static mgx_list operation(const mgx_local_part *part, mgx_list program, size_t position) {
  return part->part->operations.items[program.words[position]];
}

/* Issues the operations of each rank up to its next group. Sets `group` to the lowest of these group numbers, or to UINT64_MAX
   if no group is left. */
static mgx_status issue_until_group(mgx_local_part *part, size_t segment, size_t *positions, uint64_t *group) {
  *group = UINT64_MAX;
  for (size_t i = 0; i < part->count; i++) {
    mgx_rank *rank = part->ranks + i;
    mgx_list program = program_of(part, rank, segment);
    MGX_CUDA(cuCtxSetCurrent, rank->context);
    for (; positions[i] < program.count; positions[i]++) {
      mgx_list op = operation(part, program, positions[i]);
      if (op.words[0] == OP_GROUP) {
        if (op.words[GROUP_NUMBER] < *group) *group = op.words[GROUP_NUMBER];
        break;
      }
      MGX_TRY(issue_local(rank, op));
    }
  }
  return MGX_OK;
}

static mgx_status issue_group(mgx_local_part *part, size_t segment, size_t *positions, uint64_t group) {
  mgx_status status = MGX_OK;
  MGX_NCCL(ncclGroupStart, );
  for (size_t i = 0; !status && i < part->count; i++) {
    mgx_rank *rank = part->ranks + i;
    mgx_list program = program_of(part, rank, segment);
    if (positions[i] == program.count) continue;
    const uint64_t *op = operation(part, program, positions[i]).words;
    if (op[GROUP_NUMBER] != group) continue;
    for (uint64_t n = 0; !status && n < op[GROUP_COUNT]; n++)
      status = issue_call(rank, op + GROUP_CALLS + n * MGX_CALL_WORDS);
    positions[i]++;
  }
  int result = mgx_gpu.ncclGroupEnd();
  return status ? status : mgx_nccl_status(result, "ncclGroupEnd");
}

static mgx_status issue_all(mgx_local_part *part, size_t segment) {
  size_t *positions = calloc(part->count, sizeof *positions);
  if (!positions) return mgx_fail(MGX_FAILED, "MG0005: not enough memory");
  uint64_t group;
  mgx_status status = issue_until_group(part, segment, positions, &group);
  while (!status && group != UINT64_MAX) {
    status = issue_group(part, segment, positions, group);
    if (!status) status = issue_until_group(part, segment, positions, &group);
  }
  free(positions);
  return status;
}

/* Makes all streams of the local ranks wait for the first stream of the first rank. */
static mgx_status fork_streams(mgx_local_part *part) {
  mgx_rank *first = part->ranks;
  MGX_CUDA(cuCtxSetCurrent, first->context);
  MGX_CUDA(cuEventRecord, first->fork, first->streams[0]);
  for (size_t i = 0; i < part->count; i++)
    for (int n = 0; n < MGX_STREAMS; n++)
      if (i || n) MGX_CUDA(cuStreamWaitEvent, part->ranks[i].streams[n], first->fork, 0);
  return MGX_OK;
}

/* Makes the first stream of the first rank wait for all streams of the local ranks. */
static mgx_status join_streams(mgx_local_part *part) {
  for (size_t i = 0; i < part->count; i++) {
    mgx_rank *rank = part->ranks + i;
    MGX_CUDA(cuCtxSetCurrent, rank->context);
    for (int n = 0; n < MGX_STREAMS; n++) {
      if (!i && !n) continue;
      MGX_CUDA(cuEventRecord, rank->joins[n], rank->streams[n]);
      MGX_CUDA(cuStreamWaitEvent, part->ranks->streams[0], rank->joins[n], 0);
    }
  }
  return MGX_OK;
}

static mgx_status issue_joined(mgx_local_part *part, size_t segment) {
  MGX_TRY(fork_streams(part));
  MGX_TRY(issue_all(part, segment));
  return join_streams(part);
}

static mgx_status capture(mgx_local_part *part, size_t segment) {
  CUgraph graph = NULL;
  CUstream origin = part->ranks->streams[0];
  MGX_CUDA(cuCtxSetCurrent, part->ranks->context);
  MGX_CUDA(cuStreamBeginCapture, origin, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  mgx_status status = issue_joined(part, segment);
  CUresult result = mgx_gpu.cuStreamEndCapture(origin, &graph);
  if (status) return status;
  MGX_TRY(mgx_cuda_status(result, "cuStreamEndCapture"));
  result = mgx_gpu.cuGraphInstantiate(&part->segments[segment].graph, graph, 0);
  mgx_gpu.cuGraphDestroy(graph);
  return mgx_cuda_status(result, "cuGraphInstantiate");
}

mgx_status mgx_issue(mgx_local_part *part, size_t segment) {
  mgx_segment *state = part->segments + segment;
  /* The first use of kernels and of NCCL connections allocates memory, which is not allowed during a capture. */
  if (!state->has_run) {
    state->has_run = true;
    MGX_TRY(issue_joined(part, segment));
  } else {
    if (!state->graph) MGX_TRY(capture(part, segment));
    MGX_CUDA(cuCtxSetCurrent, part->ranks->context);
    MGX_CUDA(cuGraphLaunch, state->graph, part->ranks->streams[0]);
  }
  part->pending = part->ranks->streams[0];
  return MGX_OK;
}
