"""Reductions of matrices: row reductions, and sums of runs of rows. One kernel may compute both.

%s = reduce add %x, dims [1]          f32[8192,4096]      -> f32[8192]        row reduction
%p = reduce add %g, dims [1]          f32[256,32,4096]    -> f32[256,4096]    256 runs of 32 rows each
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from meshgen.ir.graph import Node, is_float
from meshgen.ops.classes import REDUCTIONS


@dataclass(frozen=True)
class Runs:
    """Runs of rows that a node sums: `count` runs of `rows` rows with `length` elements each."""

    count: int
    rows: int
    length: int


def row_length(node: Node) -> int:
    """Return the number of elements in a row of a row reduction, or 0 for other nodes."""
    if node.op not in REDUCTIONS:
        return 0
    sizes, dims = node.operands[0].type.sizes, tuple(node.attrs.dims)
    is_last = dims == tuple(range(len(sizes) - len(dims), len(sizes)))
    return math.prod(sizes[d] for d in dims) if dims and is_last else 0


def runs_of_rows(node: Node) -> Runs | None:
    """Return the runs of rows that a node sums, or None for other nodes."""
    if node.op not in REDUCTIONS or node.attrs.kind != "add" or not is_float(node.result.type.dtype):
        return None
    sizes, dims = node.operands[0].type.sizes, node.attrs.dims
    if len(dims) != 1 or not 0 < dims[0] < len(sizes) - 1:
        return None
    (dim,) = dims
    return Runs(math.prod(sizes[:dim]), sizes[dim], math.prod(sizes[dim + 1 :]))


def sums_beside_rows(nodes: Sequence[Node]) -> bool:
    """Whether `nodes` contain both a row reduction and a sum of runs of rows with the same row length."""
    lengths = {row_length(node) for node in nodes} - {0}
    return any(runs.length in lengths for node in nodes if (runs := runs_of_rows(node)))
