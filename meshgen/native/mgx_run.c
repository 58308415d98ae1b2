/* mgx-run: a module on GPUs, without Python. `mgx-run --help` says how. Exit codes are those of `mgx_status`. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, nanosleep */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "npy.h"

static const char USAGE[] =
    "usage: mgx-run OUT.mgx [--input NAME=FILE.npy]... [--output NAME=FILE.npy]... [options]\n"
    "\n"
    "Runs a module that `meshgen native` has given its launch table on the GPUs of this machine.\n"
    "\n"
    "  --input NAME=FILE    an argument, a .npy file; every argument must be given\n"
    "  --output NAME=FILE   write a result there\n"
    "  --list               show arguments and results, and run nothing\n"
    "  --steps N            run so many steps with the same arguments, and tell what the last takes (default: 1)\n"
    "  --time-limit S       end a step that takes longer, in seconds\n"
    "  --rank N             this process has rank N only, on device --device (default: 0)\n"
    "  --meet FILE          with --rank: a file that does not exist yet, by which the processes find each other\n"
    "  --device N           see --rank\n";

typedef struct {
  const char *name, *path;
  bool is_output;
} binding;

typedef struct {
  const char *module, *meet;
  binding *bindings;
  int count, steps, rank, device;
  bool lists, has_rank;
  double time_limit;
} arguments;

static mgx_status read_number(const char *option, const char *text, double low, double high, double *value) {
  char *end;
  *value = strtod(text, &end);
  if (end == text || *end || !(*value >= low && *value <= high))
    return mgx_fail(MGX_USAGE, "MG0001: %s: '%s' is not a number from %g to %g", option, text, low, high);
  return MGX_OK;
}

static mgx_status read_option(const char *option, char *value, arguments *given) {
  double number = 0;
  if (!strcmp(option, "--input") || !strcmp(option, "--output")) {
    char *path = strchr(value, '=');
    if (!path) return mgx_fail(MGX_USAGE, "MG0001: %s: '%s' is not NAME=FILE", option, value);
    *path = 0;
    given->bindings[given->count++] = (binding){value, path + 1, option[2] == 'o'};
  } else if (!strcmp(option, "--steps")) {
    MGX_TRY(read_number(option, value, 1, 1e9, &number));
    given->steps = (int)number;
  } else if (!strcmp(option, "--time-limit")) {
    MGX_TRY(read_number(option, value, 1e-3, 1e9, &given->time_limit));
  } else if (!strcmp(option, "--rank")) {
    MGX_TRY(read_number(option, value, 0, 1e6, &number));
    given->rank = (int)number, given->has_rank = true;
  } else if (!strcmp(option, "--device")) {
    MGX_TRY(read_number(option, value, 0, 1e6, &number));
    given->device = (int)number;
  } else if (!strcmp(option, "--meet")) {
    given->meet = value;
  } else {
    return mgx_fail(MGX_USAGE, "MG0001: unknown option '%s'; see mgx-run --help", option);
  }
  return MGX_OK;
}

static mgx_status read_arguments(int count, char **words, arguments *given) {
  *given = (arguments){.steps = 1, .bindings = calloc((size_t)count, sizeof(binding))};
  if (!given->bindings) return mgx_fail(MGX_FAILED, "MG0005: not enough memory");
  for (int i = 1; i < count; i++) {
    if (!strcmp(words[i], "--list")) {
      given->lists = true;
    } else if (!strncmp(words[i], "--", 2)) {
      if (i + 1 == count) return mgx_fail(MGX_USAGE, "MG0001: %s needs a value", words[i]);
      MGX_TRY(read_option(words[i], words[i + 1], given));
      i++;
    } else if (given->module) {
      return mgx_fail(MGX_USAGE, "MG0001: one module at a time, not '%s' too", words[i]);
    } else {
      given->module = words[i];
    }
  }
  if (!given->module) return mgx_fail(MGX_USAGE, "MG0001: a module is missing; see mgx-run --help");
  if (given->has_rank && !given->meet) return mgx_fail(MGX_USAGE, "MG0001: --rank needs --meet FILE");
  return MGX_OK;
}

/* Rank 0 makes the id and puts it into a file, whole; the others wait for that. */
static mgx_status meet(const arguments *given, unsigned char id[MGX_UNIQUE_ID_BYTES]) {
  const struct timespec pause = {0, 10000000};
  char part[4096];
  if (given->rank == 0) {
    MGX_TRY(mgx_unique_id(id));
    snprintf(part, sizeof part, "%s.part", given->meet);
    FILE *file = fopen(part, "wb");
    bool good = file && fwrite(id, 1, MGX_UNIQUE_ID_BYTES, file) == MGX_UNIQUE_ID_BYTES;
    if (file && fclose(file)) good = false;
    return good && !rename(part, given->meet) ? MGX_OK : mgx_fail(MGX_USAGE, "MG0003: '%s' cannot be written", given->meet);
  }
  for (double waited = 0; given->time_limit <= 0 || waited < given->time_limit; waited += 0.01) {
    FILE *file = fopen(given->meet, "rb");
    size_t count = file ? fread(id, 1, MGX_UNIQUE_ID_BYTES, file) : 0;
    if (file) fclose(file);
    if (count == MGX_UNIQUE_ID_BYTES) return MGX_OK;
    nanosleep(&pause, NULL);
  }
  return mgx_fail(MGX_FAILED, "MG0604: rank 0 has not come to '%s'", given->meet);
}

