"""Constants of NCCL's C interface: data types, reductions and result codes.

Source: `nccl.h` of NCCL 2.32. The values have not changed since 2.24, which added the 8-bit floats.
"""

from __future__ import annotations

from enum import IntEnum

DATA_TYPES = {
    "i8": 0, "ui8": 1, "i32": 2, "ui32": 3, "i64": 4, "ui64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9,
    "f8E4M3FN": 10, "f8E5M2": 11,
}  # fmt: skip
REDUCTIONS = {"sum": 0, "product": 1, "max": 2, "min": 3}
UNIQUE_ID_BYTES = 128  # NCCL_UNIQUE_ID_BYTES in nccl.h
NO_COLOR = -1  # color of a rank that joins no communicator of a split; NCCL_SPLIT_NOCOLOR in nccl.h


class Result(IntEnum):
    ncclSuccess = 0
    ncclUnhandledCudaError = 1
    ncclSystemError = 2
    ncclInternalError = 3
    ncclInvalidArgument = 4
    ncclInvalidUsage = 5
    ncclRemoteError = 6
    ncclInProgress = 7
    ncclTimeout = 8


RESULT_TEXTS = {
    Result.ncclSuccess: "no error",
    Result.ncclUnhandledCudaError: "unhandled cuda error",
    Result.ncclSystemError: "unhandled system error",
    Result.ncclInternalError: "internal error",
    Result.ncclInvalidArgument: "invalid argument",
    Result.ncclInvalidUsage: "invalid usage",
    Result.ncclRemoteError: "remote process exited or there was a network error",
    Result.ncclInProgress: "NCCL operation in progress",
    Result.ncclTimeout: "NCCL operation timed out",
}
