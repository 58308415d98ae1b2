"""Types that a model declares for its values, and their comparison with the inferred types."""

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
    """A declared tensor type.

    Attributes:
        kind: the dtype, or empty if it is undeclared.
        shape: the sizes (None for an unknown size), or None for an unknown rank.
    """

    kind: str
    shape: tuple[int | None, ...] | None

    def __str__(self) -> str:
        sizes = "..." if self.shape is None else ",".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.kind or '?'}[{sizes}]"


def declared_types(infos: Iterable[Any]) -> dict[str, Declared]:
    """Return the first declared type of each tensor by name. Sequences and optional values are omitted."""
    types: dict[str, Declared] = {}
    for info in infos:
        if info.type.WhichOneof("value") == "tensor_type":
            tensor_type = info.type.tensor_type
            types.setdefault(info.name, Declared(_element_type(tensor_type.elem_type), declared_sizes(tensor_type)))
    return types


def declared_sizes(kind: Any) -> tuple[int | None, ...] | None:
    """Return the sizes of a declared tensor type, or None for an unknown rank.

    A symbolic or negative size is None; some exporters write negative sizes for unknown ones.
    """
    if not kind.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in kind.shape.dim)


def _element_type(code: int) -> str:
    try:
        return dtype_name(onnx_package().helper.tensor_dtype_to_np_dtype(code))
    except (KeyError, TypeError, ValueError):
        return ""  # undefined, or a dtype that the importer refuses where it is used


def contradiction(declared: Mapping[str, Declared], name: str, actual: TensorType | None) -> str:
    """Describe how a value's type differs from its declared type.

    Returns an empty string if they agree or one of them is unknown.
    """
    expected = declared.get(name)
    if expected is None or actual is None:
        return ""
    if expected.kind in ("", actual.dtype) and _fits(actual.shape, expected.shape):
        return ""
    return f"'{name}' is {actual}, but the model declares it as {expected}"


def type_of(value: Any) -> TensorType | None:
    """Return the type of a tensor or array, or None for other values."""
    return TensorType(value.shape, kind_of(value)) if isinstance(value, (Tensor, np.ndarray)) else None


def _fits(shape: Sequence[int | None], declared: Sequence[int | None] | None) -> bool:
    if declared is None:
        return True
    return len(shape) == len(declared) and all(
        expected in (None, actual) for actual, expected in zip(shape, declared, strict=True)
    )
