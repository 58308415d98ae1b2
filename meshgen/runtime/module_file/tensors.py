"""Reading and writing of named tensors in the safetensors format: a JSON header, then the bytes of the tensors.

Tensors are ordered by element size, largest first, then by name. This keeps each tensor aligned to its element size
without gaps, which the format forbids. If the format lacks an element type, the tensor is stored as u8, with the bytes
of an element as an extra innermost dim. The header's metadata holds the actual type.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from meshgen.ir.graph import DTYPES, dtype_name
from meshgen.ir.limits import MAX_LOCAL_RANK
from meshgen.runtime.module_file.json_values import (
    get,
    one_of,
    read_counts,
    read_json,
    read_table,
    read_text,
    shown,
    table_of,
)

_NAMES = {
    "f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "i64": "I64", "i32": "I32", "i16": "I16", "i8": "I8",
    "ui64": "U64", "ui32": "U32", "ui16": "U16", "ui8": "U8", "i1": "BOOL", "f8E4M3FN": "F8_E4M3", "f8E5M2": "F8_E5M2",
    "f8E8M0FNU": "F8_E8M0", "c64": "C64",
}  # fmt: skip
_DTYPES = {theirs: ours for ours, theirs in _NAMES.items()}
HEADER_ALIGNMENT = 64  # alignment of the header in bytes (chosen: a cache line; safetensors requires 8)


def encode(tensors: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """Return the tensors as bytes in the safetensors format."""
    header: dict[str, Any] = {}
    dtypes_in_metadata: dict[str, str] = {}
    chunks: list[memoryview] = []
    offset = 0
    for name in sorted(tensors, key=lambda name: (-tensors[name].itemsize, name)):
        array, dtype = tensors[name], dtype_name(tensors[name].dtype)
        chunks.append(content_of(array))
        span, shape = [offset, offset + len(chunks[-1])], [*array.shape]
        if dtype not in _NAMES:
            dtypes_in_metadata[name], dtype, shape = dtype, "ui8", [*shape, array.itemsize]
        header[name] = {"dtype": _NAMES[dtype], "shape": shape, "data_offsets": span}
        offset = span[1]
    if dtypes_in_metadata:
        header["__metadata__"] = dtypes_in_metadata
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % HEADER_ALIGNMENT)
    return b"".join([struct.pack("<Q", len(text)), text, *chunks])


def content_of(array: np.ndarray[Any, Any]) -> memoryview:
    """Return the bytes of an array in row-major order, without a copy if the array is contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data.toreadonly()


class Tensors(Mapping[str, np.ndarray[Any, Any]]):
    """A mapping from names to read-only arrays over the bytes of a member or file.

    A tensor is read when it is accessed, without a copy.
    """

    def __init__(self, content: memoryview) -> None:
        """Read the header.

        Raises ValueError if it is malformed, or if a byte of the content belongs to no tensor or to two.
        """
        if len(content) < 8:
            raise ValueError(f"tensors need a header, but there are {len(content)} bytes")
        size = struct.unpack_from("<Q", content)[0]
        if size > len(content) - 8:
            raise ValueError(f"a header of {size} bytes in {len(content)}")
        self._header = read_table(read_json(bytes(content[8 : 8 + size])))
        self._metadata_values = table_of(self._header.pop("__metadata__", {}), read_text)
        self._bytes = content[8 + size :]
        _require_full_coverage({name: get(self._header, name, _span) for name in self._header}, len(self._bytes))

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        """Return a tensor. Raises KeyError if it is unknown, ValueError if it is malformed."""
        if name not in self._header:
            raise KeyError(name)
        array = get(self._header, name, lambda entry: _view(self._bytes, entry))
        return _as_type(array, self._metadata_values[name]) if name in self._metadata_values else array

    def __iter__(self) -> Iterator[str]:
        return iter(self._header)

    def __len__(self) -> int:
        return len(self._header)


def decode(content: memoryview) -> dict[str, np.ndarray[Any, Any]]:
    """Return all tensors of a member by name, as read-only views. Raises ValueError for a malformed member."""
    return dict(Tensors(content))


def places(content: memoryview) -> dict[str, tuple[int, int]]:
    """Return the byte range [start, stop) of each tensor in a member that was checked before."""
    start = 8 + struct.unpack_from("<Q", content)[0]
    header = json.loads(bytes(content[8:start]))
    spans = {name: entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"}
    return {name: (start + first, start + end) for name, (first, end) in spans.items()}


def _span(entry: Any) -> tuple[int, ...]:
    span = get(entry, "data_offsets", read_counts)
    if len(span) != 2:
        raise ValueError(f"{len(span)} offsets")
    return span


def _require_full_coverage(spans: Mapping[str, tuple[int, ...]], size: int) -> None:
    """Raise ValueError unless the tensors cover the content without gaps or overlaps, so that a file can hide no data."""
    end = 0
    for name, (start, stop) in sorted(spans.items(), key=lambda row: row[1]):
        if start != end or stop < start:
            raise ValueError(
                f"{shown(name)} begins at byte {start} and ends at {stop}, but the tensor before it ends at byte {end}"
            )
        end = stop
    if end != size:
        raise ValueError(f"the last tensor ends at byte {end}, but there are {size} bytes of tensors")


def _view(content: memoryview, entry: Any) -> np.ndarray[Any, Any]:
    dtype = DTYPES[_DTYPES[get(entry, "dtype", lambda name: one_of(name, tuple(_DTYPES)))]]
    shape, (start, stop) = get(entry, "shape", read_counts), _span(entry)
    if len(shape) > MAX_LOCAL_RANK:
        raise ValueError(f"{len(shape)} dims")
    if not start <= stop <= len(content) or stop - start != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"a tensor of shape {shape} at bytes {start} to {stop} of {len(content)}")
    flat = np.frombuffer(content[start:stop], dtype=np.uint8)
    if dtype == np.bool_ and flat.max(initial=0) > 1:
        raise ValueError("a byte of BOOL is neither 0 nor 1")
    array = flat.view(dtype).reshape(shape)
    array.flags.writeable = False
    return array


def _as_type(array: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Return `array`, whose innermost dim holds bytes of elements, as an array of `dtype`.

    Arrays of another layout are returned unchanged, because other writers use the metadata for other purposes.
    """
    element_type = DTYPES.get(dtype)
    if element_type is None or array.dtype != np.uint8 or array.shape[-1:] != (element_type.itemsize,):
        return array
    return array.reshape(-1).view(element_type).reshape(array.shape[:-1])
