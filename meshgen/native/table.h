/* The launch table: the operations of each rank in a step, as 64-bit little-endian words. `meshgen/runtime/native` writes it.

   Each rank's memory is one allocation, and buffers are byte offsets in it. Lists point into the table's words. */
#ifndef MESHGEN_TABLE_H
#define MESHGEN_TABLE_H

#include "internal.h"

#define MGX_TABLE "native/table.bin"

enum {
  MGX_VERSION = 2,
  MGX_STREAMS = 3,          /* per rank: stream 0 computes, 1 and 2 communicate */
  MGX_MAX_DIMS = 64,
  MGX_MAX_PARAMETERS = 4096, /* per kernel (CUDA allows 32,764 bytes of parameters, each at least 4 bytes in a table) */
  MGX_CALL_WORDS = 9
};

/* The same numbers as in `meshgen/runtime/native/words.py`. A test compares them. */
enum mgx_op { OP_LAUNCH = 1, OP_COPY, OP_CLEAR, OP_RECORD, OP_WAIT, OP_GROUP };
enum mgx_parameter { PARAMETER_POINTER = 1, PARAMETER_WORD32, PARAMETER_WORD64 };
enum mgx_call { CALL_ALL_REDUCE = 1, CALL_ALL_GATHER, CALL_REDUCE_SCATTER, CALL_BROADCAST, CALL_REDUCE, CALL_SEND, CALL_RECEIVE };
enum mgx_control { CONTROL_END, CONTROL_RUN, CONTROL_JUMP, CONTROL_ONLY, CONTROL_CHOOSE };
enum mgx_code { CODE_CUBIN = 1, CODE_PTX };
enum mgx_filler { FILLER_ARRAY, FILLER_CONSTANT };

typedef struct {
  const uint64_t *words;
  size_t count;
} mgx_list;

typedef struct {
  mgx_list *items;
  size_t count;
} mgx_lists;

/* Positions of the words of an operation. */
enum { LAUNCH_STREAM = 1, LAUNCH_FUNCTION, LAUNCH_GRID, LAUNCH_COUNT = 6, LAUNCH_PARAMETERS };
enum { COPY_STREAM = 1, COPY_TARGET, COPY_SOURCE, COPY_NBYTES, COPY_WORDS };
enum { CLEAR_STREAM = 1, CLEAR_TARGET, CLEAR_NBYTES, CLEAR_WORDS };
enum { EVENT_STREAM = 1, EVENT_NUMBER, EVENT_WORDS };
enum { GROUP_NUMBER = 1, GROUP_COUNT, GROUP_CALLS };
/* Positions of the words of an NCCL call in a group. */
enum { CALL_KIND, CALL_COMM, CALL_STREAM, CALL_SOURCE, CALL_TARGET, CALL_COUNT, CALL_DTYPE, CALL_REDUCTION, CALL_PEER };
/* Positions of the words of a code variant. */
enum { CODE_KIND, CODE_ARCH, CODE_EXACT, CODE_MEMBER, CODE_THREADS, CODE_SHARED, CODE_GRID, CODE_WORDS = CODE_GRID + 3 };
/* Positions of the words of a control instruction. */
enum { ONLY_FIRST = 1, ONLY_RANKS, ONLY_TARGET, ONLY_WORDS };
enum { CHOOSE_FIRST = 1, CHOOSE_RANKS, CHOOSE_OFFSET, CHOOSE_NBYTES, CHOOSE_COUNT, CHOOSE_TARGETS };
/* Positions of the words of a constant, and of an argument's and a result's shard, each of which ends with a box. */
enum { CONSTANT_PART, CONSTANT_OFFSET, CONSTANT_NBYTES, CONSTANT_MEMBER, CONSTANT_MEMBER_OFFSET, CONSTANT_WORDS };
enum { SHARD_FILLER, SHARD_POISON, SHARD_VALUE = 3, SHARD_BOX = 5, RESULT_IS_COPIED = 0, RESULT_BOX };

typedef struct {
  const char *entry;
  mgx_lists codes; /* code variants, best first */
} mgx_function;

/* The ranks of one mesh. */
typedef struct {
  uint64_t first, ranks;
  uint64_t memory; /* bytes per rank */
  uint64_t events; /* events per rank */
  mgx_lists operations;
  mgx_lists programs; /* lists of operation indices */
  mgx_lists segments; /* per segment: the program index of each rank */
  mgx_list control;
} mgx_part;

/* An argument or result of the program. */
typedef struct {
  const char *name, *dtype;
  uint64_t itemsize, part, offset;
  mgx_list shape, local; /* global and local sizes */
  uint64_t nbytes, local_nbytes;
  uint64_t stored;   /* 1 + index of the member with its value; 0: callers pass it */
  uint64_t stored_offset;
  mgx_lists shards;  /* distinct shards */
  mgx_list shard_of; /* shard index of each rank of the part */
} mgx_tensor;

typedef struct {
  uint64_t *words; /* a copy, so that later changes of the file have no effect */
  uint64_t ranks;
  const char **members;
  mgx_function *functions;
  mgx_lists splits;      /* splits of the communicator of all ranks: color and key of each rank */
  uint64_t *group_sizes; /* per split: the number of ranks in each group */
  mgx_part *parts;
  mgx_lists constants;
  mgx_tensor *arguments, *results;
  size_t member_count, function_count, part_count, argument_count, result_count;
} mgx_table;

/* table.c: reads the launch table of a module whose digests have been checked. */
mgx_status mgx_table_read(const mgx_container *container, mgx_table *table);
void mgx_table_free(mgx_table *table);

/* check.c, check_work.c: check that every index is in range and every buffer is inside the memory of its rank. The time is linear
   in the words of the table. `mgx_table_check` also fills in `group_sizes`. */
mgx_status mgx_table_check(const mgx_container *container, mgx_table *table);
mgx_status mgx_work_check(const mgx_container *container, const mgx_table *table, const mgx_part *part);

/* Returns the element size in bytes of an NCCL data type. */
uint64_t mgx_dtype_bytes(uint64_t dtype);
bool mgx_is_grid(const uint64_t *sizes);

#endif
