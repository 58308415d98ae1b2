/* Reads the launch table: words one after the other, of which there must be as many as they say. */
#include <stdlib.h>
#include <string.h>

#include "table.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the words of a table are little-endian, as all hosts of GPUs");

static const uint64_t MAGIC = 0x656c62617478676d; /* "mgxtable" */

typedef struct {
  const uint64_t *next;
  size_t left;
  bool failed; /* it ended too early, or memory did; what is read from then on is zero */
} reader;

static uint64_t take(reader *in) {
  if (!in->left) {
    in->failed = true;
    return 0;
  }
  in->left--;
  return *in->next++;
}

/* How many items follow, each of which takes `words` at least. */
static size_t take_count(reader *in, size_t words) {
  uint64_t count = take(in);
  if (count <= in->left / words) return (size_t)count;
  in->failed = true;
  return 0;
}

static void *take_array(reader *in, size_t count, size_t nbytes) {
  void *found = calloc(count + 1, nbytes); /* a count is at most that of the words */
  if (!found) in->failed = true;
  return found;
}

static mgx_list take_list(reader *in) {
  size_t count = take_count(in, 1);
  mgx_list found = {in->next, count};
  in->next += count;
  in->left -= count;
  return found;
}

static mgx_lists take_lists(reader *in) {
  size_t count = take_count(in, 1);
  mgx_lists found = {take_array(in, count, sizeof(mgx_list)), 0};
  for (; found.items && found.count < count; found.count++) found.items[found.count] = take_list(in);
  return found;
}

static const char *take_text(reader *in) {
  uint64_t count = take(in);
  const char *found = (const char *)in->next;
  size_t words = (size_t)(count / sizeof(uint64_t)) + 1;
  if (in->failed || words > in->left || memchr(found, 0, words * sizeof(uint64_t)) != found + count) {
    in->failed = true;
    return "";
  }
  in->next += words;
  in->left -= words;
  return found;
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

static mgx_tensor *take_tensors(reader *in, bool stored, size_t *found) {
  size_t count = take_count(in, 8);
  mgx_tensor *tensors = take_array(in, count, sizeof *tensors);
  for (*found = 0; !in->failed && *found < count; ++*found) {
    mgx_tensor *tensor = tensors + *found;
    tensor->name = take_text(in);
    tensor->dtype = take_text(in);
    tensor->itemsize = take(in);
    tensor->shape = take_list(in);
    tensor->part = take(in), tensor->place = take(in);
    tensor->local = take_list(in);
    if (stored) tensor->stored = take(in), tensor->stored_at = take(in);
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
    return mgx_fail(MGX_REFUSED, "MG0505: '%s' has no launch table; meshgen native puts it in", container->path);
  table->words = copy_words(member);
  if (!table->words) return mgx_fail(MGX_FAILED, "MG0005: not enough memory");
  reader in = {table->words, member->nbytes / sizeof(uint64_t), member->nbytes % sizeof(uint64_t) != 0};
  if (take(&in) != MAGIC) return mgx_damaged(container, "its launch table is none");
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
