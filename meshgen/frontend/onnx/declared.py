"""Types that a model declares for its values, held against the types that are computed."""

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
    """A declared tensor type: the element type (empty if open), and the sizes (None: open), or None for an open rank."""

    kind: str
    shape: tuple[int | None, ...] | None

    def __str__(self) -> str:
        sizes = "..." if self.shape is None else ",".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.kind or '?'}[{sizes}]"


def declared_types(infos: Iterable[Any]) -> dict[str, Declared]:
    """The first declared type of each tensor by name. Types of sequences and optional values are left out."""
    found: dict[str, Declared] = {}
    for info in infos:
        if info.type.WhichOneof("value") == "tensor_type":
            kind = info.type.tensor_type
            found.setdefault(info.name, Declared(_element_type(kind.elem_type), declared_sizes(kind)))
    return found


def declared_sizes(kind: Any) -> tuple[int | None, ...] | None:
    """The sizes of a declared tensor type; None for a size that is a symbol, or negative, which some exporters write for open ones."""
    if not kind.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in kind.shape.dim)


def _element_type(number: int) -> str:
    try:
        return dtype_name(onnx_package().helper.tensor_dtype_to_np_dtype(number))
    except (KeyError, TypeError, ValueError):
        return ""  # undefined, or one that the reader refuses where it is used


def contradiction(declared: Mapping[str, Declared], name: str, actual: TensorType | None) -> str:
    """How the type of a value differs from its declared type; empty if it does not, or if one of the two is unknown."""
    expected = declared.get(name)
    if expected is None or actual is None:
        return ""
    if expected.kind in ("", actual.dtype) and _fits(actual.shape, expected.shape):
        return ""
    return f"'{name}' is {actual}, but the model declares it as {expected}"


def type_of(value: Any) -> TensorType | None:
    """The type of a tensor or an array; None for other values."""
    return TensorType(value.shape, kind_of(value)) if isinstance(value, (Tensor, np.ndarray)) else None


def _fits(shape: Sequence[int | None], declared: Sequence[int | None] | None) -> bool:
    if declared is None:
        return True
    return len(shape) == len(declared) and all(b in (None, a) for a, b in zip(shape, declared, strict=True))
