/* Tests the documented behavior of `meshgen.h`, call by call: api MODULE, with one output of rank 2, on two ranks or more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "meshgen.h"

#define REQUIRE(condition)                                                        \
  do {                                                                            \
    if (!(condition)) {                                                           \
      fprintf(stderr, "line %d: %s; %s\n", __LINE__, #condition, mgx_error());    \
      exit(9);                                                                    \
    }                                                                             \
  } while (0)

static void describe(const char *path) {
  mgx_options none = {.ranks = MGX_NO_RANKS};
  mgx_module *module;
  mgx_tensor_info info;
  REQUIRE(mgx_open(path, &none, &module) == MGX_OK);
  REQUIRE(mgx_ranks(module) > 1 && mgx_inputs(module) > 0 && mgx_outputs(module) == 1);
  REQUIRE(mgx_find_input(module, "nothing") == -1 && mgx_find_output(module, "nothing") == -1);
  REQUIRE(mgx_input(module, mgx_inputs(module), &info) == MGX_USAGE && strstr(mgx_error(), "MG0601"));
  REQUIRE(mgx_output(module, -1, &info) == MGX_USAGE);
  REQUIRE(mgx_output(module, 0, &info) == MGX_OK && info.rank == 2 && info.shape[0] * info.shape[1] * info.itemsize == info.nbytes);
  mgx_close(module);
}

static void refuse(const char *path) {
  mgx_module *module;
  mgx_options beyond = {.first_rank = 1, .ranks = 99}, alone = {.ranks = 1};
  int far_away[] = {0, 999, 2, 3};
  mgx_options no_device = {.devices = far_away};
  REQUIRE(mgx_open(path, &beyond, &module) == MGX_USAGE && !module);
  REQUIRE(mgx_open(path, &alone, &module) == MGX_USAGE && strstr(mgx_error(), "unique id"));
  REQUIRE(mgx_open(path, &no_device, &module) == MGX_MISSING && strstr(mgx_error(), "MG0603"));
  REQUIRE(mgx_open("no such file", NULL, &module) == MGX_USAGE && strstr(mgx_error(), "MG0002"));
}

static void run(const char *path) {
  mgx_module *module;
  mgx_tensor_info info;
  uint64_t first, second;
  size_t nbytes;
  REQUIRE(mgx_open(path, NULL, &module) == MGX_OK);
  for (int i = 0; i < mgx_inputs(module); i++) {
    REQUIRE(mgx_input(module, i, &info) == MGX_OK);
    char *data = calloc(info.nbytes, 1);
    REQUIRE(mgx_upload(module, i, data, info.nbytes) == MGX_OK);
    REQUIRE(mgx_upload(module, i, data, info.nbytes - 1) == MGX_USAGE && strstr(mgx_error(), info.name));
    free(data);
  }
  REQUIRE(mgx_input_shard(module, 0, 0, &first, &nbytes) == MGX_OK && first && nbytes);
  REQUIRE(mgx_input_shard(module, 0, 1, &second, &nbytes) == MGX_OK && second != first);
  REQUIRE(mgx_input_shard(module, 0, 99, &first, &nbytes) == MGX_USAGE);
  REQUIRE(mgx_output_shard(module, 0, 0, &first, &nbytes) == MGX_OK && nbytes);
  REQUIRE(mgx_step(module) == MGX_OK && mgx_step(module) == MGX_OK);
  REQUIRE(mgx_output(module, 0, &info) == MGX_OK);
  char *data = calloc(info.nbytes, 1);
  REQUIRE(mgx_download(module, 0, data, info.nbytes) == MGX_OK);
  REQUIRE(mgx_download(module, 1, data, info.nbytes) == MGX_USAGE);
  free(data);
  mgx_close(module);
  mgx_close(NULL);
}

int main(int count, char **words) {
  if (count != 2) return 2;
  describe(words[1]);
  refuse(words[1]);
  run(words[1]);
  return 0;
}
