/* libcuda.so.1 and libnccl.so.2 that compute nothing, but touch every byte that a real one would: in memory of the host, where
   the address sanitizer sees accesses outside. Kernels read their parameters, and change a byte of the memory here and there.

   MGX_CAPABILITY is the devices' compute capability, as 80; from 100 on kernels are PTX, whose parameters are looked up in the text.
   MGX_SEED is that of what memory holds at first. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 16, MAX_PARAMETERS = 64, MAX_RANKS = 64 };
static const size_t MAX_BYTES = (size_t)1 << 26; /* of an allocation: larger ones do not fit into the device */

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
static uint64_t state = 88172645463325252; /* of a xorshift generator */

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
  allocation *found = malloc(sizeof *found + nbytes);
  found->nbytes = nbytes;
  for (size_t i = 0; i < nbytes; i++) found->data[i] = next() % 4 ? 0 : (unsigned char)next();
  allocations[current] = found;
  *address = (uint64_t)(uintptr_t)found->data;
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

/* Reads a cubin to the end that its headers give, a text up to its zero: as a driver does. */
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

/* The parameters of an entry in PTX; of a cubin none are known. Functions are leaked to this list, which keeps them in use. */
static function *functions[1 << 16];
static size_t function_count;

int cuModuleGetFunction(void **found, void *module, const char *name) {
  char entry[4200];
  snprintf(entry, sizeof entry, ".entry %s(", name);
  if (function_count == sizeof functions / sizeof *functions) return 2;
  function *made = calloc(1, sizeof *made);
  functions[function_count++] = made;
  *found = made;
  if (!memcmp(module, "\177ELF", 4)) return 0;
  const char *text = strstr(module, entry);
  if (!text) return 500;
  const char *end = strchr(text, ')');
  for (text = strstr(text, ".param"); text && end && text < end && made->count < MAX_PARAMETERS; text = strstr(text + 1, ".param"))
    made->sizes[made->count++] = strncmp(text, ".param .u32", 11) ? 8 : 4;
  return 0;
}

#ifdef KNOWS_PARAMETERS
int cuFuncGetParamInfo(const function *own, size_t number, size_t *offset, size_t *nbytes) {
  if (number >= own->count) return 1;
  return *offset = 0, *nbytes = own->sizes[number], 0;
}
#endif

int cuFuncSetAttribute(void *own, int name, int value) { return !own || name != 8 || value > 232448; }

int cuLaunchKernel(const function *own, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
  if (!gx || !gy || !gz || gy > 65535 || gz > 65535 || !bx || bx * by * bz > 1024 || extra || !stream) return 1;
  uint64_t value = shared;
  for (size_t i = 0; i < own->count; i++) {
    uint64_t read = 0;
    memcpy(&read, parameters[i], own->sizes[i]);
    value += read;
  }
  allocation *memory = allocations[current];
  for (int i = 0; memory && i < 8; i++) memory->data[next() % memory->nbytes] = (unsigned char)(next() % 3 ? 0 : value);
  return 0;
}

static int handle(void **made) { return *made = (void *)(uintptr_t)(1 + (next() >> 8)), 0; }
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
int cuGraphInstantiateWithFlags(void **made, void *graph, unsigned long long flags) { return handle(made) || !graph || flags; }
int cuGraphLaunch(void *graph, void *stream) { return !graph || !stream; }
int cuGraphDestroy(void *graph) { return !graph; }
int cuGraphExecDestroy(void *graph) { return !graph; }
int cuGetErrorName(int code, const char **text) { return *text = "CUDA_ERROR", code < 0; }
int cuGetErrorString(int code, const char **text) { return *text = "an error", code < 0; }

/* Communicators that are made in the open group: their sizes are known at its end. */
static comm *made[MAX_RANKS];
static int made_count, depth;

int ncclGetUniqueId(unsigned char *id) { return memset(id, 1, 128), 0; }
int ncclGroupStart(void) { return depth++, 0; }
int ncclGroupEnd(void) {
  if (--depth) return 0;
  for (int i = 0; i < made_count; i++) {
    made[i]->size = 0;
    for (int n = 0; n < made_count; n++) made[i]->size += made[n]->color == made[i]->color;
  }
  for (int i = 0; i < made_count; i++)
    if (made[i]->color < 0) free(made[i]);
  return made_count = 0, 0;
}

static int make(comm **found, int color, int key) {
  if (made_count == MAX_RANKS || !depth) return 5;
  comm *own = calloc(1, sizeof *own);
  own->color = color, own->key = key;
  made[made_count++] = own;
  *found = color < 0 ? NULL : own;
  return 0;
}

typedef struct {
  unsigned char internal[128];
} unique_id;

int ncclCommInitRank(comm **found, int ranks, unique_id id, int rank) { return id.internal[0] != 1 || rank >= ranks ? 4 : make(found, 0, rank); }
int ncclCommSplit(comm *own, int color, int key, comm **found, void *config) { return !own || config ? 4 : make(found, color, key); }
int ncclCommGetAsyncError(comm *own, int *error) { return *error = 0, own ? 0 : 4; }
int ncclCommDestroy(comm *own) { return free(own), 0; }
int ncclCommAbort(comm *own) { return free(own), 0; }
const char *ncclGetErrorString(int code) { return code ? "an error" : "no error"; }

/* Reads so many elements and writes so many, of a data type of NCCL. */
static int move(comm *own, void *stream, int type, uint64_t from, size_t reads, uint64_t to, size_t writes) {
  static const size_t BYTES[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  if (!own || !stream || !depth || type >= 12) return 4;
  unsigned char *copy = malloc(reads * BYTES[type] + 1);
  memcpy(copy, at(from), reads * BYTES[type]);
  memset(at(to), copy[0], writes * BYTES[type]);
  return free(copy), 0;
}

int ncclAllReduce(uint64_t a, uint64_t b, size_t n, int type, int kind, comm *own, void *stream) {
  return kind > 3 ? 4 : move(own, stream, type, a, n, b, n);
}
int ncclAllGather(uint64_t a, uint64_t b, size_t n, int type, comm *own, void *stream) {
  return own ? move(own, stream, type, a, n, b, n * (size_t)own->size) : 4;
}
int ncclReduceScatter(uint64_t a, uint64_t b, size_t n, int type, int kind, comm *own, void *stream) {
  return kind > 3 || !own ? 4 : move(own, stream, type, a, n * (size_t)own->size, b, n);
}
int ncclBroadcast(uint64_t a, uint64_t b, size_t n, int type, int root, comm *own, void *stream) {
  return !own || root >= own->size ? 4 : move(own, stream, type, a, n, b, n);
}
int ncclReduce(uint64_t a, uint64_t b, size_t n, int type, int kind, int root, comm *own, void *stream) {
  return !own || kind > 3 || root >= own->size ? 4 : move(own, stream, type, a, n, b, n);
}
int ncclSend(uint64_t a, size_t n, int type, int peer, comm *own, void *stream) {
  return !own || peer >= own->size ? 4 : move(own, stream, type, a, n, a, 0);
}
int ncclRecv(uint64_t b, size_t n, int type, int peer, comm *own, void *stream) {
  return !own || peer >= own->size ? 4 : move(own, stream, type, b, 0, b, n);
}
