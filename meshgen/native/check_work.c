/* Validation of the work of a part's ranks before it is issued: operations, programs, NCCL calls, segments and control. */
#include <stdlib.h>

#include "table.h"

/* Blocks per grid dim. Source: CUDA C++ programming guide, "Technical specifications per compute capability". */
static const uint64_t MAX_GRID[3] = {INT32_MAX, 65535, 65535};
static const uint64_t DTYPE_BYTES[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1}; /* by ncclDataType_t of nccl.h */
enum { REDUCTIONS = 4, DTYPES = sizeof DTYPE_BYTES / sizeof *DTYPE_BYTES };

bool mgx_is_grid(const uint64_t *sizes) {
  for (int dim = 0; dim < 3; dim++)
    if (!sizes[dim] || sizes[dim] > MAX_GRID[dim]) return false;
  return true;
}

uint64_t mgx_dtype_bytes(uint64_t dtype) { return dtype < DTYPES ? DTYPE_BYTES[dtype] : 0; }

static bool is_launch(const mgx_table *table, const mgx_part *part, mgx_list op) {
  if (op.count < LAUNCH_PARAMETERS || op.words[LAUNCH_COUNT] > MGX_MAX_PARAMETERS ||
      op.count != LAUNCH_PARAMETERS + 3 * op.words[LAUNCH_COUNT] || op.words[LAUNCH_FUNCTION] >= table->function_count)
    return false;
  if (!mgx_is_grid(op.words + LAUNCH_GRID)) return false;
  for (const uint64_t *at = op.words + LAUNCH_PARAMETERS; at < op.words + op.count; at += 3) {
    bool is_valid = at[0] == PARAMETER_POINTER ? mgx_inside(at[1], at[2], part->memory)
                                           : at[0] == PARAMETER_WORD64 || (at[0] == PARAMETER_WORD32 && at[1] <= UINT32_MAX);
    if (!is_valid) return false;
  }
  return true;
}

static bool is_operation(const mgx_table *table, const mgx_part *part, mgx_list op) {
  const uint64_t *words = op.words;
  if (op.count < 2) return false;
  if (words[0] == OP_GROUP)
    return op.count >= GROUP_CALLS && words[GROUP_COUNT] <= op.count && words[GROUP_NUMBER] < INT32_MAX &&
           op.count == GROUP_CALLS + MGX_CALL_WORDS * words[GROUP_COUNT];
  if (words[1] >= MGX_STREAMS) return false;
  switch (words[0]) {
    case OP_LAUNCH:
      return is_launch(table, part, op);
    case OP_COPY:
      return op.count == COPY_WORDS && mgx_inside(words[COPY_TARGET], words[COPY_NBYTES], part->memory) &&
             mgx_inside(words[COPY_SOURCE], words[COPY_NBYTES], part->memory);
    case OP_CLEAR:
      return op.count == CLEAR_WORDS && mgx_inside(words[CLEAR_TARGET], words[CLEAR_NBYTES], part->memory);
    case OP_RECORD:
    case OP_WAIT:
      return op.count == EVENT_WORDS && words[EVENT_NUMBER] < part->events;
    default:
      return false;
  }
}

/* Returns the size of the groups of a communicator, or 0 if the ranks of the part are in none of its groups. */
static uint64_t group_size(const mgx_table *table, const mgx_part *part, uint64_t comm) {
  if (!comm) return table->ranks > 1 ? table->ranks : 0;
  if (comm > table->splits.count) return 0;
  const uint64_t *split = table->splits.items[comm - 1].words;
  return split[2 * part->first] == UINT64_MAX ? 0 : table->group_sizes[comm - 1];
}

/* Whether an NCCL call uses a communicator that the ranks of a part have, and only memory of its rank. */
static bool is_call(const mgx_table *table, const mgx_part *part, const uint64_t *call) {
  uint64_t size = group_size(table, part, call[CALL_COMM]), kind = call[CALL_KIND], part_bytes, whole_bytes;
  if (!size || call[CALL_STREAM] >= MGX_STREAMS || call[CALL_DTYPE] >= DTYPES || call[CALL_REDUCTION] >= REDUCTIONS ||
      call[CALL_PEER] >= size || kind < CALL_ALL_REDUCE || kind > CALL_RECEIVE)
    return false;
  if (__builtin_mul_overflow(call[CALL_COUNT], DTYPE_BYTES[call[CALL_DTYPE]], &part_bytes) ||
      __builtin_mul_overflow(part_bytes, size, &whole_bytes))
    return false;
  uint64_t source = kind == CALL_RECEIVE ? 0 : kind == CALL_REDUCE_SCATTER ? whole_bytes : part_bytes;
  uint64_t target = kind == CALL_SEND ? 0 : kind == CALL_ALL_GATHER ? whole_bytes : part_bytes;
  return mgx_inside(call[CALL_SOURCE], source, part->memory) && mgx_inside(call[CALL_TARGET], target, part->memory);
}

/* Whether a program is in order: each wait follows the record of its event, and group numbers increase.

   `recorded` has for each event the index of the last program that records it. The time is linear in the words of the program. */
