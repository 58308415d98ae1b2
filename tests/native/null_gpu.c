/* libcuda.so.1 and libnccl.so.2 that compute nothing, but access every byte that the real ones would access. Device memory is
   host memory, so that the address sanitizer detects invalid accesses. Kernels read their parameters and change random bytes.
   MGX_CAPABILITY is the compute capability of the devices, such as 80; from 100 on, kernels are PTX with known parameters.
   MGX_SEED is the seed for the initial contents of memory. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 16, MAX_PARAMETERS = 64, MAX_RANKS = 64 };
static const size_t MAX_BYTES = (size_t)1 << 26; /* of an allocation; larger ones exceed the device's memory */

typedef struct {
  size_t nbytes;
  unsigned char data[];
} allocation;

typedef struct {
  size_t count;
  size_t sizes[MAX_PARAMETERS];
} function;

typedef struct {
  int color, key, size;
} comm;

static allocation *allocations[DEVICES];
static int current;
static uint64_t state = 88172645463325252; /* state of a xorshift generator */

static uint64_t next(void) {
  static int is_seeded;
  const char *seed = is_seeded++ ? NULL : getenv("MGX_SEED");
  if (seed) state += strtoull(seed, NULL, 10) * 0x9e3779b97f4a7c15;
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}

static int capability(void) {
  const char *text = getenv("MGX_CAPABILITY");
  return text ? atoi(text) : 80;
}

int cuInit(unsigned flags) { return flags != 0; }
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
int cuDeviceGetCount(int *count) { return *count = DEVICES, 0; }
int cuDeviceGet(int *device, int number) { return *device = number, number >= DEVICES; }
int cuDeviceGetAttribute(int *value, int name, int device) {
  *value = name == 75 ? capability() / 10 : capability() % 10;
  return device >= DEVICES;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = (void *)(uintptr_t)(device + 1), 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return device >= DEVICES; }
int cuCtxSetCurrent(void *context) { return current = (int)(uintptr_t)context - 1, 0; }

int cuMemAlloc_v2(uint64_t *address, size_t nbytes) {
  if (!nbytes || nbytes > MAX_BYTES) return nbytes ? 2 : 1;
  allocation *block = malloc(sizeof *block + nbytes);
  block->nbytes = nbytes;
  for (size_t i = 0; i < nbytes; i++) block->data[i] = next() % 4 ? 0 : (unsigned char)next();
  allocations[current] = block;
  *address = (uint64_t)(uintptr_t)block->data;
  return 0;
}

int cuMemFree_v2(uint64_t address) {
  for (int i = 0; i < DEVICES; i++)
    if (allocations[i] && (uint64_t)(uintptr_t)allocations[i]->data == address) free(allocations[i]), allocations[i] = NULL;
  return 0;
}

static unsigned char *at(uint64_t address) { return (unsigned char *)(uintptr_t)address; }

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n) { return memcpy(at(to), from, n), 0; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n) { return memcpy(to, at(from), n), 0; }
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void *stream) { return memmove(at(to), at(from), n), !stream; }
int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t n, void *stream) { return memset(at(to), byte, n), !stream; }

static uint64_t field(const unsigned char *bytes, size_t count) {
  uint64_t value = 0;
  memcpy(&value, bytes, count);
  return value;
}

/* Like a driver, reads a cubin up to the size in its headers, and a text up to its zero. */
int cuModuleLoadData(void **module, const void *image) {
  const unsigned char *bytes = image;
  size_t nbytes = strlen(image);
  if (!memcmp(bytes, "\177ELF", 4)) {
    nbytes = field(bytes + 40, 8) + field(bytes + 58, 2) * field(bytes + 60, 2);
    for (size_t i = 0; i < field(bytes + 60, 2); i++) {
      const unsigned char *section = bytes + field(bytes + 40, 8) + i * field(bytes + 58, 2);
      size_t end = field(section + 24, 8) + field(section + 32, 8);
      if (field(section + 4, 4) != 8 && end > nbytes) nbytes = end;
    }
  }
  char *copy = malloc(nbytes + 1);
  memcpy(copy, bytes, nbytes);
  copy[nbytes] = 0;
  *module = copy;
  return 0;
}

int cuModuleUnload(void *module) { return free(module), 0; }

/* Looks up the parameters of a PTX entry; those of a cubin are unknown. This list keeps leaked functions reachable. */
static function *functions[1 << 16];
static size_t function_count;

int cuModuleGetFunction(void **output, void *module, const char *name) {
  char entry[4200];
  snprintf(entry, sizeof entry, ".entry %s(", name);
  if (function_count == sizeof functions / sizeof *functions) return 2;
  function *kernel = calloc(1, sizeof *kernel);
  functions[function_count++] = kernel;
  *output = kernel;
  if (!memcmp(module, "\177ELF", 4)) return 0;
  const char *text = strstr(module, entry);
  if (!text) return 500;
  const char *end = strchr(text, ')');
  for (text = strstr(text, ".param"); text && end && text < end && kernel->count < MAX_PARAMETERS; text = strstr(text + 1, ".param"))
    kernel->sizes[kernel->count++] = strncmp(text, ".param .u32", 11) ? 8 : 4;
  return 0;
}

#ifdef KNOWS_PARAMETERS
int cuFuncGetParamInfo(const function *kernel, size_t number, size_t *offset, size_t *nbytes) {
  if (number >= kernel->count) return 1;
  return *offset = 0, *nbytes = kernel->sizes[number], 0;
}
#endif

int cuFuncSetAttribute(void *kernel, int name, int value) { return !kernel || name != 8 || value > 232448; }

