/* Opens and closes modules, and returns the properties of their arguments and results. */
#include "module.h"

#include <stdlib.h>
#include <string.h>

static mgx_status read_file(const char *path, mgx_container *container, mgx_table *table) {
  MGX_TRY(mgx_container_open(path, container));
  MGX_TRY(mgx_manifest_check(container));
  return mgx_table_read(container, table);
}

static mgx_status list_inputs(mgx_module *module) {
  module->inputs = calloc(module->table.argument_count + 1, sizeof *module->inputs);
  if (!module->inputs) return mgx_fail(MGX_FAILED, "MG0005: not enough memory");
  for (size_t i = 0; i < module->table.argument_count; i++)
    if (!module->table.arguments[i].stored) module->inputs[module->input_count++] = (int)i;
  return MGX_OK;
}

static mgx_status choose_ranks(mgx_module *module) {
  mgx_options *options = &module->options;
  int all = (int)module->table.ranks;
  if (!options->ranks && !options->first_rank) options->ranks = all;
  if (options->first_rank < 0 || options->ranks < 1 || options->ranks > all - options->first_rank)
    return mgx_fail(MGX_USAGE, "MG0001: the module has %d ranks, not %d from rank %d on", all, options->ranks, options->first_rank);
  if (options->ranks < all && !options->unique_id)
    return mgx_fail(MGX_USAGE, "MG0001: this process runs %d of %d ranks, which requires a unique id (mgx_options.unique_id)",
                    options->ranks, all);
  module->ranks = calloc((size_t)options->ranks, sizeof *module->ranks);
  module->parts = calloc(module->table.part_count, sizeof *module->parts);
  if (!module->ranks || !module->parts) return mgx_fail(MGX_FAILED, "MG0005: not enough memory");
  return MGX_OK;
}

/* Fills in the local ranks, and the parts that have local ranks. */
static mgx_status place_ranks(mgx_module *module) {
  const mgx_table *table = &module->table;
  for (size_t i = 0; i < table->part_count; i++) {
    const mgx_part *part = table->parts + i;
    mgx_local_part local = {.part = part, .ranks = module->ranks + module->rank_count};
    for (uint64_t number = part->first; number < part->first + part->ranks; number++) {
      int64_t local_index = (int64_t)number - module->options.first_rank;
      if (local_index < 0 || local_index >= module->options.ranks) continue;
      module->ranks[module->rank_count++] = (mgx_rank){.number = (int)number, .part = part};
      local.count++;
    }
    if (!local.count) continue;
    local.segments = calloc(part->segments.count + 1, sizeof *local.segments);
    module->parts[module->part_count++] = local;
    if (!local.segments) return mgx_fail(MGX_FAILED, "MG0005: not enough memory");
  }
  return MGX_OK;
}

static mgx_status open_ranks(mgx_module *module) {
  int devices = 0;
  MGX_TRY(mgx_load_cuda());
  MGX_CUDA(cuDeviceGetCount, &devices);
  for (size_t i = 0; i < module->rank_count; i++) {
    int ordinal = module->options.devices ? module->options.devices[i] : (int)i;
    if (ordinal < 0 || ordinal >= devices)
      return mgx_fail(MGX_MISSING, "MG0603: rank %d needs device %d, but there are %d", module->ranks[i].number, ordinal, devices);
    MGX_TRY(mgx_rank_open(module, module->ranks + i, ordinal));
  }
  MGX_TRY(mgx_comms_open(module));
  return mgx_upload_stored(module);
}

static mgx_status open_module(mgx_module *module, const char *path) {
  MGX_TRY(read_file(path, &module->container, &module->table));
  MGX_TRY(list_inputs(module));
  if (module->options.ranks == MGX_NO_RANKS) return MGX_OK;
  MGX_TRY(choose_ranks(module));
  MGX_TRY(place_ranks(module));
  return open_ranks(module);
}

