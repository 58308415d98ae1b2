"""Declared types of a model's values, and their comparison with the types that the importer infers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshgen.frontend.onnx.files import onnx_package
from meshgen.frontend.onnx.ops.table import kind_of
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import TensorType, dtype_name

HINT = "correct the declared type, or clear graph.value_info and infer it again with onnx.shape_inference"


@dataclass(frozen=True)
class Declared:
    """The tensor type that a model declares for a value; parts of it may be unknown.

    Attributes:
        kind: the dtype, or empty if the model declares none.
        shape: the sizes, with None for an unknown size; None if the rank is unknown.
    """

    kind: str
    shape: tuple[int | None, ...] | None

    def __str__(self) -> str:
        sizes = "..." if self.shape is None else ",".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.kind or '?'}[{sizes}]"


def declared_types(infos: Iterable[Any]) -> dict[str, Declared]:
    """Map tensor names to their declared types; the first of several declarations counts.

    Sequences and optionals are omitted.
    """
    types: dict[str, Declared] = {}
    for info in infos:
        if info.type.WhichOneof("value") == "tensor_type":
            tensor_type = info.type.tensor_type
            types.setdefault(info.name, Declared(_element_type(tensor_type.elem_type), declared_sizes(tensor_type)))
    return types


def declared_sizes(kind: Any) -> tuple[int | None, ...] | None:
    """Return the sizes of a declared tensor type, or None if the rank is unknown.

    Symbolic and negative sizes become None; some exporters write negative sizes for unknown ones.
    """
    if not kind.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in kind.shape.dim)


def _element_type(code: int) -> str:
    try:
        return dtype_name(onnx_package().helper.tensor_dtype_to_np_dtype(code))
    except (KeyError, TypeError, ValueError):
        return ""  # The dtype is undefined, or unsupported; the importer reports an unsupported one where it is used.


def contradiction(declared: Mapping[str, Declared], name: str, actual: TensorType | None) -> str:
    """Return a message if the type `actual` of the value `name` differs from the declared type, else an empty string.

    Unknown types and sizes agree with all others.
    """
    expected = declared.get(name)
    if expected is None or actual is None:
        return ""
    if expected.kind in ("", actual.dtype) and _fits(actual.shape, expected.shape):
        return ""
    return f"'{name}' is {actual}, but the model declares it as {expected}"


def type_of(value: Any) -> TensorType | None:
    """Return the type of a traced tensor or NumPy array, or None for other values, such as sequences."""
    return TensorType(value.shape, kind_of(value)) if isinstance(value, (Tensor, np.ndarray)) else None


def _fits(shape: Sequence[int | None], declared: Sequence[int | None] | None) -> bool:
    if declared is None:
        return True
    return len(shape) == len(declared) and all(
        expected in (None, actual) for actual, expected in zip(shape, declared, strict=True)
    )
