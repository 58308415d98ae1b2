"""Zero-copy exchange of arrays with other libraries through DLPack and `__cuda_array_interface__`.

NumPy's `from_dlpack` supports neither bf16, 8-bit floats nor device memory, so this module reads and makes capsules.

Source: dlpack.h of DLPack 1.0 (`DLManagedTensor`, type codes, device types); Numba's CUDA array interface, version 3.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshgen.ir.graph import DTYPES, dtype_name

Array = np.ndarray[Any, Any]
CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13  # values of DLDeviceType in dlpack.h

_ON_HOST = (CPU, CUDA_HOST)
_CODES = {  # DLDataTypeCode of dlpack.h, and bits per element
    "i8": (0, 8), "i16": (0, 16), "i32": (0, 32), "i64": (0, 64), "ui8": (1, 8), "ui16": (1, 16), "ui32": (1, 32), "ui64": (1, 64),
    "f16": (2, 16), "f32": (2, 32), "f64": (2, 64), "bf16": (4, 16), "c64": (5, 64), "c128": (5, 128), "i1": (6, 8),
    "f8E3M4": (7, 8), "f8E4M3": (8, 8), "f8E4M3B11FNUZ": (9, 8), "f8E4M3FN": (10, 8), "f8E4M3FNUZ": (11, 8), "f8E5M2": (12, 8),
    "f8E5M2FNUZ": (13, 8), "f8E8M0FNU": (14, 8),
}  # fmt: skip
_DTYPES = {code: name for name, code in _CODES.items()}
_NAME, _USED = b"dltensor", b"used_dltensor"


class _Tensor(ctypes.Structure):
    """The C struct `DLTensor`. Strides count elements; a null pointer means row-major order."""

    _fields_ = [
        ("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8),
        ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]  # fmt: skip


class _Managed(ctypes.Structure):
    """The C struct `DLManagedTensor`."""


_Deleter = ctypes.CFUNCTYPE(None, POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", _Deleter)]
_CapsuleDestructor = ctypes.CFUNCTYPE(None, c_void_p)


def _python(name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of Python's C API."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_is_valid = _python("PyCapsule_IsValid", c_int, ctypes.py_object, c_char_p)
_pointer = _python("PyCapsule_GetPointer", c_void_p, ctypes.py_object, c_char_p)
_rename = _python("PyCapsule_SetName", c_int, ctypes.py_object, c_char_p)
_new = _python("PyCapsule_New", ctypes.py_object, c_void_p, c_char_p, c_void_p)


@dataclass(frozen=True)
class Memory:
    """The memory of an array of another library.

    Attributes:
        strides: in elements, or None for row-major order.
        device: DLPack's device type and device id.
        owner: an object that keeps the memory alive.
    """

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    device: tuple[int, int]
    is_read_only: bool
    owner: object

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are contiguous in row-major order."""
        if self.strides is None or 0 in self.shape:
            return True
        expected = [math.prod(self.shape[dim + 1 :]) for dim in range(len(self.shape))]
        return all(
            size == 1 or have == want for size, have, want in zip(self.shape, self.strides, expected, strict=True)
        )

    def array(self) -> Array:
        """Return a NumPy view of the memory, which must be on the host."""
        assert self.device[0] in _ON_HOST, "only the host's memory is read here"
        strides = [step * self.dtype.itemsize for step in self.strides or _row_major(self.shape)]
        span = (
            sum(step * (size - 1) for step, size in zip(strides, self.shape, strict=True)) if 0 not in self.shape else 0
        )
        nbytes = span + self.dtype.itemsize if math.prod(self.shape) else 0
        memory: Any = (c_uint8 * nbytes).from_address(self.address) if nbytes else (c_uint8 * 1)()
        # A ctypes array keeps its attributes alive, and the NumPy array keeps the ctypes array alive.
        memory.owner = self.owner
        view = np.ndarray(self.shape, self.dtype, memory, 0, strides)
        view.flags.writeable = not self.is_read_only
        return view


