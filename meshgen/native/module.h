/* An open module: its table, and what its local ranks have on their devices. */
#ifndef MESHGEN_MODULE_H
#define MESHGEN_MODULE_H

#include "driver.h"
#include "table.h"

typedef struct {
  CUfunction function;
  unsigned threads, shared_bytes;
  const uint64_t *grid; /* in place of that of its launches; NULL: it is that */
} mgx_kernel;

typedef struct {
  int number; /* in the world */
  const mgx_part *part;
  CUdevice device;
  CUcontext context;
  int capability[2];
  CUdeviceptr memory;
  CUmodule *modules;   /* by member of the table; NULL: not loaded */
  mgx_kernel *kernels; /* by function of the table */
  CUstream streams[MGX_STREAMS];
  CUevent *events;
  CUevent fork, joins[MGX_STREAMS];
  ncclComm_t *comms; /* of all ranks, then the splits; NULL: it is in none */
} mgx_rank;

/* A segment: NULL until it has run once launch by launch, then captured. */
typedef struct {
  bool has_run;
  CUgraphExec graph;
} mgx_segment;

/* A part with local ranks: how far its step is. */
typedef struct {
  const mgx_part *part;
  mgx_rank *ranks; /* the local ones, one after the other */
  size_t count;
  mgx_segment *segments; /* for each of the part: its graph for all local ranks */
  size_t place;          /* in the control */
  CUstream waits_for;    /* NULL: nothing */
  bool is_done;
} mgx_local_part;

struct mgx_module {
  mgx_container container; /* while it is opened */
  mgx_table table;
  mgx_options options;
  mgx_rank *ranks;
  size_t rank_count;
  mgx_local_part *parts;
  size_t part_count;
  int *inputs; /* arguments that callers pass */
  int input_count;
  bool has_failed;
};

/* devices.c: what a rank has on its device. */
mgx_status mgx_rank_open(mgx_module *module, mgx_rank *rank, int ordinal);
void mgx_rank_close(const mgx_module *module, mgx_rank *rank);

/* kernels.c: loads every kernel for the rank's device. */
mgx_status mgx_kernels_load(const mgx_module *module, mgx_rank *rank);

/* communicators.c: of all local ranks; and whether NCCL has lost a peer. */
mgx_status mgx_comms_open(mgx_module *module);
mgx_status mgx_comms_look(mgx_module *module);
void mgx_comms_close(mgx_module *module, bool abort);

/* issue.c: gives a segment of a part to the devices; `waits_for` is idle when it is done. */
mgx_status mgx_issue(mgx_local_part *part, size_t segment);

/* arrays.c: constants and stored arguments. */
mgx_status mgx_upload_stored(mgx_module *module);

#endif
