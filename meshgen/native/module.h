/* An open module: its launch table, and the device resources of its local ranks. */
#ifndef MESHGEN_MODULE_H
#define MESHGEN_MODULE_H

#include "driver.h"
#include "table.h"

typedef struct {
  CUfunction function;
  unsigned threads, shared_bytes;
  const uint64_t *grid; /* overrides the grid of its launches; NULL: no override */
} mgx_kernel;

typedef struct {
  int number; /* global rank */
  const mgx_part *part;
  CUdevice device;
  CUcontext context;
  int capability[2];
  CUdeviceptr memory;
  CUmodule *modules;   /* by member of the table; NULL: not loaded yet */
  mgx_kernel *kernels; /* by function of the table */
  CUstream streams[MGX_STREAMS];
  CUevent *events;
  CUevent fork, joins[MGX_STREAMS];
  ncclComm_t *comms; /* the communicator of all ranks, then its splits; NULL: this rank is in no group of the split */
} mgx_rank;

/* A segment. Its first run is issued launch by launch. The second run captures the graph, which is NULL until then. */
typedef struct {
  bool has_run;
  CUgraphExec graph;
} mgx_segment;

/* A part that has local ranks, and the progress of its step. */
typedef struct {
  const mgx_part *part;
  mgx_rank *ranks; /* array of the local ranks */
  size_t count;
  mgx_segment *segments; /* per segment of the part: its graph for all local ranks */
  size_t position;       /* of the next instruction in the control words */
  CUstream pending;      /* stream that must be idle before the next instruction; NULL: none */
  bool is_done;
} mgx_local_part;

struct mgx_module {
  mgx_container container; /* used only while the module is being opened */
  mgx_table table;
  mgx_options options;
  mgx_rank *ranks;
  size_t rank_count;
  mgx_local_part *parts;
  size_t part_count;
  int *inputs; /* indices of the arguments that callers pass */
  int input_count;
  bool has_failed;
};

/* devices.c: creates and frees the device resources of a rank. */
mgx_status mgx_rank_open(mgx_module *module, mgx_rank *rank, int ordinal);
void mgx_rank_close(const mgx_module *module, mgx_rank *rank);

/* kernels.c: loads every kernel for the rank's device. */
mgx_status mgx_kernels_load(const mgx_module *module, mgx_rank *rank);

/* communicators.c: creates the communicators of all local ranks, checks whether NCCL has lost a peer, and frees them. */
mgx_status mgx_comms_open(mgx_module *module);
mgx_status mgx_comms_check(mgx_module *module);
void mgx_comms_close(mgx_module *module, bool abort);

/* issue.c: issues a segment of a part. The stream `pending` becomes idle when the segment has finished. */
mgx_status mgx_issue(mgx_local_part *part, size_t segment);

/* arrays.c: uploads constants and stored arguments. */
mgx_status mgx_upload_stored(mgx_module *module);

#endif