def memory_of(value: Any, stream: int | None = None) -> Memory | None:
    """Return the memory of an array of another library, or None for other objects and unsupported element types.

    Args:
        stream: the consumer's stream on the device, which will wait for the producer's work. If None, the host waits
            instead.
    """
    if isinstance(interface := getattr(value, "__cuda_array_interface__", None), dict):
        return _of_interface(value, interface)
    if not hasattr(value, "__dlpack__") or not hasattr(value, "__dlpack_device__"):
        return None
    on_device = int(value.__dlpack_device__()[0]) not in _ON_HOST
    capsule = value.__dlpack__(stream=stream) if on_device and stream is not None else value.__dlpack__()
    return _of_capsule(capsule)


def on_host(value: Any) -> Any:
    """Convert a host array of another library to a NumPy array without a copy, and return any other object unchanged."""
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
        return value
    if int(value.__dlpack_device__()[0]) not in _ON_HOST:
        return value
    try:
        memory = memory_of(value)
    # For example, a tensor that requires gradients: the caller's own conversion raises a better error.
    except (BufferError, RuntimeError, TypeError):
        return value
    return value if memory is None else memory.array()


def _of_interface(value: Any, interface: dict[str, Any]) -> Memory | None:
    address, is_read_only = interface["data"]
    dtype = np.dtype(interface["typestr"])
    try:
        dtype_name(dtype)
    except KeyError:
        return None
    strides = interface.get("strides")
    element_strides = None if strides is None else tuple(step // dtype.itemsize for step in strides)
    device_id = getattr(getattr(value, "device", None), "id", getattr(value, "device_id", 0))
    device = (CUDA, device_id if isinstance(device_id, int) else 0)
    return Memory(int(address), tuple(interface["shape"]), dtype, element_strides, device, bool(is_read_only), value)


class _Owner:
    """Calls the deleter of a capsule's tensor when the last reference is dropped."""

    def __init__(self, managed: Any) -> None:
        self._managed = managed

    def __del__(self) -> None:
        if self._managed.contents.deleter:
            self._managed.contents.deleter(self._managed)


def _of_capsule(capsule: Any) -> Memory | None:
    """Consume a DLPack capsule and return the memory of the tensor in it, or None if the element type is unsupported."""
    if not _is_valid(capsule, _NAME):
        return None
    managed = ctypes.cast(_pointer(capsule, _NAME), POINTER(_Managed))
    tensor = managed.contents.tensor
    name = _DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if name is None:
        return None
    _rename(capsule, _USED)
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    address = (tensor.data or 0) + tensor.byte_offset
    device = (tensor.device_type, tensor.device_id)
    return Memory(address, shape, DTYPES[name], strides, device, False, _Owner(managed))


# address of an exported struct -> the tensor, which must stay alive while another library uses it
_EXPORTED: dict[int, Any] = {}


def capsule_of(memory: Memory) -> Any:
    """Return a DLPack capsule of contiguous memory. The capsule keeps the memory alive until its consumer deletes it."""
    shape = (c_int64 * max(1, len(memory.shape)))(*memory.shape)
    strides = (c_int64 * max(1, len(memory.shape)))(*(memory.strides or _row_major(memory.shape)))
    code, bits = _CODES[dtype_name(memory.dtype)]
    tensor = _Tensor(
        memory.address, *memory.device, len(memory.shape), code, bits, 1, ctypes.cast(shape, POINTER(c_int64)),
        ctypes.cast(strides, POINTER(c_int64)), 0,
    )  # fmt: skip
    managed = _Managed(tensor, None, _release_exported)
    address = ctypes.addressof(managed)
    _EXPORTED[address] = managed, shape, strides, memory
    return _new(address, _NAME, ctypes.cast(_drop_unused, c_void_p))


@_Deleter
def _release_exported(managed: Any) -> None:
    _EXPORTED.pop(ctypes.addressof(managed.contents), None)


_is_valid_at = _python("PyCapsule_IsValid", c_int, c_void_p, c_char_p)
_pointer_at = _python("PyCapsule_GetPointer", c_void_p, c_void_p, c_char_p)


@_CapsuleDestructor
def _drop_unused(capsule: int) -> None:
    """Free a capsule that was never consumed."""
    if _is_valid_at(capsule, _NAME):
        _EXPORTED.pop(_pointer_at(capsule, _NAME), None)


def _row_major(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[dim + 1 :]) for dim in range(len(shape))]