static mgx_status open_module(const arguments *given, mgx_module **module) {
  unsigned char id[MGX_UNIQUE_ID_BYTES];
  mgx_options options = {.time_limit = given->time_limit, .ranks = given->lists ? MGX_NO_RANKS : 0};
  if (given->has_rank && !given->lists) {
    MGX_TRY(meet(given, id));
    options.first_rank = given->rank, options.ranks = 1, options.devices = &given->device, options.unique_id = id;
  }
  return mgx_open(given->module, &options, module);
}

static void list_tensor(const char *word, const mgx_tensor_info *info) {
  printf("%s %s %s (", word, info->name, info->dtype);
  for (int dim = 0; dim < info->rank; dim++) printf(dim ? ", %llu" : "%llu", (unsigned long long)info->shape[dim]);
  printf(") %zu bytes\n", info->nbytes);
}

static mgx_status list(const mgx_module *module) {
  mgx_tensor_info info;
  printf("%d ranks\n", mgx_ranks(module));
  for (int i = 0; i < mgx_inputs(module); i++) {
    MGX_TRY(mgx_input(module, i, &info));
    list_tensor("input", &info);
  }
  for (int i = 0; i < mgx_outputs(module); i++) {
    MGX_TRY(mgx_output(module, i, &info));
    list_tensor("output", &info);
  }
  return MGX_OK;
}

static const char *file_of(const arguments *given, const char *name, bool is_output) {
  for (int i = 0; i < given->count; i++)
    if (given->bindings[i].is_output == is_output && !strcmp(given->bindings[i].name, name)) return given->bindings[i].path;
  return NULL;
}

static mgx_status require_names(const arguments *given, const mgx_module *module) {
  for (int i = 0; i < given->count; i++) {
    const binding *each = given->bindings + i;
    if ((each->is_output ? mgx_find_output : mgx_find_input)(module, each->name) < 0)
      return mgx_fail(MGX_USAGE, "MG0601: unknown %s '%s'; see --list", each->is_output ? "output" : "input", each->name);
  }
  return MGX_OK;
}

static mgx_status upload_all(const arguments *given, mgx_module *module) {
  mgx_tensor_info info;
  for (int i = 0; i < mgx_inputs(module); i++) {
    MGX_TRY(mgx_input(module, i, &info));
    const char *path = file_of(given, info.name, false);
    if (!path) return mgx_fail(MGX_USAGE, "MG0601: input '%s' is not given", info.name);
    void *data = malloc(info.nbytes + 1);
    mgx_status status = data ? npy_read(path, &info, data) : mgx_fail(MGX_FAILED, "MG0005: not enough memory");
    if (!status) status = mgx_upload(module, i, data, info.nbytes);
    free(data);
    MGX_TRY(status);
  }
  return MGX_OK;
}

static mgx_status download_all(const arguments *given, mgx_module *module) {
  mgx_tensor_info info;
  for (int i = 0; i < mgx_outputs(module); i++) {
    MGX_TRY(mgx_output(module, i, &info));
    const char *path = file_of(given, info.name, true);
    if (!path) continue;
    void *data = calloc(info.nbytes + 1, 1);
    mgx_status status = data ? mgx_download(module, i, data, info.nbytes) : mgx_fail(MGX_FAILED, "MG0005: not enough memory");
    if (!status) status = npy_write(path, &info, data);
    free(data);
    MGX_TRY(status);
  }
  return MGX_OK;
}

static double milliseconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

static mgx_status run(const arguments *given, mgx_module *module) {
  if (given->lists) return list(module);
  MGX_TRY(require_names(given, module));
  MGX_TRY(upload_all(given, module));
  double begin = 0;
  for (int i = 0; i < given->steps; i++) {
    begin = milliseconds();
    MGX_TRY(mgx_step(module));
  }
  double end = milliseconds();
  MGX_TRY(download_all(given, module));
  printf("%d step%s, the last in %.3f ms\n", given->steps, given->steps > 1 ? "s" : "", end - begin);
  return MGX_OK;
}

int main(int count, char **words) {
  arguments given;
  mgx_module *module = NULL;
  if (count > 1 && !strcmp(words[1], "--help")) return fputs(USAGE, stdout) < 0;
  mgx_status status = read_arguments(count, words, &given);
  if (!status) status = open_module(&given, &module);
  if (!status) status = run(&given, module);
  if (status) fprintf(stderr, "%s\n", mgx_error());
  mgx_close(module);
  free(given.bindings);
  return status;
}
