/* Reads the launch table sequentially. The number of words must match the counts in the table exactly. */
#include <stdlib.h>
#include <string.h>

#include "table.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the words of a table are little-endian, as on all GPU hosts");

static const uint64_t MAGIC = 0x656c62617478676d; /* "mgxtable" */

typedef struct {
  const uint64_t *next;
  size_t left;
  bool failed; /* the table ended too early, or memory ran out; all later reads return zero */
} reader;

static uint64_t take(reader *in) {
  if (!in->left) {
    in->failed = true;
    return 0;
  }
  in->left--;
  return *in->next++;
}

/* Reads a number of items, each of which takes at least `words` words. */
static size_t take_count(reader *in, size_t words) {
  uint64_t count = take(in);
  if (count <= in->left / words) return (size_t)count;
  in->failed = true;
  return 0;
}

static void *take_array(reader *in, size_t count, size_t nbytes) {
  void *items = calloc(count + 1, nbytes); /* cannot overflow: the count is at most the number of words */
  if (!items) in->failed = true;
  return items;
}

static mgx_list take_list(reader *in) {
  size_t count = take_count(in, 1);
  mgx_list list = {in->next, count};
  in->next += count;
  in->left -= count;
  return list;
}

static mgx_lists take_lists(reader *in) {
  size_t count = take_count(in, 1);
  mgx_lists lists = {take_array(in, count, sizeof(mgx_list)), 0};
  for (; lists.items && lists.count < count; lists.count++) lists.items[lists.count] = take_list(in);
  return lists;
}

static const char *take_text(reader *in) {
  uint64_t count = take(in);
  const char *text = (const char *)in->next;
  size_t words = (size_t)(count / sizeof(uint64_t)) + 1;
  if (in->failed || words > in->left || memchr(text, 0, words * sizeof(uint64_t)) != text + count) {
    in->failed = true;
    return "";
  }
  in->next += words;
  in->left -= words;
  return text;
}

static void take_members(reader *in, mgx_table *table) {
  size_t count = take_count(in, 2);
  table->members = take_array(in, count, sizeof *table->members);
  for (; !in->failed && table->member_count < count; table->member_count++)
    table->members[table->member_count] = take_text(in);
}

static void take_functions(reader *in, mgx_table *table) {
  size_t count = take_count(in, 3);
  table->functions = take_array(in, count, sizeof *table->functions);
  for (; !in->failed && table->function_count < count; table->function_count++) {
    mgx_function *function = table->functions + table->function_count;
    function->entry = take_text(in);
    function->codes = take_lists(in);
  }
}

static void take_parts(reader *in, mgx_table *table) {
  size_t count = take_count(in, 8);
  table->parts = take_array(in, count, sizeof *table->parts);
  for (; !in->failed && table->part_count < count; table->part_count++) {
    mgx_part *part = table->parts + table->part_count;
    part->first = take(in), part->ranks = take(in), part->memory = take(in), part->events = take(in);
    part->operations = take_lists(in);
    part->programs = take_lists(in);
    part->segments = take_lists(in);
    part->control = take_list(in);
  }
}

static uint64_t product(mgx_list sizes, uint64_t value, bool *failed) {
  for (size_t i = 0; i < sizes.count; i++)
    if (__builtin_mul_overflow(value, sizes.words[i], &value)) *failed = true;
  return value;
}

static mgx_tensor *take_tensors(reader *in, bool stored, size_t *read_count) {
  size_t count = take_count(in, 8);
  mgx_tensor *tensors = take_array(in, count, sizeof *tensors);
  for (*read_count = 0; !in->failed && *read_count < count; ++*read_count) {
    mgx_tensor *tensor = tensors + *read_count;
    tensor->name = take_text(in);
    tensor->dtype = take_text(in);
    tensor->itemsize = take(in);
    tensor->shape = take_list(in);
    tensor->part = take(in), tensor->offset = take(in);
    tensor->local = take_list(in);
    if (stored) tensor->stored = take(in), tensor->stored_offset = take(in);
    tensor->shards = take_lists(in);
    tensor->shard_of = take_list(in);
    tensor->nbytes = product(tensor->shape, tensor->itemsize, &in->failed);
    tensor->local_nbytes = product(tensor->local, tensor->itemsize, &in->failed);
  }
  return tensors;
}

static void take_table(reader *in, mgx_table *table) {
  table->ranks = take(in);
  take_members(in, table);
  take_functions(in, table);
  table->splits = take_lists(in);
  take_parts(in, table);
  table->constants = take_lists(in);
  table->arguments = take_tensors(in, true, &table->argument_count);
  table->results = take_tensors(in, false, &table->result_count);
}

static uint64_t *copy_words(const mgx_member *member) {
  uint64_t *words = malloc(member->nbytes + 1);
  if (words) memcpy(words, member->data, member->nbytes);
  return words;
}

mgx_status mgx_table_read(const mgx_container *container, mgx_table *table) {
  *table = (mgx_table){0};
  const mgx_member *member = mgx_container_find(container, MGX_TABLE);
  if (!member)
    return mgx_fail(MGX_REFUSED, "MG0505: '%s' has no launch table; meshgen native adds it", container->path);
  table->words = copy_words(member);
  if (!table->words) return mgx_fail(MGX_FAILED, "MG0005: not enough memory");
  reader in = {table->words, member->nbytes / sizeof(uint64_t), member->nbytes % sizeof(uint64_t) != 0};
  if (take(&in) != MAGIC) return mgx_damaged(container, "its launch table has a wrong magic number");
  if (take(&in) != MGX_VERSION)
    return mgx_fail(MGX_REFUSED, "MG0503: the launch table of '%s' is of another version of meshgen", container->path);
  take_table(&in, table);
  if (in.failed || in.left) return mgx_damaged(container, "its launch table is cut off or malformed");
  return mgx_table_check(container, table);
}

void mgx_table_free(mgx_table *table) {
  for (size_t i = 0; i < table->function_count; i++) free(table->functions[i].codes.items);
  for (size_t i = 0; i < table->part_count; i++) {
    free(table->parts[i].operations.items);
    free(table->parts[i].programs.items);
    free(table->parts[i].segments.items);
  }
  for (size_t i = 0; i < table->argument_count; i++) free(table->arguments[i].shards.items);
  for (size_t i = 0; i < table->result_count; i++) free(table->results[i].shards.items);
  free(table->splits.items);
  free(table->group_sizes);
  free(table->constants.items);
  free(table->members);
  free(table->functions);
  free(table->parts);
  free(table->arguments);
  free(table->results);
  free(table->words);
  *table = (mgx_table){0};
}
