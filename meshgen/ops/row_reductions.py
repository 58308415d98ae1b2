"""Classification of reductions: row reductions, and sums over runs of consecutive rows. One kernel may compute both.

%s = reduce add %x, dims [1]    f32[8192,4096] -> f32[8192]            row reduction
%p = reduce add %g, dims [1]    f32[256,32,4096] -> f32[256,4096]      256 sums over runs of 32 rows each
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from meshgen.ir.graph import Node, is_float
from meshgen.ops.classes import REDUCTIONS


@dataclass(frozen=True)
class Runs:
    """The reduction of [count, rows, length] to [count, length]: each of `count` runs of `rows` rows is summed."""

    count: int
    rows: int
    length: int


def row_length(node: Node) -> int:
    """Return the number of elements that a row reduction sums for one result element. Returns 0 for other nodes.

    A row reduction reduces the last dims.
    """
    if node.op not in REDUCTIONS:
        return 0
    sizes, dims = node.operands[0].type.sizes, tuple(node.attrs.dims)
    is_last = dims == tuple(range(len(sizes) - len(dims), len(sizes)))
    return math.prod(sizes[d] for d in dims) if dims and is_last else 0


def summed_runs(node: Node) -> Runs | None:
    """Return the shape of a sum over runs of rows, or None for other nodes. The reduced dim is neither the first nor
    the last.
    """
    if node.op not in REDUCTIONS or node.attrs.kind != "add" or not is_float(node.result.type.dtype):
        return None
    sizes, dims = node.operands[0].type.sizes, node.attrs.dims
    if len(dims) != 1 or not 0 < dims[0] < len(sizes) - 1:
        return None
    (dim,) = dims
    return Runs(math.prod(sizes[:dim]), sizes[dim], math.prod(sizes[dim + 1 :]))


def has_row_and_run_sums(nodes: Sequence[Node]) -> bool:
    """Whether `nodes` contain both a row reduction and a sum over runs of rows, with equal row lengths."""
    lengths = {row_length(node) for node in nodes} - {0}
    return any(runs.length in lengths for node in nodes if (runs := summed_runs(node)))
