"""Load arrays from untrusted files. The size in a header is checked against the size of the file and the free memory."""

from __future__ import annotations

import math
import os
import stat
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO
from typing import IO, Any

import numpy as np

from meshgen.budget import memory_fault
from meshgen.errors import Diagnostic, UsageError
from meshgen.runtime.archives import open_member, open_zip, zip_faults

Array = np.ndarray[Any, Any]

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
# largest header in bytes; NumPy rejects longer headers, but only after it has decompressed them
_MOST_HEADER = 12 + 10_000
_ZIP, _NPY = b"PK", b"\x93NUMPY"


def load_arrays(path: str, *, mapped: bool = False) -> dict[str, Array]:
    """Return the arrays of a `.npz` file by name, or the array of a `.npy` file under an empty name.

    Args:
        mapped: memory-map the array of a `.npy` file.
    Raises:
        UsageError: MG0002 for another kind of file, for a header that claims more bytes than the file holds, and for
            arrays that need more memory than is free.
    """
    with _reading(path):
        if not stat.S_ISREG(os.stat(path).st_mode):  # reading from a pipe or device may never end
            raise ValueError
        with open(path, "rb") as file:
            start = file.read(len(_NPY))
            file.seek(0)
            if start.startswith(_ZIP):
                return _members(path, file)
            claimed = _claimed_bytes(file, os.fstat(file.fileno()).st_size)
            if mapped and claimed:
                return {"": np.load(path, mmap_mode="r", allow_pickle=False)}
            _refuse_too_big(path, claimed)
            file.seek(0)
            return {"": np.lib.format.read_array(file, allow_pickle=False)}


def is_raw(array: Array) -> bool:
    """Whether the elements of an array are raw bytes, which is how NumPy stores bf16 and 8-bit floats in files."""
    return array.dtype.kind == "V" and array.dtype.names is None and array.dtype.subdtype is None


@contextmanager
def _reading(path: str) -> Generator[None]:
    """Return a context manager that converts the exceptions of reading `path` to UsageError."""
    try:
        with zip_faults():
            yield
    except (OSError, ValueError, MemoryError) as error:
        why = f": {error.strerror}" if isinstance(error, OSError) and error.strerror else " as arrays"
        hint = "give a .npy or .npz file"
        raise UsageError(Diagnostic("MG0002", f"'{path}' cannot be read{why}", hint=hint)) from error


def _members(path: str, file: IO[bytes]) -> dict[str, Array]:
    """Return the arrays of a zip file. The sizes of all arrays are checked before the first is decompressed."""
    with _zip_of(path, file) as archive:
        entries, total = archive.infolist(), 0
        for entry in entries:
            if not entry.filename.endswith(".npy"):
                raise ValueError
            with open_member(archive, entry) as member:
                total += _claimed_bytes(member, entry.file_size)
        _refuse_too_big(path, total)
        arrays: dict[str, Array] = {}
        for entry in entries:
            with open_member(archive, entry) as member:
                arrays[entry.filename.removesuffix(".npy")] = np.lib.format.read_array(member, allow_pickle=False)
        return arrays


def _zip_of(path: str, file: IO[bytes]) -> zipfile.ZipFile:
    try:
        return open_zip(file)
    except ValueError as error:
        raise UsageError(
            Diagnostic("MG0002", f"'{path}' cannot be read: {error}", hint="give a .npy or .npz file")
        ) from error


def _claimed_bytes(file: IO[bytes], size: int) -> int:
    """Return the size of an array in bytes, according to the header of its file.

    Raises:
        ValueError: a file of `size` bytes cannot hold the array.
    """
    header = BytesIO(file.read(_MOST_HEADER))
    version: Any = np.lib.format.read_magic(header)
    if version not in _HEADERS:
        raise ValueError
    shape, _, dtype = _HEADERS[version](header)
    claimed = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or any(isinstance(dim, bool) for dim in shape) or min(shape, default=0) < 0 or claimed > size:
        raise ValueError
    return claimed


def _refuse_too_big(path: str, total: int) -> None:
    if fault := memory_fault(total, "its content"):
        raise UsageError(Diagnostic("MG0002", f"'{path}' cannot be read: {fault}", hint="give smaller arrays"))
