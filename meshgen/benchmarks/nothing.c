/* A libcuda.so.1 that does nothing: the time of a step on it is the host's share. Handles and addresses are fake. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static int nothing(void) { return 0; }

static int handle(uint64_t *made) {
  static uint64_t next = 0x10000;
  *made = next += 0x1000000;
  return 0;
}

static int device(int *made, int ordinal) {
  *made = ordinal;
  return 0;
}

static int one(int *count) {
  *count = 1;
  return 0;
}

static int version(int *found) {
  *found = 12080;
  return 0;
}

/* Attributes of a device: 75 and 76 are the compute capability, which is 8.0. */
static int attribute(int *found, int which, int of) {
  *found = which == 75 ? 8 : 0;
  return 0;
}

/* The current context of each thread, initially none. */
static _Thread_local uint64_t current;

static int set_context(uint64_t context) {
  current = context;
  return 0;
}

static int get_context(uint64_t *context) {
  *context = current;
  return 0;
}

static int nodes(void *graph, void *found, size_t *count) {
  *count = 0;
  return 0;
}

static const struct {
  const char *name;
  void *function;
} known[] = {
    {"cuDeviceGet", device},         {"cuDeviceGetCount", one},
    {"cuDriverGetVersion", version}, {"cuDeviceGetAttribute", attribute},
    {"cuMemAlloc", handle},          {"cuDevicePrimaryCtxRetain", handle},
    {"cuModuleLoadData", handle},    {"cuModuleGetFunction", handle},
    {"cuEventCreate", handle},       {"cuStreamCreateWithPriority", handle},
    {"cuCtxSetCurrent", set_context}, {"cuCtxGetCurrent", get_context},
    {"cuGraphGetNodes", nodes},      {"cuGraphInstantiateWithFlags", handle},
};

/* The captured graph is the second argument; other calls return their result in the first. */
static int captured(void *stream, uint64_t *graph) { return handle(graph); }

int cuGetProcAddress_v2(const char *name, void **found, int release, uint64_t flags, int *status) {
  *found = strcmp(name, "cuStreamEndCapture") ? (void *)nothing : (void *)captured;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(name, known[i].name)) *found = known[i].function;
  if (status) *status = 0;
  return 0;
}

int cuGetProcAddress(const char *name, void **found, int release, uint64_t flags) {
  return cuGetProcAddress_v2(name, found, release, flags, NULL);
}