int cuLaunchKernel(const function *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
  if (!gx || !gy || !gz || gy > 65535 || gz > 65535 || !bx || bx * by * bz > 1024 || extra || !stream) return 1;
  uint64_t value = shared;
  for (size_t i = 0; i < kernel->count; i++) {
    uint64_t read = 0;
    memcpy(&read, parameters[i], kernel->sizes[i]);
    value += read;
  }
  allocation *memory = allocations[current];
  for (int i = 0; memory && i < 8; i++) memory->data[next() % memory->nbytes] = (unsigned char)(next() % 3 ? 0 : value);
  return 0;
}

static int handle(void **output) { return *output = (void *)(uintptr_t)(1 + (next() >> 8)), 0; }
int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) { return handle(stream) || flags != 1 || priority > 0; }
int cuStreamDestroy_v2(void *stream) { return !stream; }
int cuStreamQuery(void *stream) { return stream ? (next() % 4 ? 0 : 600) : 400; }
int cuStreamSynchronize(void *stream) { return !stream; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return !stream || !event || flags; }
int cuStreamBeginCapture_v2(void *stream, int mode) { return !stream || mode != 1; }
int cuStreamEndCapture(void *stream, void **graph) { return handle(graph) || !stream; }
int cuEventCreate(void **event, unsigned flags) { return handle(event) || flags != 2; }
int cuEventDestroy_v2(void *event) { return !event; }
int cuEventRecord(void *event, void *stream) { return !event || !stream; }
int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags) { return handle(executable) || !graph || flags; }
int cuGraphLaunch(void *graph, void *stream) { return !graph || !stream; }
int cuGraphDestroy(void *graph) { return !graph; }
int cuGraphExecDestroy(void *graph) { return !graph; }
int cuGetErrorName(int code, const char **text) { return *text = "CUDA_ERROR", code < 0; }
int cuGetErrorString(int code, const char **text) { return *text = "an error", code < 0; }

/* Communicators initialized in the open group; their sizes are known at its end. */
static comm *pending[MAX_RANKS];
static int pending_count, depth;

int ncclGetUniqueId(unsigned char *id) { return memset(id, 1, 128), 0; }
int ncclGroupStart(void) { return depth++, 0; }
int ncclGroupEnd(void) {
  if (--depth) return 0;
  for (int i = 0; i < pending_count; i++) {
    pending[i]->size = 0;
    for (int n = 0; n < pending_count; n++) pending[i]->size += pending[n]->color == pending[i]->color;
  }
  for (int i = 0; i < pending_count; i++)
    if (pending[i]->color < 0) free(pending[i]);
  return pending_count = 0, 0;
}

static int make(comm **output, int color, int key) {
  if (pending_count == MAX_RANKS || !depth) return 5;
  comm *self = calloc(1, sizeof *self);
  self->color = color, self->key = key;
  pending[pending_count++] = self;
  *output = color < 0 ? NULL : self;
  return 0;
}

typedef struct {
  unsigned char internal[128];
} unique_id;

int ncclCommInitRank(comm **output, int ranks, unique_id id, int rank) { return id.internal[0] != 1 || rank >= ranks ? 4 : make(output, 0, rank); }
int ncclCommSplit(comm *self, int color, int key, comm **output, void *config) { return !self || config ? 4 : make(output, color, key); }
int ncclCommGetAsyncError(comm *self, int *error) { return *error = 0, self ? 0 : 4; }
int ncclCommDestroy(comm *self) { return free(self), 0; }
int ncclCommAbort(comm *self) { return free(self), 0; }
const char *ncclGetErrorString(int code) { return code ? "an error" : "no error"; }

/* Reads `reads` elements and writes `writes` elements of an NCCL data type. */
static int move(comm *self, void *stream, int type, uint64_t from, size_t reads, uint64_t to, size_t writes) {
  static const size_t BYTES[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  if (!self || !stream || !depth || type >= 12) return 4;
  unsigned char *copy = malloc(reads * BYTES[type] + 1);
  memcpy(copy, at(from), reads * BYTES[type]);
  memset(at(to), copy[0], writes * BYTES[type]);
  return free(copy), 0;
}

int ncclAllReduce(uint64_t a, uint64_t b, size_t n, int type, int kind, comm *self, void *stream) {
  return kind > 3 ? 4 : move(self, stream, type, a, n, b, n);
}
int ncclAllGather(uint64_t a, uint64_t b, size_t n, int type, comm *self, void *stream) {
  return self ? move(self, stream, type, a, n, b, n * (size_t)self->size) : 4;
}
int ncclReduceScatter(uint64_t a, uint64_t b, size_t n, int type, int kind, comm *self, void *stream) {
  return kind > 3 || !self ? 4 : move(self, stream, type, a, n * (size_t)self->size, b, n);
}
int ncclBroadcast(uint64_t a, uint64_t b, size_t n, int type, int root, comm *self, void *stream) {
  return !self || root >= self->size ? 4 : move(self, stream, type, a, n, b, n);
}
int ncclReduce(uint64_t a, uint64_t b, size_t n, int type, int kind, int root, comm *self, void *stream) {
  return !self || kind > 3 || root >= self->size ? 4 : move(self, stream, type, a, n, b, n);
}
int ncclSend(uint64_t a, size_t n, int type, int peer, comm *self, void *stream) {
  return !self || peer >= self->size ? 4 : move(self, stream, type, a, n, a, 0);
}
int ncclRecv(uint64_t b, size_t n, int type, int peer, comm *self, void *stream) {
  return !self || peer >= self->size ? 4 : move(self, stream, type, b, 0, b, n);
}
