"""Reading ONNX files: the model, and the tensors that it keeps in files beside it."""

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
MOST_BYTES = 1 << 31  # a message of protobuf has no more; larger models have their tensors in other files


def is_onnx(program: Any) -> bool:
    """Whether this is an ONNX model in memory, or the path of one."""
    if isinstance(program, (str, Path)):
        return Path(program).suffix == ".onnx" and "\n" not in str(program)
    return type(program).__name__ == "ModelProto" and hasattr(program, "opset_import")


def onnx_package() -> Any:
    """The `onnx` package. Raises MissingError MG0602."""
    try:
        import_module("onnx.inliner")
        return import_module("onnx")
    except ImportError as error:
        text = "ONNX models are read with the Python package onnx, which is not installed"
        raise MissingError(Diagnostic("MG0602", text, hint=install("onnx"))) from error


def read_model(program: Any) -> tuple[Any, str, Path | None]:
    """The model, the file's name for messages, and the folder of its external data (None: it was given in memory).

    Raises UsageError MG0002 where the file cannot be read, ProgramError MG0101 where it is not an ONNX model.
    """
    onnx = onnx_package()
    if not isinstance(program, (str, Path)):
        return program, program.graph.name or "model.onnx", None
    path = Path(program)
    try:
        return onnx.load_model_from_string(read_file(path, MOST_BYTES)), str(path), path.parent
    except (OSError, ValueError) as error:  # ValueError: a path with a byte 0
        raise UsageError(Diagnostic("MG0002", f"{path}: {system_reason(error)}", hint="a program is a file")) from error
    except Exception as error:  # what protobuf raises depends on how it was built
        text = f"the file is not an ONNX model: {error}"
        raise ProgramError(Diagnostic("MG0101", text, Location(str(path), 0))) from error


def array_of_proto(proto: Any, folder: Path | None, file: str) -> Array:
    """The elements of a tensor of a model; those beside it are mapped. Raises ProgramError MG0101."""
    onnx = onnx_package()
    try:
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            return _external(proto, folder, file, onnx)
        array = onnx.numpy_helper.to_array(proto)
    except ProgramError:
        raise
    except Exception as error:  # malformed sizes and types raise various errors
        raise _tensor_fault(proto, file, f"is malformed: {error}") from error
    if array.dtype == object:
        raise _tensor_fault(proto, file, "holds strings, which are not supported")
    return array


def _external(proto: Any, folder: Path | None, file: str, onnx: Any) -> Array:
    """The elements in a file in the model's folder. Raises ProgramError MG0101 for a place outside of it, and a short file."""
    entries = {entry.key: entry.value for entry in proto.external_data}
    place = entries.get("location", "")
    if folder is None:
        raise _tensor_fault(
            proto, file, f"is in the file '{place}': give the model's path, so that its folder is known"
        )
    root = folder.resolve()
    path = (root / place).resolve()
    if not place or not path.is_relative_to(root):
        raise _tensor_fault(proto, file, f"is said to be in '{place}', which is not in the model's folder")
    dtype, shape = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(proto.data_type)), tuple(proto.dims)
    bits = _bits(dtype)
    wanted = -(-int(np.prod(shape, dtype=object)) * bits // 8)
    try:
        offset, length = int(entries.get("offset") or 0), int(entries.get("length") or wanted)
        held = path.stat().st_size
        if offset < 0 or length != wanted or offset + wanted > held:
            text = f"has {wanted} bytes, but {length} from {offset} on are said to be its, of {held} in '{place}'"
            raise _tensor_fault(proto, file, text)
        if wanted and bits >= 8:
            return np.memmap(path, dtype, "r", offset, shape)
        with open(path, "rb") as stream:
            stream.seek(offset)
            packed = onnx.TensorProto(dims=shape, data_type=proto.data_type, raw_data=stream.read(wanted))
        return onnx.numpy_helper.to_array(packed)
    except (OSError, ValueError) as error:
        raise _tensor_fault(proto, file, f"cannot be read from '{place}': {error}") from error


def _bits(dtype: np.dtype[Any]) -> int:
    """Bits of an element; several of those of 2 and 4 bits are packed in a byte."""
    return int(dtype.name[-1]) if dtype.name in ("int4", "uint4", "int2", "uint2") else 8 * dtype.itemsize


def _tensor_fault(proto: Any, file: str, text: str) -> ProgramError:
    return ProgramError(Diagnostic("MG0101", f"tensor '{proto.name}' {text}", Location(file, 0)))


class Initializers(Mapping[str, Array]):
    """The initializers of a model by name, each read when it is asked for."""

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
        """The tensor as the model has it."""
        return self._protos[name]

    def type_of(self, name: str) -> TensorType:
        """The type of a tensor of numbers, whose elements are not read. Raises ProgramError MG0101."""
        proto = self._protos[name]
        try:
            return TensorType(
                tuple(proto.dims), dtype_name(onnx_package().helper.tensor_dtype_to_np_dtype(proto.data_type))
            )
        except (KeyError, TypeError, ValueError) as error:
            raise _tensor_fault(proto, self._file, "has an element type that is not supported") from error

    def only(self, names: list[str]) -> Initializers:
        """Those of these names."""
        return Initializers({name: self._protos[name] for name in names}, self._folder, self._file)
