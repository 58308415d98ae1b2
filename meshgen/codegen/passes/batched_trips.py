"""What the body of a scan computes, for all trips at once: each value gets a first dim, over the trips.

    y = reduce add (b * row of x), dims 0        ys = reduce add (broadcast b * x), dims 1

The inverse of what a loop over an array does; as `jax.vmap`, for the ops that are element-wise, index maps, reductions and products.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ops.classes import DOTS, POINTWISE, REDUCTIONS

Shift = Callable[[Any, int, Node], Any]


def _dims_after(attrs: Any, trips: int, node: Node) -> Any:
    """Dims of an operand, one further on."""
    del trips, node
    return replace(attrs, dims=tuple(dim + 1 for dim in attrs.dims))


def _broadcast(attrs: Any, trips: int, node: Node) -> Any:
    del trips, node
    return replace(attrs, dims=(0, *(dim + 1 for dim in attrs.dims)))


def _transpose(attrs: Any, trips: int, node: Node) -> Any:
    del trips, node
    return replace(attrs, perm=(0, *(dim + 1 for dim in attrs.perm)))


def _slice(attrs: Any, trips: int, node: Node) -> Any:
    del node
    return replace(attrs, start=(0, *attrs.start), limit=(trips, *attrs.limit), stride=(1, *attrs.stride))


def _pad(attrs: Any, trips: int, node: Node) -> Any:
    del trips, node
    return replace(attrs, low=(0, *attrs.low), high=(0, *attrs.high), interior=(0, *attrs.interior))


def _concatenate(attrs: Any, trips: int, node: Node) -> Any:
    del trips, node
    return replace(attrs, dim=attrs.dim + 1)


def _dot(attrs: Any, trips: int, node: Node) -> Any:
    """A batch dim more, the first."""
    del trips, node
    sides = {
        name: tuple(dim + 1 for dim in getattr(attrs, name))
        for name in ("lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract")
    }
    return replace(attrs, **sides | {name: (0, *sides[name]) for name in ("lhs_batch", "rhs_batch")})


def _same(attrs: Any, trips: int, node: Node) -> Any:
    del trips, node
    return attrs


_SHIFTS: dict[str, Shift] = {
    "reshape": _same,
    "broadcast_in_dim": _broadcast,
    "transpose": _transpose,
    "reverse": _dims_after,
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    **dict.fromkeys(REDUCTIONS, _dims_after),
    **dict.fromkeys(DOTS, _dot),
    **dict.fromkeys(POINTWISE - {"to_partial"}, _same),
}
_SCALARS = {"pad", *REDUCTIONS}  # their second operand stays a scalar
BATCHED = frozenset(_SHIFTS)


class Trips:
    """Writes values of a body for all trips after one another; `known` has those that exist, with the first dim.

    Values from outside of the body, which are the same at each trip, are used as they are where nothing else comes in.
    """

    def __init__(self, graph: Graph, body: Graph, trips: int, known: Mapping[Value, Value]) -> None:
        self._graph, self._trips = graph, trips
        self._producer, self._inputs = body.producers(), {*body.inputs}
        self._known, self._fixed = dict(known), dict[Value, Value]()

    def is_possible(self, value: Value) -> bool:
        """Whether a value can be written so, of what is known."""
        stack, seen = [value], {value}
        while stack:
            current = stack.pop()
            node = None if current in self._known else self._producer.get(current)
            if current in self._known or (node is None and current not in self._inputs):
                continue
            if node is None or (node.operands and not self._can_take(node)):
                return False
            stack += [each for each in node.operands if each not in seen]
            seen.update(node.operands)
        return True

    def _can_take(self, node: Node) -> bool:
        if node.op not in BATCHED:
            return False
        return node.op not in _SCALARS or not self._changes(node.operands[1])

    def _changes(self, value: Value) -> bool:
        """Whether a value differs between trips."""
        if value in self._known or value in self._inputs:
            return True
        node = self._producer.get(value)
        return node is not None and any(map(self._changes, node.operands))

    def of(self, value: Value) -> Value:
        """The value with a first dim over the trips."""
        found = self._written(value)
        return found if self._changes(value) else self._spread(found, value.type)

    def _written(self, value: Value) -> Value:
        """The same, without that dim where all trips have the same."""
        if value in self._known:
            return self._known[value]
        if value in self._fixed or (node := self._producer.get(value)) is None:
            return self._fixed.get(value, value)
        if self._changes(value):
            return self._batched(node)
        operands = [self._written(each) for each in node.operands]
        results = [Value(each.type, each.name, loc=each.loc) for each in node.results]
        self._graph.nodes.append(replace(node, operands=operands, results=results))
        self._fixed.update(zip(node.results, results, strict=True))
        return self._fixed[value]

    def _batched(self, node: Node) -> Value:
        operands = [
            self._written(each) if number and node.op in _SCALARS else self.of(each)
            for number, each in enumerate(node.operands)
        ]
        attrs = _SHIFTS[node.op](node.attrs, self._trips, node)
        result = Value(self._type(node.result.type), node.result.name, loc=node.loc)
        self._graph.nodes.append(Node(node.op, operands, [result], attrs, node.loc))
        self._known[node.result] = result
        return result

    def _type(self, kind: TensorType) -> TensorType:
        return kind.with_shape((self._trips, *kind.shape))

    def _spread(self, value: Value, kind: TensorType) -> Value:
        return Builder(self._graph, value.loc).spread(value, self._type(kind).shape, range(1, kind.rank + 1))
