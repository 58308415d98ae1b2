/* libcuda.so.1 and libnccl.so.2 whose functions call the emulated GPU of `emulated_gpu.py` over the socket in MGX_EMULATOR.
   A request is the function's name, its integers and bytes; an answer is a result code, an integer and bytes. Device addresses
   and handles are those of the emulator. Both libraries are the same file, so that they share one connection. */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_INTEGERS = 12, MAX_FUNCTIONS = 4096, ID_BYTES = 128 };

typedef struct {
  int32_t result;
  uint64_t value, nbytes;
  unsigned char *bytes; /* buffer of the caller, or NULL */
} answer;

typedef struct {
  unsigned char internal[ID_BYTES];
} unique_id;

static void all(ssize_t (*move)(int, void *, size_t), int file, void *data, size_t nbytes) {
  for (size_t done = 0; done < nbytes;) {
    ssize_t count = move(file, (char *)data + done, nbytes - done);
    if (count <= 0) {
      fprintf(stderr, "the emulated GPU is gone\n");
      _exit(4);
    }
    done += (size_t)count;
  }
}

static ssize_t send_some(int file, void *data, size_t nbytes) { return write(file, data, nbytes); }

static int connection(void) {
  static int file = -1;
  const char *path = getenv("MGX_EMULATOR");
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (file >= 0 || !path) return file;
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  file = socket(AF_UNIX, SOCK_STREAM, 0);
  if (connect(file, (struct sockaddr *)&address, sizeof address)) file = -1;
  return file;
}

/* Sends a request. The bytes of the answer go to `reply->bytes`, which is allocated if it is NULL. */
static void ask(const char *name, const uint64_t *integers, size_t count, const void *bytes, size_t nbytes, answer *reply) {
  int file = connection();
  if (file < 0) {
    reply->result = 100; /* no device */
    return;
  }
  uint64_t head[3] = {strlen(name), count, nbytes}, tail[3];
  all(send_some, file, head, sizeof head);
  all(send_some, file, (void *)(uintptr_t)name, strlen(name));
  all(send_some, file, (void *)(uintptr_t)integers, count * sizeof *integers);
  all(send_some, file, (void *)(uintptr_t)bytes, nbytes);
  all(read, file, tail, sizeof tail);
  reply->result = (int32_t)tail[0], reply->value = tail[1], reply->nbytes = tail[2];
  if (reply->nbytes && !reply->bytes) reply->bytes = calloc(reply->nbytes + 1, 1);
  all(read, file, reply->bytes, reply->nbytes);
}

#define COUNT(...) (sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))
#define ASK(name, reply, ...) ask(name, (uint64_t[]){__VA_ARGS__}, COUNT(__VA_ARGS__), NULL, 0, reply)
#define WORD(value) ((uint64_t)(uintptr_t)(value))

/* Functions whose arguments are integers, without an output value and with one. */
#define PLAIN(name, called, parameters, ...) \
  int name parameters {                      \
    answer reply = {0};                      \
    ASK(called, &reply, __VA_ARGS__);        \
    return reply.result;                     \
  }
#define VALUED(name, called, parameters, type, ...)                       \
  int name parameters {                                                   \
    answer reply = {0};                                                   \
    ASK(called, &reply, __VA_ARGS__);                                     \
    if (!reply.result) *value = (type)reply.value;                        \
    return reply.result;                                                  \
  }

