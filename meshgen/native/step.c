/* Runs a step: executes the control instructions of every part that has local ranks. No part may block the host while another one
   has work to issue. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, nanosleep */
#include <time.h>

#include "module.h"

static const double CHECK_SECONDS = 0.01; /* seconds between two checks for lost peers (chosen: as in the Python executor) */
static const double SPIN_SECONDS = 0.002; /* seconds of busy polling before the host sleeps (chosen: most steps end within it) */
static const struct timespec PAUSE = {0, 50000}; /* 50 us of sleep between two polls (chosen: short compared to SPIN_SECONDS) */

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Returns the local ranks among the global ranks [first, first + count): a pointer to the first one, and their number. */
static mgx_rank *local_ranks(const mgx_local_part *part, uint64_t first, uint64_t count, size_t *local_count) {
  mgx_rank *begin = part->ranks, *end = part->ranks + part->count;
  while (begin < end && (uint64_t)begin->number < first) begin++;
  while (end > begin && (uint64_t)end[-1].number >= first + count) end--;
  *local_count = (size_t)(end - begin);
  return begin;
}

/* Reads the branch index from all local ranks, which must agree, and jumps to its target. */
static mgx_status choose(mgx_local_part *part, const uint64_t *at) {
  size_t count;
  mgx_rank *ranks = local_ranks(part, at[CHOOSE_FIRST], at[CHOOSE_RANKS], &count);
  int32_t chosen = 0;
  for (size_t i = 0; i < count; i++) {
    int32_t value = 0;
    MGX_CUDA(cuCtxSetCurrent, ranks[i].context);
    MGX_CUDA(cuMemcpyDtoH, &value, ranks[i].memory + at[CHOOSE_OFFSET], (size_t)at[CHOOSE_NBYTES]);
    if (i && value != chosen)
      return mgx_fail(MGX_FAILED, "MG0604: control flow holds collectives, but ranks %d and %d choose differently: %d, %d",
                      ranks->number, ranks[i].number, chosen, value);
    chosen = value;
  }
  bool in_range = chosen >= 0 && (uint64_t)chosen < at[CHOOSE_COUNT];
  part->position = (size_t)at[CHOOSE_TARGETS + (in_range ? (uint64_t)chosen : at[CHOOSE_COUNT] - 1)];
  return MGX_OK;
}

/* Executes one instruction. */
static mgx_status advance(mgx_local_part *part) {
  const uint64_t *at = part->part->control.words + part->position;
  size_t count;
  switch (at[0]) {
    case CONTROL_RUN:
      part->position += 2;
      return mgx_issue(part, (size_t)at[1]);
    case CONTROL_JUMP:
      part->position = (size_t)at[1];
      return MGX_OK;
    case CONTROL_ONLY:
      local_ranks(part, at[ONLY_FIRST], at[ONLY_RANKS], &count);
      part->position = count ? part->position + ONLY_WORDS : (size_t)at[ONLY_TARGET];
      return MGX_OK;
    case CONTROL_CHOOSE:
      return choose(part, at);
    default:
      part->is_done = true;
      return MGX_OK;
  }
}

/* Whether a part is ready for its next instruction: its pending stream is idle. */
static mgx_status poll(mgx_local_part *part, bool *is_ready) {
  *is_ready = !part->pending;
  if (*is_ready) return MGX_OK;
  CUresult result = mgx_gpu.cuStreamQuery(part->pending);
  if (result == CUDA_ERROR_NOT_READY) return MGX_OK;
  MGX_TRY(mgx_cuda_status(result, "cuStreamQuery"));
  part->pending = NULL;
  *is_ready = true;
  return MGX_OK;
}

/* Executes one instruction of each part that is ready. */
static mgx_status advance_all(mgx_module *module, bool *has_moved, bool *is_over) {
  *has_moved = false, *is_over = true;
  for (size_t i = 0; i < module->part_count; i++) {
    mgx_local_part *part = module->parts + i;
    bool is_ready;
    if (part->is_done) continue;
    MGX_TRY(poll(part, &is_ready));
    if (is_ready) MGX_TRY(advance(part));
    *has_moved |= is_ready;
    *is_over &= part->is_done;
  }
  return MGX_OK;
}

static mgx_status run(mgx_module *module) {
  double begin = now(), next_check = begin + CHECK_SECONDS, last_move = begin, limit = module->options.time_limit;
  for (bool has_moved, is_over = false; !is_over;) {
    MGX_TRY(advance_all(module, &has_moved, &is_over));
    double time = now();
    if (limit > 0 && time - begin > limit && !is_over)
      return mgx_fail(MGX_FAILED, "MG0604: the step has taken longer than %g seconds", limit);
    if (has_moved) last_move = time;
    if (time > next_check) {
      MGX_TRY(mgx_comms_check(module));
      next_check = time + CHECK_SECONDS;
    }
    if (!has_moved && time - last_move > SPIN_SECONDS) nanosleep(&PAUSE, NULL);
  }
  return MGX_OK;
}

mgx_status mgx_step(mgx_module *module) {
  if (module->has_failed) return mgx_fail(MGX_USAGE, "MG0001: an earlier step has failed: the module can only be closed");
  for (size_t i = 0; i < module->part_count; i++) module->parts[i].position = 0, module->parts[i].is_done = false;
  mgx_status status = run(module);
  module->has_failed = status != MGX_OK;
  return status;
}