static bool is_program(const mgx_part *part, mgx_list program, size_t number, size_t *recorded) {
  int64_t group = -1;
  for (size_t i = 0; i < program.count; i++) {
    if (program.words[i] >= part->operations.count) return false;
    const uint64_t *op = part->operations.items[program.words[i]].words;
    if (op[0] == OP_RECORD) recorded[op[EVENT_NUMBER]] = number;
    if (op[0] == OP_WAIT && recorded[op[EVENT_NUMBER]] != number) return false;
    if (op[0] != OP_GROUP) continue;
    if ((int64_t)op[GROUP_NUMBER] <= group) return false;
    group = (int64_t)op[GROUP_NUMBER];
  }
  return true;
}

/* One check of a call holds for all ranks that issue it, because all groups of a communicator have the same size. */
static mgx_status check_calls(const mgx_container *file, const mgx_table *table, const mgx_part *part) {
  for (size_t i = 0; i < part->operations.count; i++) {
    const uint64_t *op = part->operations.items[i].words;
    for (uint64_t n = 0; op[0] == OP_GROUP && n < op[GROUP_COUNT]; n++)
      if (!is_call(table, part, op + GROUP_CALLS + n * MGX_CALL_WORDS))
        return mgx_damaged(file, "a call of NCCL is malformed or is outside of its memory");
  }
  return MGX_OK;
}

static mgx_status check_programs(const mgx_container *file, const mgx_part *part) {
  if (part->events > part->operations.count) return mgx_damaged(file, "it has events that nothing records");
  size_t *recorded = calloc((size_t)part->events + 1, sizeof *recorded);
  bool is_valid = recorded != NULL;
  for (size_t i = 0; is_valid && i < part->programs.count; i++) is_valid = is_program(part, part->programs.items[i], i + 1, recorded);
  free(recorded);
  return is_valid ? MGX_OK : mgx_damaged(file, "the operations of a rank are out of order");
}

static mgx_status check_segments(const mgx_container *file, const mgx_part *part) {
  for (size_t i = 0; i < part->segments.count; i++) {
    mgx_list segment = part->segments.items[i];
    if (segment.count != part->ranks) return mgx_damaged(file, "a segment is not for the ranks of its part");
    for (size_t rank = 0; rank < segment.count; rank++)
      if (segment.words[rank] >= part->programs.count) return mgx_damaged(file, "a segment has a program that is missing");
  }
  return MGX_OK;
}

/* Returns the number of words of the instruction at `position`, or 0 if it is malformed. */
static size_t instruction_words(const mgx_part *part, size_t position) {
  const uint64_t *at = part->control.words + position;
  size_t left = part->control.count - position;
  switch (at[0]) {
    case CONTROL_END:
      return 1;
    case CONTROL_RUN:
      return left > 1 && at[1] < part->segments.count ? 2 : 0;
    case CONTROL_JUMP:
      return left > 1 ? 2 : 0;
    case CONTROL_ONLY:
    case CONTROL_CHOOSE:
      if (left < ONLY_WORDS || at[1] < part->first || !mgx_inside(at[1] - part->first, at[2], part->ranks) || !at[2]) return 0;
      if (at[0] == CONTROL_ONLY) return ONLY_WORDS;
      if (left < CHOOSE_TARGETS || (at[CHOOSE_NBYTES] != 1 && at[CHOOSE_NBYTES] != 4) || !at[CHOOSE_COUNT] ||
          at[CHOOSE_COUNT] > left - CHOOSE_TARGETS || !mgx_inside(at[CHOOSE_OFFSET], at[CHOOSE_NBYTES], part->memory))
        return 0;
      return CHOOSE_TARGETS + (size_t)at[CHOOSE_COUNT];
    default:
      return 0;
  }
}

/* Whether each target of an instruction is the position of an instruction. */
static bool has_valid_targets(const mgx_part *part, const uint64_t *at, const unsigned char *is_instruction) {
  const uint64_t *target = at + 1;
  uint64_t count = at[0] == CONTROL_JUMP || at[0] == CONTROL_ONLY;
  if (at[0] == CONTROL_ONLY) target = at + ONLY_TARGET;
  if (at[0] == CONTROL_CHOOSE) target = at + CHOOSE_TARGETS, count = at[CHOOSE_COUNT];
  for (; count; count--, target++)
    if (*target >= part->control.count || !is_instruction[*target]) return false;
  return true;
}

static mgx_status check_control(const mgx_container *file, const mgx_part *part) {
  size_t count = part->control.count, last = 0;
  unsigned char *is_instruction = calloc(count + 1, 1);
  bool is_valid = is_instruction && count;
  for (size_t position = 0, words; is_valid && position < count; last = position, position += words) {
    words = instruction_words(part, position);
    is_instruction[position] = 1;
    is_valid = words != 0;
  }
  is_valid = is_valid && part->control.words[last] == CONTROL_END;
  for (size_t position = 0; is_valid && position < count; position++)
    if (is_instruction[position]) is_valid = has_valid_targets(part, part->control.words + position, is_instruction);
  free(is_instruction);
  return is_valid ? MGX_OK : mgx_damaged(file, "its control is malformed");
}

mgx_status mgx_work_check(const mgx_container *file, const mgx_table *table, const mgx_part *part) {
  for (size_t i = 0; i < part->operations.count; i++)
    if (!is_operation(table, part, part->operations.items[i])) return mgx_damaged(file, "an operation is malformed or is outside of its memory");
  MGX_TRY(check_calls(file, table, part));
  MGX_TRY(check_programs(file, part));
  MGX_TRY(check_segments(file, part));
  return check_control(file, part);
}
