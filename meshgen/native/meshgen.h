/* Runs meshgen modules (.mgx) on NVIDIA GPUs without Python: libcuda and libnccl, found when they are needed, and nothing else.

       mgx_module *module;
       if (mgx_open("mlp.mgx", NULL, &module)) ...                           every rank in this process, rank r on device r
       mgx_upload(module, mgx_find_input(module, "x"), x, sizeof x);         whole tensors of the program, row-major
       mgx_step(module);
       mgx_download(module, 0, y, sizeof y);
       mgx_close(module);

   The module needs its launch table: `meshgen native OUT.mgx` puts it in. Everything in the file is checked before it is used.
   A module belongs to one thread at a time. docs/native.md tells more. */
#ifndef MESHGEN_H
#define MESHGEN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a call comes to: also the exit codes of mgx-run, and of `meshgen`. */
typedef enum {
  MGX_OK = 0,
  MGX_REFUSED = 1, /* the file is not a module, is damaged, or has no launch table */
  MGX_USAGE = 2,   /* the call is wrong: the file cannot be read, a number or size does not fit */
  MGX_FAILED = 4,  /* CUDA or NCCL failed, a peer is lost, or the time is up: the module can only be closed */
  MGX_MISSING = 5  /* the driver, NCCL, a device, or code for the device is missing */
} mgx_status;

typedef struct mgx_module mgx_module;

#define MGX_UNIQUE_ID_BYTES 128

/* No devices are needed: the module can tell what it takes and gives, but not run. */
#define MGX_NO_RANKS (-1)

typedef struct {
  int first_rank;                 /* of the ranks of this process */
  int ranks;                      /* their number; 0: all ranks of the module; MGX_NO_RANKS */
  const int *devices;             /* of each of them the CUDA device; NULL: 0, 1, 2, ... */
  const unsigned char *unique_id; /* of `mgx_unique_id` on one process, where there are several; else NULL */
  double time_limit;              /* seconds for a step, after which it is ended; 0: none */
} mgx_options;

/* A tensor of the program: an argument that callers pass, or a result. */
typedef struct {
  const char *name;
  const char *dtype; /* as `.npy` files name element types: "<f4"; "<V2" for bf16 and others that NumPy lacks */
  size_t itemsize;   /* bytes of an element */
  int rank;          /* number of dims */
  const uint64_t *shape;
  size_t nbytes;     /* of the whole tensor */
} mgx_tensor_info;

/* Why the last call of this thread did not return MGX_OK. */
const char *mgx_error(void);

/* Reads and checks a module, and makes everything ready that a step needs: memory, kernels, communicators, weights.
   `options` may be NULL. With several processes it returns when all of them are there. */
mgx_status mgx_open(const char *path, const mgx_options *options, mgx_module **module);
void mgx_close(mgx_module *module);

/* What processes must share before `mgx_open`: one makes it and hands it to the others. */
mgx_status mgx_unique_id(unsigned char id[MGX_UNIQUE_ID_BYTES]);

/* Number of ranks of the module. */
int mgx_ranks(const mgx_module *module);

/* Arguments that callers pass, and results, in the program's order. Weights that the module holds are in place. */
int mgx_inputs(const mgx_module *module);
int mgx_outputs(const mgx_module *module);
mgx_status mgx_input(const mgx_module *module, int number, mgx_tensor_info *info);
mgx_status mgx_output(const mgx_module *module, int number, mgx_tensor_info *info);
int mgx_find_input(const mgx_module *module, const char *name);  /* -1: there is none */
int mgx_find_output(const mgx_module *module, const char *name); /* -1: there is none */

/* A whole tensor of the host to the local ranks, each its shard. It stays for later steps; a donated one is overwritten by the
   result that is its next value. */
mgx_status mgx_upload(mgx_module *module, int input, const void *data, size_t nbytes);

/* A whole result to the host. With several processes only the shards of local ranks are written. */
mgx_status mgx_download(mgx_module *module, int output, void *data, size_t nbytes);

/* The shard of a local rank on its device, for kernels of the caller: dense, row-major, `nbytes` long.
   An argument may be written there instead of uploaded, a result read until the next step. Only between steps. */
mgx_status mgx_input_shard(const mgx_module *module, int input, int rank, uint64_t *address, size_t *nbytes);
mgx_status mgx_output_shard(const mgx_module *module, int output, int rank, uint64_t *address, size_t *nbytes);

/* One step of the local ranks; returns when it is done. Every process must call it equally often. The first step of a
   program is issued launch by launch, because first uses allocate memory; later ones are CUDA graphs. */
mgx_status mgx_step(mgx_module *module);

#ifdef __cplusplus
}
#endif
#endif
