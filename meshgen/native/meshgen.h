/* Runs meshgen modules (.mgx) on NVIDIA GPUs without Python. Needs only libcuda and libnccl, which are loaded at their first use.

       mgx_module *module;
       if (mgx_open("mlp.mgx", NULL, &module)) ...                           all ranks in this process, rank r on device r
       mgx_upload(module, mgx_find_input(module, "x"), x, sizeof x);         global arrays, row-major
       mgx_step(module);
       mgx_download(module, 0, y, sizeof y);
       mgx_close(module);

   The module file must have a launch table, which `meshgen native OUT.mgx` adds. The loader validates the entire file
   before it uses it.
   Only one thread at a time may use a module. docs/native.md is the guide. */
#ifndef MESHGEN_H
#define MESHGEN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The status of a call. mgx-run and `meshgen` use the same numbers as exit codes. */
typedef enum {
  MGX_OK = 0,
  MGX_REFUSED = 1, /* the file is not a module, is damaged, or has no launch table */
  MGX_USAGE = 2,   /* the call is invalid: an unreadable file, an index out of range, or a wrong size */
  MGX_FAILED = 4,  /* CUDA or NCCL failed, a peer was lost, or the time limit passed: the module can only be closed */
  MGX_MISSING = 5  /* the driver, NCCL, a device, or code for the device is missing */
} mgx_status;

typedef struct mgx_module mgx_module;

#define MGX_UNIQUE_ID_BYTES 128

/* Open the module without devices: its arguments and results can be queried, but it cannot run. */
#define MGX_NO_RANKS (-1)

typedef struct {
  int first_rank;                 /* first rank of this process */
  int ranks;                      /* number of ranks of this process; 0: all ranks of the module; or MGX_NO_RANKS */
  const int *devices;             /* CUDA device of each of these ranks; NULL: 0, 1, 2, ... */
  const unsigned char *unique_id; /* from `mgx_unique_id`, the same in all processes; NULL if there is only one process */
  double time_limit;              /* seconds after which a step is aborted; 0: no limit */
} mgx_options;

/* A tensor of the program: an argument that callers pass, or a result. */
typedef struct {
  const char *name;
  const char *dtype; /* element type as in `.npy` files, e.g. "<f4"; types that NumPy lacks are raw bytes, e.g. "<V2" for bf16 */
  size_t itemsize;   /* bytes of an element */
  int rank;          /* number of dims */
  const uint64_t *shape;
  size_t nbytes;     /* bytes of the global tensor */
} mgx_tensor_info;

/* Returns the message of the last call of this thread that did not return MGX_OK. */
const char *mgx_error(void);

/* Reads and validates a module, and prepares a step: memory, kernels, communicators and weights.
   `options` may be NULL. With several processes, returns after all of them have called it. */
mgx_status mgx_open(const char *path, const mgx_options *options, mgx_module **module);
void mgx_close(mgx_module *module);

/* Creates the id that all processes must pass to `mgx_open`: one process calls this and sends the id to the others. */
mgx_status mgx_unique_id(unsigned char id[MGX_UNIQUE_ID_BYTES]);

/* Returns the number of ranks of the module. */
int mgx_ranks(const mgx_module *module);

/* The arguments that callers pass, and the results, in the program's order. Weights that the module stores are not inputs. */
int mgx_inputs(const mgx_module *module);
int mgx_outputs(const mgx_module *module);
mgx_status mgx_input(const mgx_module *module, int index, mgx_tensor_info *info);
mgx_status mgx_output(const mgx_module *module, int index, mgx_tensor_info *info);
int mgx_find_input(const mgx_module *module, const char *name);  /* returns -1 for an unknown name */
int mgx_find_output(const mgx_module *module, const char *name); /* returns -1 for an unknown name */

/* Copies a global tensor from the host to the local ranks, each of which gets its shard. It persists between steps, but a step
   overwrites a donated argument with the result that is its next value. */
mgx_status mgx_upload(mgx_module *module, int input, const void *data, size_t nbytes);

/* Copies a global result to the host. With several processes, only the shards of local ranks are written. */
mgx_status mgx_download(mgx_module *module, int output, void *data, size_t nbytes);

/* Return the shard of a local rank in device memory (dense, row-major), for kernels of the caller. Between steps, these may write
   an argument there instead of uploading it, and read a result. */
mgx_status mgx_input_shard(const mgx_module *module, int input, int rank, uint64_t *address, size_t *nbytes);
mgx_status mgx_output_shard(const mgx_module *module, int output, int rank, uint64_t *address, size_t *nbytes);

/* Runs a step of the local ranks, synchronously. Every process must call it the same number of times. The first step is issued
   launch by launch, because the first use of kernels and connections allocates memory. Later steps run as CUDA graphs. */
mgx_status mgx_step(mgx_module *module);

#ifdef __cplusplus
}
#endif
#endif
