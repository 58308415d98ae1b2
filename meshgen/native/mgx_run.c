/* mgx-run: runs a module on GPUs without Python. See `mgx-run --help`. Exit codes are values of `mgx_status`. */
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
    "Runs a module on the GPUs of this machine. `meshgen native` must have added the launch table to the module.\n"
    "\n"
    "  --input NAME=FILE    read an argument from a .npy file; required for every argument\n"
    "  --output NAME=FILE   write a result to a .npy file\n"
    "  --list               list arguments and results without running the module\n"
    "  --steps N            run N steps with the same arguments and print the time of the last (default: 1)\n"
    "  --time-limit S       abort a step that takes longer than S seconds\n"
    "  --rank N             run only rank N in this process, on device --device (default: 0)\n"
    "  --meet FILE          with --rank: a file that rank 0 creates, by which the processes find each other\n"
    "  --device N           see --rank\n";

typedef struct {
  const char *name, *path;
  bool is_output;
} binding;

typedef struct {
  const char *module, *meet;
  binding *bindings;
  int count, steps, rank, device;
  bool lists_only, has_rank;
  double time_limit;
} arguments;

static mgx_status read_number(const char *option, const char *text, double low, double high, double *value) {
  char *end;
  *value = strtod(text, &end);
  if (end == text || *end || !(*value >= low && *value <= high))
    return mgx_fail(MGX_USAGE, "MG0001: %s: '%s' is not a number from %g to %g", option, text, low, high);
  return MGX_OK;
}

static mgx_status read_option(const char *option, char *value, arguments *args) {
  double number = 0;
  if (!strcmp(option, "--input") || !strcmp(option, "--output")) {
    char *path = strchr(value, '=');
    if (!path) return mgx_fail(MGX_USAGE, "MG0001: %s: '%s' is not NAME=FILE", option, value);
    *path = 0;
    args->bindings[args->count++] = (binding){value, path + 1, option[2] == 'o'};
  } else if (!strcmp(option, "--steps")) {
    MGX_TRY(read_number(option, value, 1, 1e9, &number));
    args->steps = (int)number;
  } else if (!strcmp(option, "--time-limit")) {
    MGX_TRY(read_number(option, value, 1e-3, 1e9, &args->time_limit));
  } else if (!strcmp(option, "--rank")) {
    MGX_TRY(read_number(option, value, 0, 1e6, &number));
    args->rank = (int)number, args->has_rank = true;
  } else if (!strcmp(option, "--device")) {
    MGX_TRY(read_number(option, value, 0, 1e6, &number));
    args->device = (int)number;
  } else if (!strcmp(option, "--meet")) {
    args->meet = value;
  } else {
    return mgx_fail(MGX_USAGE, "MG0001: unknown option '%s'; see mgx-run --help", option);
  }
  return MGX_OK;
}

static mgx_status read_arguments(int count, char **words, arguments *args) {
  *args = (arguments){.steps = 1, .bindings = calloc((size_t)count, sizeof(binding))};
  if (!args->bindings) return mgx_fail(MGX_FAILED, "MG0005: not enough memory");
  for (int i = 1; i < count; i++) {
    if (!strcmp(words[i], "--list")) {
      args->lists_only = true;
    } else if (!strncmp(words[i], "--", 2)) {
      if (i + 1 == count) return mgx_fail(MGX_USAGE, "MG0001: %s needs a value", words[i]);
      MGX_TRY(read_option(words[i], words[i + 1], args));
      i++;
    } else if (args->module) {
      return mgx_fail(MGX_USAGE, "MG0001: one module at a time, not '%s' too", words[i]);
    } else {
      args->module = words[i];
    }
  }
  if (!args->module) return mgx_fail(MGX_USAGE, "MG0001: a module is missing; see mgx-run --help");
  if (args->has_rank && !args->meet) return mgx_fail(MGX_USAGE, "MG0001: --rank needs --meet FILE");
  return MGX_OK;
}

