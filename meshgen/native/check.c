/* Validation of a launch table before its use: members, kernels, communicators, arguments and results. */
#include <stdlib.h>
#include <string.h>

#include "table.h"

static const uint64_t MAX_RANKS = 1 << 16; /* chosen: more than any cluster has, and few enough for a word per rank */
static const uint64_t MAX_BYTES = (uint64_t)1 << 53; /* of a tensor or a rank's memory: the limit of meshgen/ir/limits.py */
/* Of a block, on any GPU. The driver enforces the limits of the actual GPU. */
static const uint64_t MAX_THREADS = 1024, MAX_SHARED = 1 << 20;

static mgx_status check_functions(const mgx_container *file, const mgx_table *table) {
  for (size_t i = 0; i < table->member_count; i++)
    if (!mgx_container_find(file, table->members[i])) return mgx_damaged(file, "a member is missing");
  for (size_t i = 0; i < table->function_count; i++) {
    mgx_lists codes = table->functions[i].codes;
    for (size_t n = 0; n < codes.count; n++) {
      const uint64_t *code = codes.items[n].words;
      if (codes.items[n].count != CODE_WORDS || (code[CODE_KIND] != CODE_CUBIN && code[CODE_KIND] != CODE_PTX) ||
          code[CODE_ARCH] > 10000 || code[CODE_MEMBER] >= table->member_count || !code[CODE_THREADS] ||
          code[CODE_THREADS] > MAX_THREADS || code[CODE_SHARED] > MAX_SHARED ||
          (code[CODE_GRID] && !mgx_is_grid(code + CODE_GRID)))
        return mgx_damaged(file, "a kernel of the launch table is malformed");
    }
  }
  return MGX_OK;
}

/* Returns the number of ranks in each group of a split, or 0 if the split is malformed or its groups differ in size. Colors and
   keys are rank numbers; a rank with color -1 is in no group. `counts` is scratch space with a word per rank. */
static uint64_t group_size(const mgx_table *table, mgx_list split, uint64_t *counts) {
  uint64_t size = 0;
  if (table->ranks < 2 || split.count != 2 * table->ranks) return 0;
  memset(counts, 0, (size_t)table->ranks * sizeof *counts);
  for (uint64_t rank = 0; rank < table->ranks; rank++) {
    uint64_t color = split.words[2 * rank], key = split.words[2 * rank + 1];
    if (key >= table->ranks || (color >= table->ranks && color != UINT64_MAX)) return 0;
    if (color != UINT64_MAX) size = ++counts[color];
  }
  for (uint64_t color = 0; color < table->ranks; color++)
    if (counts[color] && counts[color] != size) return 0;
  return size;
}

static mgx_status check_splits(const mgx_container *file, mgx_table *table) {
  uint64_t *counts = malloc((size_t)table->ranks * sizeof *counts);
  table->group_sizes = calloc(table->splits.count + 1, sizeof *table->group_sizes);
  bool has_memory = counts && table->group_sizes, is_valid = has_memory;
  for (size_t i = 0; is_valid && i < table->splits.count; i++)
    is_valid = (table->group_sizes[i] = group_size(table, table->splits.items[i], counts)) != 0;
  free(counts);
  if (!has_memory) return mgx_fail(MGX_FAILED, "MG0005: not enough memory");
  return is_valid ? MGX_OK : mgx_damaged(file, "a communicator is malformed");
}

/* Whether a split contains either all ranks of a part or none of them. */
static bool is_split_by_parts(const mgx_part *part, mgx_list split) {
  bool is_none = split.words[2 * part->first] == UINT64_MAX;
  for (uint64_t rank = part->first; rank < part->first + part->ranks; rank++)
    if ((split.words[2 * rank] == UINT64_MAX) != is_none) return false;
  return true;
}

/* Parts must have consecutive ranks without gaps. */
static mgx_status check_parts(const mgx_container *file, const mgx_table *table) {
  uint64_t next = 0;
  for (size_t i = 0; i < table->part_count; i++) {
    const mgx_part *part = table->parts + i;
    if (part->first != next || !part->ranks || part->ranks > table->ranks - next || part->memory > MAX_BYTES)
      return mgx_damaged(file, "the ranks or the memory of a part are malformed");
    for (size_t n = 0; n < table->splits.count; n++)
      if (!is_split_by_parts(part, table->splits.items[n])) return mgx_damaged(file, "a communicator has some ranks of a part only");
    next += part->ranks;
    MGX_TRY(mgx_work_check(file, table, part));
  }
  return next == table->ranks ? MGX_OK : mgx_damaged(file, "ranks are in no part");
}

static uint64_t member_bytes(const mgx_container *file, const mgx_table *table, uint64_t index) {
  return mgx_container_find(file, table->members[index])->nbytes;
}

