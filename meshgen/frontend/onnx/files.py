"""Readers for ONNX files: the model, and tensors in external data files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from meshgen.budget import read_file
from meshgen.errors import Diagnostic, Location, MissingError, ProgramError, UsageError, system_reason
from meshgen.ir.graph import TensorType, dtype_name
from meshgen.packages import install

Array = np.ndarray[Any, Any]
# Bytes of the largest file: the limit of a protobuf message. Larger models keep tensors in external files.
MOST_BYTES = 1 << 31


def is_onnx(program: Any) -> bool:
    """Whether `program` is an ONNX model in memory, or the path of an ONNX file."""
    if isinstance(program, (str, Path)):
        return Path(program).suffix == ".onnx" and "\n" not in str(program)
    return type(program).__name__ == "ModelProto" and hasattr(program, "opset_import")


def onnx_package() -> Any:
    """Import the `onnx` package. Raises MissingError MG0602 if it is not installed."""
    try:
        import_module("onnx.inliner")
        return import_module("onnx")
    except ImportError as error:
        text = "ONNX models are read with the Python package onnx, which is not installed"
        raise MissingError(Diagnostic("MG0602", text, hint=install("onnx"))) from error


def read_model(program: Any) -> tuple[Any, str, Path | None]:
    """Return the model, the name for it in messages, and the folder of its external data.

    The folder is None if `program` is a model in memory instead of a path.

    Raises:
        UsageError: MG0002, the file cannot be read.
        ProgramError: MG0101, the file is not an ONNX model.
    """
    onnx = onnx_package()
    if not isinstance(program, (str, Path)):
        return program, program.graph.name or "model.onnx", None
    path = Path(program)
    try:
        return onnx.load_model_from_string(read_file(path, MOST_BYTES)), str(path), path.parent
    except (OSError, ValueError) as error:  # ValueError: the path contains a null byte
        raise UsageError(Diagnostic("MG0002", f"{path}: {system_reason(error)}", hint="a program is a file")) from error
    except Exception as error:  # The exception type depends on the build of protobuf.
        text = f"the file is not an ONNX model: {error}"
        raise ProgramError(Diagnostic("MG0101", text, Location(str(path), 0))) from error


def array_of_proto(proto: Any, folder: Path | None, file: str) -> Array:
    """Return the elements of a stored tensor. External data is memory-mapped.

    Raises ProgramError MG0101 for a malformed tensor.
    """
    onnx = onnx_package()
    try:
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            return _read_external(proto, folder, file, onnx)
        array = onnx.numpy_helper.to_array(proto)
    except ProgramError:
        raise
    except Exception as error:  # Malformed sizes and types raise errors of various types.
        raise _tensor_fault(proto, file, f"is malformed: {error}") from error
    if array.dtype == object:
        raise _tensor_fault(proto, file, "holds strings, which are not supported")
    return array


def _read_external(proto: Any, folder: Path | None, file: str, onnx: Any) -> Array:
    """Read a tensor from an external file.

    Raises ProgramError MG0101 for a path outside of the model's folder, or a file that is too short.
    """
    entries = {entry.key: entry.value for entry in proto.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise _tensor_fault(
            proto, file, f"is in the file '{location}': give the model's path, so that its folder is known"
        )
    root = folder.resolve()
    path = (root / location).resolve()
    if not location or not path.is_relative_to(root):
        raise _tensor_fault(proto, file, f"is in '{location}', which is outside of the model's folder")
    dtype, shape = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(proto.data_type)), tuple(proto.dims)
    bits = _bits(dtype)
    expected_bytes = -(-int(np.prod(shape, dtype=object)) * bits // 8)
    try:
        offset, length = int(entries.get("offset") or 0), int(entries.get("length") or expected_bytes)
        file_bytes = path.stat().st_size
        if offset < 0 or length != expected_bytes or offset + expected_bytes > file_bytes:
            text = f"needs {expected_bytes} bytes, but the model assigns it {length} at offset {offset} of '{location}', which has {file_bytes}"
            raise _tensor_fault(proto, file, text)
        if expected_bytes and bits >= 8:
            return np.memmap(path, dtype, "r", offset, shape)
        with open(path, "rb") as stream:
            stream.seek(offset)
            packed = onnx.TensorProto(dims=shape, data_type=proto.data_type, raw_data=stream.read(expected_bytes))
        return onnx.numpy_helper.to_array(packed)
    except (OSError, ValueError) as error:
        raise _tensor_fault(proto, file, f"cannot be read from '{location}': {error}") from error


def _bits(dtype: np.dtype[Any]) -> int:
    """Return the bits per stored element. Elements of 2 and 4 bits are packed into bytes."""
    return int(dtype.name[-1]) if dtype.name in ("int4", "uint4", "int2", "uint2") else 8 * dtype.itemsize


def _tensor_fault(proto: Any, file: str, text: str) -> ProgramError:
    return ProgramError(Diagnostic("MG0101", f"tensor '{proto.name}' {text}", Location(file, 0)))


class Initializers(Mapping[str, Array]):
    """The initializers of a model by name. The elements of an initializer are read when it is looked up."""

    def __init__(self, protos: Mapping[str, Any], folder: Path | None, file: str) -> None:
        self._protos, self._folder, self._file = protos, folder, file

    def __getitem__(self, name: str) -> Array:
        return array_of_proto(self._protos[name], self._folder, self._file)

    def __contains__(self, name: object) -> bool:
        return name in self._protos

    def __iter__(self) -> Iterator[str]:
        return iter(self._protos)

    def __len__(self) -> int:
        return len(self._protos)

    def proto(self, name: str) -> Any:
        """Return the initializer `name` in its stored form, a `TensorProto`."""
        return self._protos[name]

    def type_of(self, name: str) -> TensorType:
        """Return the type of the initializer `name` without reading its elements.

        Raises ProgramError MG0101 for an unsupported dtype.
        """
        proto = self._protos[name]
        try:
            return TensorType(
                tuple(proto.dims), dtype_name(onnx_package().helper.tensor_dtype_to_np_dtype(proto.data_type))
            )
        except (KeyError, TypeError, ValueError) as error:
            raise _tensor_fault(proto, self._file, "has an element type that is not supported") from error

    def only(self, names: list[str]) -> Initializers:
        """Return a mapping with only the initializers in `names`."""
        return Initializers({name: self._protos[name] for name in names}, self._folder, self._file)
