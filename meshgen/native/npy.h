/* Arrays in NumPy's `.npy` files, row-major. Source: numpy.lib.format, versions 1.0 to 3.0. */
#ifndef MESHGEN_NPY_H
#define MESHGEN_NPY_H

#include "meshgen.h"

/* Reads an array of a tensor's type and shape into `data`, which has its bytes. */
mgx_status npy_read(const char *path, const mgx_tensor_info *info, void *data);
mgx_status npy_write(const char *path, const mgx_tensor_info *info, const void *data);

#endif