/* Subtracts bytes from a part's free memory. Constants and arguments do not overlap, so their sum must fit into the memory. */
static bool reserve_memory(uint64_t *free_bytes, uint64_t nbytes) {
  if (nbytes > *free_bytes) return false;
  *free_bytes -= nbytes;
  return true;
}

static mgx_status check_constants(const mgx_container *file, const mgx_table *table, uint64_t *free_bytes) {
  for (size_t i = 0; i < table->constants.count; i++) {
    mgx_list row = table->constants.items[i];
    const uint64_t *at = row.words;
    if (row.count != CONSTANT_WORDS || at[CONSTANT_PART] >= table->part_count || at[CONSTANT_MEMBER] >= table->member_count ||
        !mgx_inside(at[CONSTANT_OFFSET], at[CONSTANT_NBYTES], table->parts[at[CONSTANT_PART]].memory) ||
        !mgx_inside(at[CONSTANT_MEMBER_OFFSET], at[CONSTANT_NBYTES], member_bytes(file, table, at[CONSTANT_MEMBER])) ||
        !reserve_memory(free_bytes + at[CONSTANT_PART], at[CONSTANT_NBYTES]))
      return mgx_damaged(file, "a constant is outside of its memory or its member");
  }
  return MGX_OK;
}

/* Checks a box. Per dim it has the first row in the global tensor, the first row in the shard, and the number of rows. */
static bool is_box(const mgx_tensor *tensor, const uint64_t *box) {
  for (size_t dim = 0; dim < tensor->shape.count; dim++, box += 3)
    if (!mgx_inside(box[0], box[2], tensor->shape.words[dim]) || !mgx_inside(box[1], box[2], tensor->local.words[dim]))
      return false;
  return true;
}

static bool is_tensor(const mgx_table *table, const mgx_tensor *tensor, size_t box_at) {
  if (tensor->part >= table->part_count || tensor->shape.count != tensor->local.count ||
      tensor->shape.count > MGX_MAX_DIMS || !tensor->itemsize || tensor->itemsize > 16 || tensor->nbytes > MAX_BYTES)
    return false;
  const mgx_part *part = table->parts + tensor->part;
  if (!mgx_inside(tensor->offset, tensor->local_nbytes, part->memory) || tensor->shard_of.count != part->ranks) return false;
  for (size_t i = 0; i < tensor->shards.count; i++) {
    mgx_list shard = tensor->shards.items[i];
    if (shard.count != box_at + 3 * tensor->shape.count || shard.words[0] > 1 || !is_box(tensor, shard.words + box_at))
      return false;
  }
  for (size_t i = 0; i < tensor->shard_of.count; i++)
    if (tensor->shard_of.words[i] >= tensor->shards.count) return false;
  return true;
}

static mgx_status check_tensors(const mgx_container *file, const mgx_table *table, uint64_t *free_bytes) {
  for (size_t i = 0; i < table->argument_count; i++) {
    const mgx_tensor *tensor = table->arguments + i;
    bool is_valid = is_tensor(table, tensor, SHARD_BOX) && reserve_memory(free_bytes + tensor->part, tensor->local_nbytes);
    if (is_valid && tensor->stored)
      is_valid = tensor->stored <= table->member_count &&
             mgx_inside(tensor->stored_offset, tensor->nbytes, member_bytes(file, table, tensor->stored - 1));
    if (!is_valid) return mgx_damaged(file, "an argument is outside of its memory or its member");
  }
  for (size_t i = 0; i < table->result_count; i++)
    if (!is_tensor(table, table->results + i, RESULT_BOX)) return mgx_damaged(file, "a result is outside of its memory");
  return MGX_OK;
}

static mgx_status check_values(const mgx_container *file, const mgx_table *table) {
  uint64_t *free_bytes = calloc(table->part_count + 1, sizeof *free_bytes);
  if (!free_bytes) return mgx_fail(MGX_FAILED, "MG0005: not enough memory");
  for (size_t i = 0; i < table->part_count; i++) free_bytes[i] = table->parts[i].memory;
  mgx_status status = check_constants(file, table, free_bytes);
  if (!status) status = check_tensors(file, table, free_bytes);
  free(free_bytes);
  return status;
}

mgx_status mgx_table_check(const mgx_container *file, mgx_table *table) {
  if (!table->ranks || table->ranks > MAX_RANKS || table->argument_count > INT32_MAX || table->result_count > INT32_MAX)
    return mgx_damaged(file, "its launch table is malformed");
  MGX_TRY(check_functions(file, table));
  MGX_TRY(check_splits(file, table));
  MGX_TRY(check_parts(file, table));
  return check_values(file, table);
}
