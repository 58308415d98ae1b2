/* The communicators of the local ranks: one of all ranks, and a split of it for each list of mesh axes that NCCL calls use. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"

mgx_status mgx_unique_id(unsigned char id[MGX_UNIQUE_ID_BYTES]) {
  MGX_TRY(mgx_load_cuda());
  MGX_TRY(mgx_load_nccl());
  MGX_NCCL(ncclGetUniqueId, (ncclUniqueId *)id);
  return MGX_OK;
}

/* One thread must create the communicators of several ranks in an NCCL group. The group is ended after a failure too. */
static mgx_status open_world(mgx_module *module, ncclUniqueId id) {
  MGX_NCCL(ncclGroupStart, );
  mgx_status status = MGX_OK;
  for (size_t i = 0; !status && i < module->rank_count; i++) {
    mgx_rank *rank = module->ranks + i;
    status = mgx_cuda_status(mgx_gpu.cuCtxSetCurrent(rank->context), "cuCtxSetCurrent");
    if (status) break;
    int result = mgx_gpu.ncclCommInitRank(rank->comms, (int)module->table.ranks, id, rank->number);
    status = mgx_nccl_status(result, "ncclCommInitRank");
  }
  int result = mgx_gpu.ncclGroupEnd();
  return status ? status : mgx_nccl_status(result, "ncclGroupEnd");
}

static mgx_status open_split(mgx_module *module, size_t index) {
  const uint64_t *split = module->table.splits.items[index].words;
  MGX_NCCL(ncclGroupStart, );
  mgx_status status = MGX_OK;
  for (size_t i = 0; !status && i < module->rank_count; i++) {
    mgx_rank *rank = module->ranks + i;
    const uint64_t *color_and_key = split + 2 * (size_t)rank->number;
    int color = color_and_key[0] == UINT64_MAX ? NCCL_NO_COLOR : (int)color_and_key[0];
    status = mgx_cuda_status(mgx_gpu.cuCtxSetCurrent(rank->context), "cuCtxSetCurrent");
    if (status) break;
    int result = mgx_gpu.ncclCommSplit(rank->comms[0], color, (int)color_and_key[1], rank->comms + 1 + index, NULL);
    status = mgx_nccl_status(result, "ncclCommSplit");
  }
  int result = mgx_gpu.ncclGroupEnd();
  return status ? status : mgx_nccl_status(result, "ncclGroupEnd");
}

/* Whether NCCL calls are issued in several streams. */
static bool has_several_streams(const mgx_table *table) {
  for (size_t n = 0; n < table->part_count; n++)
    for (size_t i = 0; i < table->parts[n].operations.count; i++) {
      mgx_list op = table->parts[n].operations.items[i];
      for (const uint64_t *call = op.words + GROUP_CALLS; op.words[0] == OP_GROUP && call < op.words + op.count; call += MGX_CALL_WORDS)
        if (call[CALL_STREAM] > 1) return true;
    }
  return false;
}

mgx_status mgx_comms_open(mgx_module *module) {
  if (module->table.ranks < 2) return MGX_OK; /* a single device needs no communicator */
  /* Makes collectives of a device start in issue order even in several streams, as on all other devices; otherwise they could
     deadlock. NCCL reads the variable at its first use. */
  if (has_several_streams(&module->table)) setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
  ncclUniqueId id;
  MGX_TRY(mgx_load_nccl());
  if (module->options.unique_id)
    memcpy(id.internal, module->options.unique_id, sizeof id.internal);
  else
    MGX_NCCL(ncclGetUniqueId, &id);
  MGX_TRY(open_world(module, id));
  for (size_t i = 0; i < module->table.splits.count; i++) MGX_TRY(open_split(module, i));
  return MGX_OK;
}

mgx_status mgx_comms_check(mgx_module *module) {
  for (size_t i = 0; i < module->rank_count; i++)
    for (size_t n = 0; n <= module->table.splits.count; n++) {
      ncclComm_t comm = module->ranks[i].comms[n];
      int state = 0;
      if (!comm) continue;
      MGX_NCCL(ncclCommGetAsyncError, comm, &state);
      if (state && state != NCCL_IN_PROGRESS)
        return mgx_fail(MGX_FAILED, "MG0604: NCCL lost a peer: %s", mgx_gpu.ncclGetErrorString(state));
    }
  return MGX_OK;
}

void mgx_comms_close(mgx_module *module, bool abort) {
  for (size_t i = 0; i < module->rank_count; i++)
    for (size_t n = module->table.splits.count + 1; module->ranks[i].comms && n-- > 0;) {
      ncclComm_t comm = module->ranks[i].comms[n];
      if (comm) abort ? mgx_gpu.ncclCommAbort(comm) : mgx_gpu.ncclCommDestroy(comm);
      module->ranks[i].comms[n] = NULL;
    }
}
