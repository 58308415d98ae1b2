"""Vectorize the body of a scan over its iterations: each value gets a leading dim over the iterations.

    one iteration      y = reduce add (b * row of x), dims 0
    all iterations     ys = reduce add (broadcast b * x), dims 1

Works like `jax.vmap`, for element-wise ops, index maps, reductions and dots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from meshgen.codegen.emit.recurrence_space import dependent
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.matchers import transitive_operands
from meshgen.ops.classes import DOTS, POINTWISE, REDUCTIONS

Shift = Callable[[Any, int], Any]


def _dims_after(attrs: Any, trips: int) -> Any:
    """Return `attrs` with all dims increased by one, to make room for the leading iteration dim."""
    del trips
    return replace(attrs, dims=tuple(dim + 1 for dim in attrs.dims))


def _batched_broadcast(attrs: Any, trips: int) -> Any:
    del trips
    return replace(attrs, dims=(0, *(dim + 1 for dim in attrs.dims)))


def _transpose(attrs: Any, trips: int) -> Any:
    del trips
    return replace(attrs, perm=(0, *(dim + 1 for dim in attrs.perm)))


def _batched_slice(attrs: Any, trips: int) -> Any:
    return replace(attrs, start=(0, *attrs.start), limit=(trips, *attrs.limit), stride=(1, *attrs.stride))


def _pad(attrs: Any, trips: int) -> Any:
    del trips
    return replace(attrs, low=(0, *attrs.low), high=(0, *attrs.high), interior=(0, *attrs.interior))


def _concatenate(attrs: Any, trips: int) -> Any:
    del trips
    return replace(attrs, dim=attrs.dim + 1)


def _dot(attrs: Any, trips: int) -> Any:
    """Return the attributes of a dot with the leading iteration dim as an additional batch dim."""
    del trips
    sides = {
        name: tuple(dim + 1 for dim in getattr(attrs, name))
        for name in ("lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract")
    }
    return replace(attrs, **sides | {name: (0, *sides[name]) for name in ("lhs_batch", "rhs_batch")})


def _same(attrs: Any, trips: int) -> Any:
    del trips
    return attrs


_SHIFTS: dict[str, Shift] = {
    "reshape": _same,
    "broadcast_in_dim": _batched_broadcast,
    "transpose": _transpose,
    "reverse": _dims_after,
    "slice": _batched_slice,
    "pad": _pad,
    "concatenate": _concatenate,
    **dict.fromkeys(REDUCTIONS, _dims_after),
    **dict.fromkeys(DOTS, _dot),
    **dict.fromkeys(POINTWISE - {"to_partial"}, _same),
}
# Ops whose second operand is a scalar (padding or initial value), which does not get an iteration dim.
_SCALARS = {"pad", *REDUCTIONS}
BATCHED = frozenset(_SHIFTS)


def vectorize_over_iterations(
    graph: Graph, body: Graph, trips: int, stacked_values: Mapping[Value, Value], outputs: Sequence[Value]
) -> list[Value] | None:
    """Append to `graph` the nodes that compute the values `outputs` of `body` for all iterations at once.

    `stacked_values` maps values of the body to their stacked versions, which have the leading iteration dim.
    A loop-invariant value is broadcast along that dim only where a user combines it with a value that changes.

    Returns:
        The stacked version of each value in `outputs`, or None if one of the required ops cannot be vectorized.
    """
    changing, producer = dependent(body, [*body.inputs, *stacked_values]), body.index.producers
    needed = _needed(outputs, producer, stacked_values)
    nodes = [node for node in body.nodes if not needed.isdisjoint(node.results)]
    if any(value in needed and value not in stacked_values for value in body.inputs):
        return None
    if not all(_can_batch(node, changing) for node in nodes if not changing.isdisjoint(node.results)):
        return None
    # Maps values that change between iterations to stacked versions, and loop-invariant values to versions without the
    # iteration dim.
    mapping = dict(stacked_values)

    def stacked(value: Value) -> Value:
        mapped, stacked_type = mapping.get(value, value), _stacked_type(value.type, trips)
        return (
            mapped
            if value in changing
            else Builder(graph).spread(mapped, stacked_type.shape, range(1, stacked_type.rank))
        )

    for node in nodes:
        if changing.isdisjoint(node.results):
            copies = [Value(old_result.type, old_result.name, loc=old_result.loc) for old_result in node.results]
            graph.nodes.append(replace(node, operands=[mapping.get(v, v) for v in node.operands], results=copies))
            mapping.update(zip(node.results, copies, strict=True))
            continue
        operands = [
            mapping.get(v, v) if index and node.op in _SCALARS else stacked(v) for index, v in enumerate(node.operands)
        ]
        result = Value(_stacked_type(node.result.type, trips), node.result.name, loc=node.loc)
        graph.nodes.append(Node(node.op, operands, [result], _SHIFTS[node.op](node.attrs, trips), node.loc))
        mapping[node.result] = result
    return [stacked(value) for value in outputs]


def _needed(
    outputs: Sequence[Value], producer: Mapping[Value, Node], stacked_values: Mapping[Value, Value]
) -> set[Value]:
    """Return `outputs` and their transitive operands, up to and excluding the values in `stacked_values`."""
    return {*transitive_operands(outputs, producer.get, stacked_values.__contains__)} - stacked_values.keys()


def _can_batch(node: Node, changing: AbstractSet[Value]) -> bool:
    return node.op in BATCHED and not (node.op in _SCALARS and node.operands[1] in changing)


def _stacked_type(kind: TensorType, trips: int) -> TensorType:
    return kind.with_shape((trips, *kind.shape))
