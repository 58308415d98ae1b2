/* Reads and writes row-major arrays as NumPy's `.npy` files. Source: numpy.lib.format, versions 1.0 to 3.0. */
#ifndef MESHGEN_NPY_H
#define MESHGEN_NPY_H

#include "meshgen.h"

/* Reads an array into `data`, which has `info->nbytes` bytes. The file must have the type and shape of `info`. */
mgx_status npy_read(const char *path, const mgx_tensor_info *info, void *data);
mgx_status npy_write(const char *path, const mgx_tensor_info *info, const void *data);

#endif
