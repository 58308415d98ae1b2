/* A step: follows the control of every part with local ranks, none of which may keep the host while another has something to issue. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, nanosleep */
#include <time.h>

#include "module.h"

static const double LOOK_SECONDS = 0.01; /* how long the host waits before it asks NCCL again whether a peer is lost */
static const double SPIN_SECONDS = 0.002; /* for so long it asks without pause: most steps are over by then */
static const struct timespec PAUSE = {0, 50000};

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The local ranks of an instruction, which names ranks of the world: the first of them, and how many. */
static mgx_rank *local_ranks(const mgx_local_part *part, uint64_t first, uint64_t count, size_t *found) {
  mgx_rank *begin = part->ranks, *end = part->ranks + part->count;
  while (begin < end && (uint64_t)begin->number < first) begin++;
  while (end > begin && (uint64_t)end[-1].number >= first + count) end--;
  *found = (size_t)(end - begin);
  return begin;
}

/* Reads the integer that all ranks must agree on, and goes on where it leads. */
static mgx_status choose(mgx_local_part *part, const uint64_t *at) {
  size_t count;
  mgx_rank *ranks = local_ranks(part, at[CHOOSE_FIRST], at[CHOOSE_RANKS], &count);
  int32_t chosen = 0;
  for (size_t i = 0; i < count; i++) {
    int32_t value = 0;
    MGX_CUDA(cuCtxSetCurrent, ranks[i].context);
    MGX_CUDA(cuMemcpyDtoH, &value, ranks[i].memory + at[CHOOSE_PLACE], (size_t)at[CHOOSE_NBYTES]);
    if (i && value != chosen)
      return mgx_fail(MGX_FAILED, "MG0604: control flow holds collectives, but ranks %d and %d choose differently: %d, %d",
                      ranks->number, ranks[i].number, chosen, value);
    chosen = value;
  }
  bool is_known = chosen >= 0 && (uint64_t)chosen < at[CHOOSE_COUNT];
  part->place = (size_t)at[CHOOSE_TARGETS + (is_known ? (uint64_t)chosen : at[CHOOSE_COUNT] - 1)];
  return MGX_OK;
}

/* One instruction. */
static mgx_status advance(mgx_local_part *part) {
  const uint64_t *at = part->part->control.words + part->place;
  size_t count;
  switch (at[0]) {
    case CONTROL_RUN:
      part->place += 2;
      return mgx_issue(part, (size_t)at[1]);
    case CONTROL_JUMP:
      part->place = (size_t)at[1];
      return MGX_OK;
    case CONTROL_ONLY:
      local_ranks(part, at[ONLY_FIRST], at[ONLY_RANKS], &count);
      part->place = count ? part->place + ONLY_WORDS : (size_t)at[ONLY_TARGET];
      return MGX_OK;
    case CONTROL_CHOOSE:
      return choose(part, at);
    default:
      part->is_done = true;
      return MGX_OK;
  }
}

/* Whether a part can go on: what it waits for is done. */
static mgx_status poll(mgx_local_part *part, bool *is_ready) {
  *is_ready = !part->waits_for;
  if (*is_ready) return MGX_OK;
  CUresult result = mgx_gpu.cuStreamQuery(part->waits_for);
  if (result == CUDA_ERROR_NOT_READY) return MGX_OK;
  MGX_TRY(mgx_cuda_status(result, "cuStreamQuery"));
  part->waits_for = NULL;
  *is_ready = true;
  return MGX_OK;
}

/* Every part that can go on does so, by an instruction. */
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
  double begin = now(), next_look = begin + LOOK_SECONDS, last_move = begin, limit = module->options.time_limit;
  for (bool has_moved, is_over = false; !is_over;) {
    MGX_TRY(advance_all(module, &has_moved, &is_over));
    double time = now();
    if (limit > 0 && time - begin > limit && !is_over)
      return mgx_fail(MGX_FAILED, "MG0604: the step has taken longer than %g seconds", limit);
    if (has_moved) last_move = time;
    if (time > next_look) {
      MGX_TRY(mgx_comms_look(module));
      next_look = time + LOOK_SECONDS;
    }
    if (!has_moved && time - last_move > SPIN_SECONDS) nanosleep(&PAUSE, NULL);
  }
  return MGX_OK;
}

mgx_status mgx_step(mgx_module *module) {
  if (module->has_failed) return mgx_fail(MGX_USAGE, "MG0001: an earlier step has failed: the module can only be closed");
  for (size_t i = 0; i < module->part_count; i++) module->parts[i].place = 0, module->parts[i].is_done = false;
  mgx_status status = run(module);
  module->has_failed = status != MGX_OK;
  return status;
}
