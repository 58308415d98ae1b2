/* Copies global tensors of the host to the shards of the local ranks and back. The launch table describes shards as boxes. */
#include <stdlib.h>
#include <string.h>

#include "module.h"

/* An iterator over the rows of a box. A row is contiguous both in the global tensor and in the shard. */
typedef struct {
  const mgx_tensor *tensor;
  const uint64_t *box;
  uint64_t index[MGX_MAX_DIMS]; /* of the row, in all dims except the last */
} row_iterator;

static size_t dims(const mgx_tensor *tensor) { return tensor->shape.count; }

/* Returns the bytes of a row, and its byte offsets in the global tensor and in the shard. */
static size_t row_bytes(const row_iterator *at, size_t *global, size_t *local) {
  const mgx_tensor *tensor = at->tensor;
  *global = *local = 0;
  for (size_t dim = 0; dim < dims(tensor); dim++) {
    const uint64_t *box = at->box + 3 * dim, index = dim + 1 < dims(tensor) ? at->index[dim] : 0;
    *global = *global * (size_t)tensor->shape.words[dim] + (size_t)(box[0] + index);
    *local = *local * (size_t)tensor->local.words[dim] + (size_t)(box[1] + index);
  }
  size_t itemsize = (size_t)tensor->itemsize, count = dims(tensor) ? (size_t)at->box[3 * (dims(tensor) - 1) + 2] : 1;
  *global *= itemsize, *local *= itemsize;
  return count * itemsize;
}

static bool next_row(row_iterator *at) {
  for (size_t dim = dims(at->tensor); dim-- > 1;) {
    if (++at->index[dim - 1] < at->box[3 * (dim - 1) + 2]) return true;
    at->index[dim - 1] = 0;
  }
  return false;
}

static bool is_empty(const row_iterator *at) {
  for (size_t dim = 0; dim < dims(at->tensor); dim++)
    if (!at->box[3 * dim + 2]) return true;
  return false;
}

/* Whether a box covers the global tensor and the shard, so that both have the same bytes. */
static bool covers_both(const row_iterator *at) {
  for (size_t dim = 0; dim < dims(at->tensor); dim++)
    if (at->box[3 * dim + 2] != at->tensor->shape.words[dim] || at->box[3 * dim + 2] != at->tensor->local.words[dim]) return false;
  return true;
}

static const uint64_t *shard_of(const mgx_module *module, const mgx_tensor *tensor, const mgx_rank *rank) {
  uint64_t first = module->table.parts[tensor->part].first;
  return tensor->shards.items[tensor->shard_of.words[(uint64_t)rank->number - first]].words;
}

static void fill(unsigned char *target, const mgx_tensor *tensor, const void *element) {
  size_t itemsize = (size_t)tensor->itemsize;
  for (size_t offset = 0; offset < tensor->local_nbytes; offset += itemsize) memcpy(target + offset, element, itemsize);
}

/* Fills a rank's shard: its box with rows of the argument or with a constant, everything else with poison. */
static void scatter(const mgx_tensor *tensor, const uint64_t *shard, const unsigned char *data, unsigned char *target) {
  row_iterator at = {tensor, shard + SHARD_BOX, {0}};
  size_t global, local, itemsize = (size_t)tensor->itemsize;
  fill(target, tensor, shard + SHARD_POISON);
  if (is_empty(&at)) return;
  do {
    size_t nbytes = row_bytes(&at, &global, &local);
    if (shard[SHARD_FILLER] == FILLER_ARRAY)
      memcpy(target + local, data + global, nbytes);
    else
      for (size_t n = 0; n < nbytes; n += itemsize) memcpy(target + local + n, shard + SHARD_VALUE, itemsize);
  } while (next_row(&at));
}

static void gather(const mgx_tensor *tensor, const uint64_t *shard, const unsigned char *source, unsigned char *data) {
  row_iterator at = {tensor, shard + RESULT_BOX, {0}};
  size_t global, local;
  if (is_empty(&at)) return;
  do {
    size_t nbytes = row_bytes(&at, &global, &local);
    memcpy(data + global, source + local, nbytes);
  } while (next_row(&at));
}

