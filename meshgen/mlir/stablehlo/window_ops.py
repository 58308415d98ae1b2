"""Operations of StableHLO for reductions over windows (reduce_window and select_and_scatter), and scatter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import builtin
from xdsl.ir import Attribute, Operation

from meshgen.ir.graph import TensorType
from meshgen.mlir import literals
from meshgen.mlir.attributes import integers
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dense import DenseData, DenseElements, dense_text
from meshgen.mlir.fields import flag, listed
from meshgen.mlir.stablehlo.attributes import ScatterDimensions
from meshgen.mlir.stablehlo.base import GenericOperation, as_nodes, closed_regions
from meshgen.mlir.stablehlo.fields import numbering
from meshgen.mlir.text_operation import Field, define, values_of

_SCATTER_LISTS = (
    "update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims",
    "scatter_dims_to_operand_dims",
)  # fmt: skip


def per_dim(prop: str, attr: str, default: int, keyword: str = "",
            write: Callable[[Sequence[int]], str] = literals.array) -> Field:  # fmt: skip
    """Return a field for a list with one integer per dim.

    If the list is missing, the node attribute is the single integer `default`, which `filled` expands to a list.
    """
    return Field(
        prop,
        lambda attribute: {attr: integers(attribute) or default},
        lambda values: write(values[attr]),
        keyword,
        is_required=False,
        kind="integers",
    )


def sides(keyword: str = "") -> Field:
    """Return the field for `padding`, which has two integers per dim: the node attributes `low` and `high`."""

    def values(attribute: Attribute | None) -> Mapping[str, Any]:
        numbers = integers(attribute)
        return {"low": numbers[::2] or 0, "high": numbers[1::2] or 0}

    def entry(attrs: Mapping[str, Any]) -> str:
        pairs = np.array([attrs["low"], attrs["high"]], np.int64).T
        return f"{dense_text(pairs, TensorType(pairs.shape, 'i64'))} : tensor<{len(pairs)}x2xi64>"

    return Field("padding", values, entry, keyword, is_required=False,
                 kind="integers")  # fmt: skip


def filled(attrs: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """Return the attributes in which each single integer, the default of a missing list, is expanded to `rank` entries."""
    names = (
        "low",
        "high",
        *(name for name in attrs if name.startswith("window_") or name.endswith(("dilation", "dilations"))),
    )
    return {**attrs} | {name: (attrs[name],) * rank for name in names if isinstance(attrs.get(name), int)}


def padding(low: Sequence[int], high: Sequence[int]) -> Attribute:
    """Return the attribute `dense<[[low, high], ...]> : tensor<nx2xi64>`."""
    pairs = np.array([low, high], np.int64).T
    return DenseElements(DenseData(builtin.TensorType(builtin.i64, pairs.shape), "i64", pairs.tobytes()))


_OPERATIONS = (
    *define(GenericOperation, "stablehlo", {"2+2n -> 1+n {2+2n -> 1+n}": "reduce_window"}, FIELDS=(
        listed("window_dimensions", "window_dimensions"),
        *(per_dim(name, name, 1) for name in ("window_strides", "base_dilations", "window_dilations")),
        sides(),
    )),
    *define(GenericOperation, "stablehlo", {"3 -> 1 {2 -> 1} {2 -> 1}": "select_and_scatter"}, FIELDS=(
        *(per_dim(name, name, 1) for name in ("window_dimensions", "window_strides")),
        sides(),
    )),
    *define(GenericOperation, "stablehlo", {"3+2n -> 1+n {2+2n -> 1+n}": "scatter"}, FIELDS=(
        numbering("scatter_dimension_numbers", ScatterDimensions, {name: name for name in _SCATTER_LISTS}, ["index_vector_dim"]),
        flag("indices_are_sorted", "indices_are_sorted"),
        flag("unique_indices", "unique_indices"),
    )),
)  # fmt: skip


def _import_window(importer: Importer, operation: Operation) -> None:
    if not operation.operands:
        importer.fault("MG0104", f"{operation.name} needs operands", operation)
        return
    attrs = filled(values_of(operation), importer.type(operation.operands[0]).rank)
    importer.convert(operation, operation.name.partition(".")[2], attrs, regions=closed_regions(importer, operation))


PART = as_nodes(
    *_OPERATIONS, importers={"stablehlo.reduce_window": _import_window, "stablehlo.select_and_scatter": _import_window}
)
