"""What the body of a scan computes, for all trips at once: each value gets a first dim, over the trips.

    y = reduce add (b * row of x), dims 0        ys = reduce add (broadcast b * x), dims 1

The inverse of what a loop over an array does; as `jax.vmap`, for the ops that are element-wise, index maps, reductions and products.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from meshgen.codegen.emit.lanes import dependent
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.matchers import values_behind
from meshgen.ops.classes import DOTS, POINTWISE, REDUCTIONS

Shift = Callable[[Any, int], Any]


def _dims_after(attrs: Any, trips: int) -> Any:
    """Dims of an operand, one further on."""
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
    """A batch dim more, the first."""
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
_SCALARS = {"pad", *REDUCTIONS}  # their second operand stays a scalar
BATCHED = frozenset(_SHIFTS)


def for_all_trips(
    graph: Graph, body: Graph, trips: int, known: Mapping[Value, Value], wanted: Sequence[Value]
) -> list[Value] | None:
    """Write the wanted values of a body into a graph, each with a first dim over the trips; None if that cannot be.

    `known` has those that exist so. Values that are the same at each trip get the dim where something else comes in.
    """
    changing, producer = dependent(body, [*body.inputs, *known]), body.index.producers
    needed = _needed(wanted, producer, known)
    nodes = [node for node in body.nodes if not needed.isdisjoint(node.results)]
    if any(value in needed and value not in known for value in body.inputs):
        return None
    if not all(_can_take(node, changing) for node in nodes if not changing.isdisjoint(node.results)):
        return None
    now = dict(known)  # with the dim, or without it

    def whole(value: Value) -> Value:
        found, kind = now.get(value, value), _type(value.type, trips)
        return found if value in changing else Builder(graph).spread(found, kind.shape, range(1, kind.rank))

    for node in nodes:
        if changing.isdisjoint(node.results):
            copies = [Value(each.type, each.name, loc=each.loc) for each in node.results]
            graph.nodes.append(replace(node, operands=[now.get(v, v) for v in node.operands], results=copies))
            now.update(zip(node.results, copies, strict=True))
            continue
        operands = [
            now.get(v, v) if number and node.op in _SCALARS else whole(v) for number, v in enumerate(node.operands)
        ]
        result = Value(_type(node.result.type, trips), node.result.name, loc=node.loc)
        graph.nodes.append(Node(node.op, operands, [result], _SHIFTS[node.op](node.attrs, trips), node.loc))
        now[node.result] = result
    return [whole(value) for value in wanted]


def _needed(wanted: Sequence[Value], producer: Mapping[Value, Node], known: Mapping[Value, Value]) -> set[Value]:
    """The values that have to be written, and those that are read for them."""
    return {*values_behind(wanted, producer.get, known.__contains__)} - known.keys()


def _can_take(node: Node, changing: AbstractSet[Value]) -> bool:
    return node.op in BATCHED and not (node.op in _SCALARS and node.operands[1] in changing)


def _type(kind: TensorType, trips: int) -> TensorType:
    return kind.with_shape((trips, *kind.shape))
