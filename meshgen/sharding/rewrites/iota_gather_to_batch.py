"""Turn an indexed dim of a gather or scatter into a batching dim, if its index in each row is the row number.

    before   %1 = concatenate %iota, %i     %y = gather %x, %1
    after    %y = gather %x, %i {operand_batching_dims = [0], start_indices_batching_dims = [0]}

`x.at[jnp.arange(n)[:, None], ids]` indexes row i of x by i. A batching dim is tied to the rows of the indices, so x can
be split by rows, and no device needs the indices of other rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.predicates import is_constant
from meshgen.ir.regions import needed_nodes
from meshgen.ops.constants import splat_of
from meshgen.ops.evaluate.common import integer_range
from meshgen.sharding.rewrites.graph_passes import graph_pass

_Producers = Mapping[Value, Node]


class _Names(NamedTuple):
    """Names of attributes that gather and scatter have in common under different names."""

    indexed: str  # operand dims that the components of an index vector refer to
    dropped: str  # operand dims of size 1 in the window, which are removed from the result
    batches: tuple[str, str]  # batching dims of the operand and of the indices


_NAMES = {
    "gather": _Names(
        "start_index_map", "collapsed_slice_dims", ("operand_batching_dims", "start_indices_batching_dims")
    ),
    "scatter": _Names(
        "scatter_dims_to_operand_dims", "inserted_window_dims", ("input_batching_dims", "scatter_indices_batching_dims")
    ),
}


@graph_pass("iota-gather-to-batch")
def iota_gather_to_batch(graph: Graph) -> Graph | None:
    """Return the rewritten graph, or None if no gather or scatter indexes a dim by the row number."""
    producers = graph.index.producers
    nodes = [rewritten for node in graph.nodes for rewritten in _by_batch(node, producers)]
    if len(nodes) == len(graph.nodes) and all(a is b for a, b in zip(nodes, graph.nodes, strict=True)):
        return None
    return replace(graph, nodes=needed_nodes(nodes, graph.outputs, lambda node: node.op != "concatenate"))


def _by_batch(node: Node, producers: _Producers) -> list[Node]:
    """Return the node itself, or an equivalent gather or scatter with a batching dim."""
    names = _NAMES.get(node.op)
    indices_operand = (len(node.operands) - 1) // 2 if node.op == "scatter" else 1
    join = producers.get(node.operands[indices_operand]) if names and node.option is None else None
    if names is None or join is None or join.op != "concatenate" or join.attrs.dim != node.attrs.index_vector_dim:
        return [node]
    row_components = _row_components(node, names, join, producers)
    remaining = [index for index in range(len(join.operands)) if index not in row_components]
    if not row_components or not remaining:
        return [node]
    parts, dim, new_nodes = [join.operands[index] for index in remaining], join.attrs.dim, list[Node]()
    indices = parts[0]
    if len(parts) > 1:
        shape = [len(parts) if d == dim else size for d, size in enumerate(indices.type.sizes)]
        indices = Value(indices.type.with_shape(shape), loc=join.loc)
        new_nodes.append(Node("concatenate", parts, [indices], {"dim": dim}, join.loc))
    operands = [indices if index == indices_operand else value for index, value in enumerate(node.operands)]
    return [*new_nodes, replace(node, operands=operands, attrs=_attrs(node, names, row_components))]


def _row_components(node: Node, names: _Names, join: Node, producers: _Producers) -> dict[int, int]:
    """Return, for each component of the index vectors that is a row index, the dim of the indices along which it
    counts.
    """
    attrs, dim, sizes = node.attrs, join.attrs.dim, node.operands[0].type.sizes
    used_dims, row_components = {dim, *attrs[names.batches[1]]}, dict[int, int]()
    if any(part.type.sizes[dim] != 1 for part in join.operands):
        return {}
    for number, part in enumerate(join.operands):
        target, row = getattr(attrs, names.indexed)[number], iota_dim(part, producers)
        is_row = row is not None and row not in used_dims and sizes[target] == part.type.sizes[row]
        if is_row and row is not None and target in getattr(attrs, names.dropped):
            row_components[number] = row
            used_dims.add(row)
    return row_components


def _attrs(node: Node, names: _Names, row_components: Mapping[int, int]) -> dict[str, Any]:
    attrs = node.attrs
    indexed = getattr(attrs, names.indexed)
    moved = {indexed[index]: row for index, row in row_components.items()}
    pairs = sorted([*zip(*(getattr(attrs, name) for name in names.batches), strict=True), *moved.items()])
    return attrs | {
        names.indexed: tuple(d for index, d in enumerate(indexed) if index not in row_components),
        names.dropped: tuple(d for d in getattr(attrs, names.dropped) if d not in moved),
        **{name: tuple(pair[side] for pair in pairs) for side, name in enumerate(names.batches)},
    }


def iota_dim(value: Value, producers: _Producers) -> int | None:
    """Return the dim along which every element of an integer value equals its coordinate, or None for other values."""
    node = producers.get(value)
    if node is None or value.type.dtype[0] not in "iu" or value.type.dtype == "i1":
        return None
    if node.op == "iota":
        dim = node.attrs.dim
    elif is_constant(node):
        dim = _counting(np.asarray(node.attrs.value))
    elif node.op in ("broadcast_in_dim", "reshape", "transpose", "convert"):
        inner = iota_dim(node.operands[0], producers)
        dim = None if inner is None else _carried(node, inner)
    elif node.op == "select" and _is_below_zero(node.operands[0], node.operands[2], producers):
        dim = iota_dim(node.operands[2], producers)  # a coordinate is never below zero
    else:
        return None
    is_exact = dim is not None and value.type.sizes[dim] - 1 <= integer_range(value.type.dtype)[1]
    return dim if is_exact else None


def _carried(node: Node, dim: int) -> int | None:
    """Return the dim of the result that corresponds to `dim` of the operand, for an op that moves elements.

    Returns None if the size of the dim changes.
    """
    operand, sizes = node.operands[0].type.sizes, node.result.type.sizes
    if node.op == "broadcast_in_dim":
        result_dim = node.attrs.dims[dim]
    elif node.op == "transpose":
        result_dim = node.attrs.perm.index(dim)
    elif node.op == "reshape":
        kept = [[d for d, size in enumerate(shape) if size != 1] for shape in (operand, sizes)]
        is_same = [operand[d] for d in kept[0]] == [sizes[d] for d in kept[1]]
        result_dim = kept[1][kept[0].index(dim)] if is_same and dim in kept[0] else None
    else:
        result_dim = dim
    return result_dim if result_dim is not None and sizes[result_dim] == operand[dim] else None


def _counting(array: np.ndarray) -> int | None:
    """Return the dim along which the elements of an array count from 0, or None for other arrays."""
    if array.dtype.kind not in "iu" or array.size < 2:
        return None
    for dim, size in enumerate(array.shape):
        row = np.arange(size).reshape([-1 if d == dim else 1 for d in range(array.ndim)])
        if size > 1 and (array == row).all():
            return dim
    return None


def _is_below_zero(flag: Value, value: Value, producers: _Producers) -> bool:
    """Whether `flag` is the comparison `value < 0`."""
    node = producers.get(flag)
    if node is None or node.op != "compare" or node.attrs.direction != "LT":
        return False
    return node.operands[0] is value and bool(splat_of(node.operands[1], producers.get) == 0)