static mgx_status upload(mgx_module *module, const mgx_tensor *tensor, const unsigned char *data) {
  unsigned char *staging = tensor->local_nbytes ? malloc((size_t)tensor->local_nbytes) : NULL;
  mgx_status status = staging || !tensor->local_nbytes ? MGX_OK : mgx_fail(MGX_FAILED, "MG0005: not enough memory");
  for (size_t i = 0; staging && !status && i < module->rank_count; i++) {
    mgx_rank *rank = module->ranks + i;
    if (rank->part != module->table.parts + tensor->part) continue;
    const uint64_t *shard = shard_of(module, tensor, rank);
    row_iterator at = {tensor, shard + SHARD_BOX, {0}};
    const unsigned char *source = data;
    if (shard[SHARD_FILLER] != FILLER_ARRAY || !covers_both(&at)) scatter(tensor, shard, data, staging), source = staging;
    status = mgx_cuda_status(mgx_gpu.cuCtxSetCurrent(rank->context), "cuCtxSetCurrent");
    if (!status)
      status = mgx_cuda_status(mgx_gpu.cuMemcpyHtoD(rank->memory + tensor->offset, source, (size_t)tensor->local_nbytes),
                               "cuMemcpyHtoD");
  }
  free(staging);
  return status;
}

static mgx_status download(mgx_module *module, const mgx_tensor *tensor, unsigned char *data) {
  unsigned char *staging = tensor->local_nbytes ? malloc((size_t)tensor->local_nbytes) : NULL;
  mgx_status status = staging || !tensor->local_nbytes ? MGX_OK : mgx_fail(MGX_FAILED, "MG0005: not enough memory");
  for (size_t i = 0; staging && !status && i < module->rank_count; i++) {
    mgx_rank *rank = module->ranks + i;
    if (rank->part != module->table.parts + tensor->part) continue;
    const uint64_t *shard = shard_of(module, tensor, rank);
    if (!shard[RESULT_IS_COPIED]) continue;
    status = mgx_cuda_status(mgx_gpu.cuCtxSetCurrent(rank->context), "cuCtxSetCurrent");
    if (!status)
      status = mgx_cuda_status(mgx_gpu.cuMemcpyDtoH(staging, rank->memory + tensor->offset, (size_t)tensor->local_nbytes),
                               "cuMemcpyDtoH");
    if (!status) gather(tensor, shard, staging, data);
  }
  free(staging);
  return status;
}

mgx_status mgx_upload_stored(mgx_module *module) {
  const mgx_table *table = &module->table;
  for (size_t i = 0; i < table->constants.count; i++) {
    const uint64_t *at = table->constants.items[i].words;
    const mgx_member *member = mgx_container_find(&module->container, table->members[at[CONSTANT_MEMBER]]);
    for (size_t n = 0; n < module->rank_count; n++) {
      mgx_rank *rank = module->ranks + n;
      if (rank->part != table->parts + at[CONSTANT_PART] || !at[CONSTANT_NBYTES]) continue;
      MGX_CUDA(cuCtxSetCurrent, rank->context);
      MGX_CUDA(cuMemcpyHtoD, rank->memory + at[CONSTANT_OFFSET], member->data + at[CONSTANT_MEMBER_OFFSET],
               (size_t)at[CONSTANT_NBYTES]);
    }
  }
  for (size_t i = 0; i < table->argument_count; i++) {
    const mgx_tensor *tensor = table->arguments + i;
    if (!tensor->stored) continue;
    const mgx_member *member = mgx_container_find(&module->container, table->members[tensor->stored - 1]);
    MGX_TRY(upload(module, tensor, member->data + tensor->stored_offset));
  }
  return MGX_OK;
}

static mgx_status wrong_size(const mgx_tensor *tensor, size_t nbytes) {
  return mgx_fail(MGX_USAGE, "MG0601: '%s' has %zu bytes, not %zu", tensor->name, (size_t)tensor->nbytes, nbytes);
}

mgx_status mgx_upload(mgx_module *module, int input, const void *data, size_t nbytes) {
  if (input < 0 || input >= module->input_count) return mgx_fail(MGX_USAGE, "MG0601: unknown input %d", input);
  const mgx_tensor *tensor = module->table.arguments + module->inputs[input];
  return nbytes == tensor->nbytes ? upload(module, tensor, data) : wrong_size(tensor, nbytes);
}

mgx_status mgx_download(mgx_module *module, int output, void *data, size_t nbytes) {
  if (output < 0 || output >= mgx_outputs(module)) return mgx_fail(MGX_USAGE, "MG0601: unknown output %d", output);
  const mgx_tensor *tensor = module->table.results + output;
  return nbytes == tensor->nbytes ? download(module, tensor, data) : wrong_size(tensor, nbytes);
}