/* Rank 0 creates the id and writes it to a file atomically. The other ranks wait for the file. */
static mgx_status meet(const arguments *args, unsigned char id[MGX_UNIQUE_ID_BYTES]) {
  const struct timespec pause = {0, 10000000};
  char part[4096];
  if (args->rank == 0) {
    MGX_TRY(mgx_unique_id(id));
    snprintf(part, sizeof part, "%s.part", args->meet);
    FILE *file = fopen(part, "wb");
    bool is_written = file && fwrite(id, 1, MGX_UNIQUE_ID_BYTES, file) == MGX_UNIQUE_ID_BYTES;
    if (file && fclose(file)) is_written = false;
    return is_written && !rename(part, args->meet) ? MGX_OK : mgx_fail(MGX_USAGE, "MG0003: '%s' cannot be written", args->meet);
  }
  for (double waited = 0; args->time_limit <= 0 || waited < args->time_limit; waited += 0.01) {
    FILE *file = fopen(args->meet, "rb");
    size_t count = file ? fread(id, 1, MGX_UNIQUE_ID_BYTES, file) : 0;
    if (file) fclose(file);
    if (count == MGX_UNIQUE_ID_BYTES) return MGX_OK;
    nanosleep(&pause, NULL);
  }
  return mgx_fail(MGX_FAILED, "MG0604: rank 0 has not come to '%s'", args->meet);
}

static mgx_status open_module(const arguments *args, mgx_module **module) {
  unsigned char id[MGX_UNIQUE_ID_BYTES];
  mgx_options options = {.time_limit = args->time_limit, .ranks = args->lists_only ? MGX_NO_RANKS : 0};
  if (args->has_rank && !args->lists_only) {
    MGX_TRY(meet(args, id));
    options.first_rank = args->rank, options.ranks = 1, options.devices = &args->device, options.unique_id = id;
  }
  return mgx_open(args->module, &options, module);
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

static const char *file_of(const arguments *args, const char *name, bool is_output) {
  for (int i = 0; i < args->count; i++)
    if (args->bindings[i].is_output == is_output && !strcmp(args->bindings[i].name, name)) return args->bindings[i].path;
  return NULL;
}

static mgx_status require_names(const arguments *args, const mgx_module *module) {
  for (int i = 0; i < args->count; i++) {
    const binding *file = args->bindings + i;
    if ((file->is_output ? mgx_find_output : mgx_find_input)(module, file->name) < 0)
      return mgx_fail(MGX_USAGE, "MG0601: unknown %s '%s'; see --list", file->is_output ? "output" : "input", file->name);
  }
  return MGX_OK;
}

static mgx_status upload_all(const arguments *args, mgx_module *module) {
  mgx_tensor_info info;
  for (int i = 0; i < mgx_inputs(module); i++) {
    MGX_TRY(mgx_input(module, i, &info));
    const char *path = file_of(args, info.name, false);
    if (!path) return mgx_fail(MGX_USAGE, "MG0601: input '%s' is missing: pass --input %s=FILE.npy", info.name, info.name);
    void *data = malloc(info.nbytes + 1);
    mgx_status status = data ? npy_read(path, &info, data) : mgx_fail(MGX_FAILED, "MG0005: not enough memory");
    if (!status) status = mgx_upload(module, i, data, info.nbytes);
    free(data);
    MGX_TRY(status);
  }
  return MGX_OK;
}

static mgx_status download_all(const arguments *args, mgx_module *module) {
  mgx_tensor_info info;
  for (int i = 0; i < mgx_outputs(module); i++) {
    MGX_TRY(mgx_output(module, i, &info));
    const char *path = file_of(args, info.name, true);
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

static mgx_status run(const arguments *args, mgx_module *module) {
  if (args->lists_only) return list(module);
  MGX_TRY(require_names(args, module));
  MGX_TRY(upload_all(args, module));
  double begin = 0;
  for (int i = 0; i < args->steps; i++) {
    begin = milliseconds();
    MGX_TRY(mgx_step(module));
  }
  double end = milliseconds();
  MGX_TRY(download_all(args, module));
  printf("%d step%s, the last in %.3f ms\n", args->steps, args->steps > 1 ? "s" : "", end - begin);
  return MGX_OK;
}

int main(int count, char **words) {
  arguments args;
  mgx_module *module = NULL;
  if (count > 1 && !strcmp(words[1], "--help")) return fputs(USAGE, stdout) < 0;
  mgx_status status = read_arguments(count, words, &args);
  if (!status) status = open_module(&args, &module);
  if (!status) status = run(&args, module);
  if (status) fprintf(stderr, "%s\n", mgx_error());
  mgx_close(module);
  free(args.bindings);
  return status;
}