PLAIN(cuInit, "cuInit", (unsigned flags), flags)
VALUED(cuDriverGetVersion, "cuDriverGetVersion", (int *value), int, 0)
VALUED(cuDeviceGetCount, "cuDeviceGetCount", (int *value), int, 0)
VALUED(cuDeviceGet, "cuDeviceGet", (int *value, int number), int, WORD(number))
VALUED(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int *value, int name, int device), int, WORD(name), WORD(device))
VALUED(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (void **value, int device), void *, WORD(device))
PLAIN(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", (int device), WORD(device))
PLAIN(cuCtxSetCurrent, "cuCtxSetCurrent", (void *context), WORD(context))
VALUED(cuMemAlloc_v2, "cuMemAlloc", (uint64_t *value, size_t nbytes), uint64_t, nbytes)
PLAIN(cuMemFree_v2, "cuMemFree", (uint64_t address), address)
PLAIN(cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync", (uint64_t to, uint64_t from, size_t n, void *stream), to, from, n, WORD(stream))
PLAIN(cuMemsetD8Async, "cuMemsetD8Async", (uint64_t to, unsigned char byte, size_t n, void *stream), to, byte, n, WORD(stream))
PLAIN(cuModuleUnload, "cuModuleUnload", (void *module), WORD(module))
PLAIN(cuFuncSetAttribute, "cuFuncSetAttribute", (void *function, int name, int value), WORD(function), WORD(name), WORD(value))
VALUED(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", (void **value, unsigned flags, int priority), void *, flags,
       (uint64_t)(int64_t)priority)
PLAIN(cuStreamDestroy_v2, "cuStreamDestroy", (void *stream), WORD(stream))
PLAIN(cuStreamQuery, "cuStreamQuery", (void *stream), WORD(stream))
PLAIN(cuStreamSynchronize, "cuStreamSynchronize", (void *stream), WORD(stream))
PLAIN(cuStreamWaitEvent, "cuStreamWaitEvent", (void *stream, void *event, unsigned flags), WORD(stream), WORD(event), flags)
PLAIN(cuStreamBeginCapture_v2, "cuStreamBeginCapture", (void *stream, int mode), WORD(stream), WORD(mode))
VALUED(cuStreamEndCapture, "cuStreamEndCapture", (void *stream, void **value), void *, WORD(stream))
VALUED(cuEventCreate, "cuEventCreate", (void **value, unsigned flags), void *, flags)
PLAIN(cuEventDestroy_v2, "cuEventDestroy", (void *event), WORD(event))
PLAIN(cuEventRecord, "cuEventRecord", (void *event, void *stream), WORD(event), WORD(stream))
VALUED(cuGraphInstantiateWithFlags, "cuGraphInstantiate", (void **value, void *graph, unsigned long long flags), void *,
       WORD(graph), flags)
PLAIN(cuGraphLaunch, "cuGraphLaunch", (void *graph, void *stream), WORD(graph), WORD(stream))
PLAIN(cuGraphDestroy, "cuGraphDestroy", (void *graph), WORD(graph))
PLAIN(cuGraphExecDestroy, "cuGraphExecDestroy", (void *graph), WORD(graph))

int cuMemcpyHtoD_v2(uint64_t address, const void *data, size_t nbytes) {
  answer reply = {0};
  ask("cuMemcpyHtoD", (uint64_t[]){address}, 1, data, nbytes, &reply);
  return reply.result;
}

int cuMemcpyDtoH_v2(void *data, uint64_t address, size_t nbytes) {
  answer reply = {.bytes = data};
  ASK("cuMemcpyDtoH", &reply, address, nbytes);
  return reply.result;
}

static uint64_t field(const unsigned char *bytes, size_t count) {
  uint64_t value = 0;
  memcpy(&value, bytes, count);
  return value;
}

/* Returns the size of an image: a text ends with a zero, and the headers of a cubin contain its size. */
static size_t image_bytes(const unsigned char *image) {
  if (memcmp(image, "\177ELF", 4)) return strlen((const char *)image);
  size_t sections = field(image + 40, 8) + field(image + 58, 2) * field(image + 60, 2);
  size_t programs = field(image + 32, 8) + field(image + 54, 2) * field(image + 56, 2);
  return sections > programs ? sections : programs;
}

int cuModuleLoadData(void **module, const void *image) {
  answer reply = {0};
  ask("cuModuleLoadData", NULL, 0, image, image_bytes(image), &reply);
  *module = (void *)(uintptr_t)reply.value;
  return reply.result;
}

/* Offset and size of each parameter of the functions looked up so far, which a launch needs. */
static struct {
  uint64_t function;
  size_t count;
  uint64_t *layout;
} functions[MAX_FUNCTIONS];
static size_t function_count;

static const uint64_t *parameters_of(void *function, size_t *count) {
  for (size_t i = 0; i < function_count; i++)
    if (functions[i].function == WORD(function)) return *count = functions[i].count, functions[i].layout;
  return *count = 0, NULL;
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
  answer reply = {0};
  ask("cuModuleGetFunction", (uint64_t[]){WORD(module)}, 1, name, strlen(name), &reply);
  if (reply.result) return reply.result;
  *function = (void *)(uintptr_t)reply.value;
  if (function_count == MAX_FUNCTIONS) return 2;
  functions[function_count].function = reply.value;
  functions[function_count].count = reply.nbytes / 16;
  functions[function_count++].layout = (uint64_t *)(void *)reply.bytes;
  return 0;
}

int cuFuncGetParamInfo(void *function, size_t number, size_t *offset, size_t *nbytes) {
  size_t count;
  const uint64_t *layout = parameters_of(function, &count);
  if (number >= count) return 1;
  *offset = layout[2 * number], *nbytes = layout[2 * number + 1];
  return 0;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
  size_t count;
  const uint64_t *layout = parameters_of(function, &count);
  uint64_t integers[9] = {WORD(function), gx, gy, gz, bx, by, bz, shared, WORD(stream)}, *values = calloc(count + 1, 8);
  for (size_t i = 0; i < count; i++) memcpy(values + i, parameters[i], layout[2 * i + 1]);
  answer reply = {0};
  ask("cuLaunchKernel", integers, 9, values, count * 8, &reply);
  free(values);
  return extra ? 1 : reply.result;
}

static int error_text(const char *name, int code, const char **text) {
  static char texts[16][128];
  static unsigned next;
  char *buffer = texts[next++ % 16];
  memset(buffer, 0, sizeof texts[0]);
  answer reply = {0};
  ASK(name, &reply, WORD(code));
  if (reply.bytes) strncpy(buffer, (char *)reply.bytes, sizeof texts[0] - 1);
  free(reply.bytes);
  *text = buffer;
  return reply.result;
}

int cuGetErrorName(int code, const char **text) { return error_text("cuGetErrorName", code, text); }
int cuGetErrorString(int code, const char **text) { return error_text("cuGetErrorString", code, text); }

const char *ncclGetErrorString(int code) {
  const char *text;
  error_text("ncclGetErrorString", code, &text);
  return text;
}

int ncclGetUniqueId(unique_id *id) {
  answer reply = {.bytes = id->internal};
  ASK("ncclGetUniqueId", &reply, 0);
  return reply.result;
}

int ncclCommInitRank(void **comm, int ranks, unique_id id, int rank) {
  answer reply = {0};
  ask("ncclCommInitRank", (uint64_t[]){WORD(ranks), WORD(rank)}, 2, id.internal, ID_BYTES, &reply);
  *comm = (void *)(uintptr_t)reply.value;
  return reply.result;
}

int ncclCommSplit(void *comm, int color, int key, void **split, void *config) {
  answer reply = {0};
  ASK("ncclCommSplit", &reply, WORD(comm), (uint64_t)(int64_t)color, WORD(key));
  *split = color < 0 ? NULL : (void *)(uintptr_t)reply.value;
  return config ? 4 : reply.result;
}

VALUED(ncclCommGetAsyncError, "ncclCommGetAsyncError", (void *comm, int *value), int, WORD(comm))
PLAIN(ncclCommDestroy, "ncclCommDestroy", (void *comm), WORD(comm))
PLAIN(ncclCommAbort, "ncclCommAbort", (void *comm), WORD(comm))
PLAIN(ncclGroupStart, "ncclGroupStart", (void), 0)
PLAIN(ncclGroupEnd, "ncclGroupEnd", (void), 0)
PLAIN(ncclAllReduce, "ncclAllReduce", (uint64_t a, uint64_t b, size_t n, int type, int kind, void *comm, void *stream), a, b, n,
      WORD(type), WORD(kind), WORD(comm), WORD(stream))
PLAIN(ncclAllGather, "ncclAllGather", (uint64_t a, uint64_t b, size_t n, int type, void *comm, void *stream), a, b, n,
      WORD(type), WORD(comm), WORD(stream))
PLAIN(ncclReduceScatter, "ncclReduceScatter", (uint64_t a, uint64_t b, size_t n, int type, int kind, void *comm, void *stream),
      a, b, n, WORD(type), WORD(kind), WORD(comm), WORD(stream))
PLAIN(ncclBroadcast, "ncclBroadcast", (uint64_t a, uint64_t b, size_t n, int type, int root, void *comm, void *stream), a, b, n,
      WORD(type), WORD(root), WORD(comm), WORD(stream))
PLAIN(ncclReduce, "ncclReduce", (uint64_t a, uint64_t b, size_t n, int type, int kind, int root, void *comm, void *stream), a, b,
      n, WORD(type), WORD(kind), WORD(root), WORD(comm), WORD(stream))
PLAIN(ncclSend, "ncclSend", (uint64_t a, size_t n, int type, int peer, void *comm, void *stream), a, n, WORD(type), WORD(peer),
      WORD(comm), WORD(stream))
PLAIN(ncclRecv, "ncclRecv", (uint64_t a, size_t n, int type, int peer, void *comm, void *stream), a, n, WORD(type), WORD(peer),
      WORD(comm), WORD(stream))