mgx_status mgx_open(const char *path, const mgx_options *options, mgx_module **module) {
  *module = calloc(1, sizeof **module);
  if (!*module) return mgx_fail(MGX_FAILED, "MG0005: not enough memory");
  if (options) (*module)->options = *options;
  mgx_status status = open_module(*module, path);
  mgx_container_close(&(*module)->container); /* not needed any more: the table is a copy, and everything else is on the devices */
  if (status) {
    (*module)->has_failed = true;
    mgx_close(*module);
    *module = NULL;
  }
  return status;
}

/* After a failure, communicators are aborted, because streams that wait for a peer would never end otherwise. Graphs are destroyed
   first: NCCL's abort waits until no graph has calls of the communicator, and a graph may be destroyed while it runs. */
void mgx_close(mgx_module *module) {
  if (!module) return;
  for (size_t i = 0; i < module->part_count; i++) {
    mgx_local_part *part = module->parts + i;
    for (size_t n = 0; part->segments && n < part->part->segments.count; n++)
      if (part->segments[n].graph) mgx_gpu.cuGraphExecDestroy(part->segments[n].graph);
    free(part->segments);
  }
  mgx_comms_close(module, module->has_failed);
  for (size_t i = 0; i < module->rank_count; i++) mgx_rank_close(module, module->ranks + i);
  free(module->ranks);
  free(module->parts);
  free(module->inputs);
  mgx_table_free(&module->table);
  free(module);
}

int mgx_ranks(const mgx_module *module) { return (int)module->table.ranks; }

int mgx_inputs(const mgx_module *module) { return module->input_count; }

int mgx_outputs(const mgx_module *module) { return (int)module->table.result_count; }

static mgx_status describe(const mgx_tensor *tensor, mgx_tensor_info *info) {
  *info = (mgx_tensor_info){tensor->name, tensor->dtype, (size_t)tensor->itemsize, (int)tensor->shape.count,
                            tensor->shape.words, (size_t)tensor->nbytes};
  return MGX_OK;
}

mgx_status mgx_input(const mgx_module *module, int index, mgx_tensor_info *info) {
  if (index < 0 || index >= module->input_count) return mgx_fail(MGX_USAGE, "MG0601: unknown input %d", index);
  return describe(module->table.arguments + module->inputs[index], info);
}

mgx_status mgx_output(const mgx_module *module, int index, mgx_tensor_info *info) {
  if (index < 0 || index >= mgx_outputs(module)) return mgx_fail(MGX_USAGE, "MG0601: unknown output %d", index);
  return describe(module->table.results + index, info);
}

int mgx_find_input(const mgx_module *module, const char *name) {
  for (int i = 0; i < module->input_count; i++)
    if (!strcmp(module->table.arguments[module->inputs[i]].name, name)) return i;
  return -1;
}

int mgx_find_output(const mgx_module *module, const char *name) {
  for (int i = 0; i < mgx_outputs(module); i++)
    if (!strcmp(module->table.results[i].name, name)) return i;
  return -1;
}

static mgx_status shard(const mgx_module *module, const mgx_tensor *tensor, int number, uint64_t *address, size_t *nbytes) {
  for (size_t i = 0; i < module->rank_count; i++) {
    const mgx_rank *rank = module->ranks + i;
    if (rank->number != number || rank->part != module->table.parts + tensor->part) continue;
    *address = rank->memory + tensor->offset;
    *nbytes = (size_t)tensor->local_nbytes;
    return MGX_OK;
  }
  return mgx_fail(MGX_USAGE, "MG0601: rank %d is not in this process, or has no shard of '%s'", number, tensor->name);
}

mgx_status mgx_input_shard(const mgx_module *module, int input, int rank, uint64_t *address, size_t *nbytes) {
  if (input < 0 || input >= module->input_count) return mgx_fail(MGX_USAGE, "MG0601: unknown input %d", input);
  return shard(module, module->table.arguments + module->inputs[input], rank, address, nbytes);
}

mgx_status mgx_output_shard(const mgx_module *module, int output, int rank, uint64_t *address, size_t *nbytes) {
  if (output < 0 || output >= mgx_outputs(module)) return mgx_fail(MGX_USAGE, "MG0601: unknown output %d", output);
  return shard(module, module->table.results + output, rank, address, nbytes);
}
