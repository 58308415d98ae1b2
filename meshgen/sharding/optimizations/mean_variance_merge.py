"""Mean and squared deviations are exchanged together instead of one after the other.

Works on a local program (stage partition). Devices exchange (mean, squared deviations from it) of their rows instead
of first the sum and then the deviations from the mean of all: for any m, and each device's own mean u over n rows,
sum (x - m)^2 = sum (x - u)^2 + n (u - m)^2. Nothing cancels, unlike in sum of squares minus square of sum. A reduction
cannot combine such pairs, so they are gathered: that moves no more bytes in groups of two, and in larger ones more,
where the two reductions stay.

Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from meshgen.ccl.cost import collective_seconds, ring_bytes
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.mesh import Mesh
from meshgen.ops.constants import splat_of
from meshgen.ops.live import without_dead
from meshgen.sharding.optimizations.rewrite import merged_notes, price_of, with_graph

_EXACT = ("f32", "f64")  # statistics in narrower types lose more by another order


@module_pass("mean-variance-merge", "partition", applies="unless dearer", requires_ops=("all_reduce",))
def mean_variance_merge(module: Module, context: Compilation) -> Module:
    """Before: `%m = all_reduce (s sum x)   %v = all_reduce (t sum (x - %m)^2)`, on the same axes.

    After: `%g = all_gather (s sum x, t sum (x - u)^2)` with each device's own mean u, and both values from it.
    """
    return with_graph(module, _merged_pairs(module.graph, module.mesh))


class Statistic(NamedTuple):
    """`reduction` of `operand` over `dims`, times `scale`, in a shape that only has other dims of size 1."""

    operand: Value
    dims: tuple[int, ...]
    scale: float


class Pair(NamedTuple):
    """Two reductions: `scale` sums of x, then of squared deviations of x from what the first made."""

    first: Node
    second: Node
    mean: Statistic
    squares: Statistic

    @property
    def x(self) -> Value:
        return self.mean.operand

    @property
    def rows(self) -> int:
        """Elements that a device sums up for each statistic."""
        return math.prod(self.x.type.sizes[d] for d in self.mean.dims)


def _merged_pairs(graph: Graph, mesh: Mesh) -> Graph:
    nodes = [
        replace(n, regions=tuple(_merged_pairs(region, mesh) for region in n.regions)) if n.regions else n
        for n in graph.nodes
    ]
    graph = replace(graph, nodes=nodes)
    producers = graph.index.producers
    pairs: dict[Node, Pair] = {}
    for node in nodes:
        pair = find_pair(node, producers)
        if pair and pair.first not in pairs and _pays(pair, mesh):
            pairs[pair.first] = pair
    if not pairs:
        return graph
    gone = {pair.second for pair in pairs.values()}
    kept: list[Node] = []
    for node in nodes:
        kept += _ExchangeBuilder(mesh, pairs[node]).graph.nodes if node in pairs else [] if node in gone else [node]
    return without_dead(replace(graph, nodes=kept))


def _pays(pair: Pair, mesh: Mesh) -> bool:
    """Whether one gather takes less time than two reductions and moves no more."""
    row = _row(pair)
    attrs: dict[str, Any] = {**pair.first.attrs, "dim": 0}
    full = row.with_shape((mesh.group_size(tuple(attrs["axes"])), row.sizes[1]))
    moved = ring_bytes("all_gather", attrs, row, full, mesh)
    old = [price_of(node, mesh) for node in (pair.first, pair.second)]
    seconds = collective_seconds("all_gather", attrs, row, full, mesh)
    return 0 < moved <= sum(p.ring_bytes for p in old) and seconds < sum(p.seconds for p in old)


def _row(pair: Pair) -> TensorType:
    """What a device gives to the others: its two statistics, flattened."""
    return pair.first.result.type.with_shape((1, 2 * pair.first.result.type.size))


def find_pair(second: Node, producers: Mapping[Value, Node]) -> Pair | None:
    """The pair that an all_reduce of squared deviations belongs to, if all is proven that the merge needs."""
    if not _is_sum(second) or (squares := _statistic(second.operands[0], producers)) is None:
        return None
    square = producers.get(squares.operand)
    if square is None or square.op != "multiply" or square.operands[0] is not square.operands[1]:
        return None
    centered = producers.get(square.operands[0])
    if centered is None or centered.op != "subtract":
        return None
    x, spread = centered.operands
    first = _origin(spread, squares.dims, producers)
    if first is None or not _is_sum(first) or set(first.attrs.axes) != set(second.attrs.axes):
        return None
    mean = _statistic(first.operands[0], producers)
    is_proven = mean and mean.operand is x and mean.dims == squares.dims and mean.scale and x.type.size
    return Pair(first, second, mean, squares) if mean and is_proven else None


def _is_sum(node: Node) -> bool:
    return node.op == "all_reduce" and node.attrs.kind == "sum" and node.result.type.dtype in _EXACT


def _shown(sizes: Sequence[int]) -> list[int]:
    """Sizes without those of 1: equal ones mean the same elements in the same order."""
    return [size for size in sizes if size != 1]


def _statistic(value: Value, producers: Mapping[Value, Node]) -> Statistic | None:
    """Follow a value back over scales and dims of size 1 to the sum that it is made of."""
    scale = 1.0
    while (node := producers.get(value)) is not None:
        if node.op == "reduce":
            is_plain = node.attrs.kind == "add" and _scalar(node.operands[1], producers) == 0
            return Statistic(node.operands[0], tuple(sorted(node.attrs.dims)), scale) if is_plain else None
        if node.op in ("multiply", "divide"):
            left, right = (_scalar(v, producers) for v in node.operands)
            value = node.operands[0]
            if right is None and left is not None and node.op == "multiply":
                right, value = left, node.operands[1]
            if not right or not math.isfinite(right):
                return None
            scale = scale * right if node.op == "multiply" else scale / right
        elif _keeps_order(node):
            value = node.operands[0]
        else:
            return None
    return None


def _keeps_order(node: Node) -> bool:
    """Whether an op only adds or removes dims of size 1."""
    if node.op not in ("reshape", "broadcast_in_dim"):
        return False
    dims = node.attrs.get("dims", ())
    return _shown(node.operands[0].type.sizes) == _shown(node.result.type.sizes) and tuple(sorted(dims)) == dims


def _scalar(value: Value, producers: Mapping[Value, Node]) -> float | None:
    """Return the number that a value is everywhere."""
    number = splat_of(value, producers.get)
    return None if number is None else float(number)


def _origin(spread: Value, dims: tuple[int, ...], producers: Mapping[Value, Node]) -> Node | None:
    """What was spread along `dims` to a larger shape, the other dims in their order; None if not so."""
    labels: list[int | None] = [d if d not in dims and s != 1 else None for d, s in enumerate(spread.type.sizes)]
    value = spread
    while (node := producers.get(value)) is not None and node.op in ("broadcast_in_dim", "reshape"):
        operand = node.operands[0].type.sizes
        if node.op == "reshape":
            if _shown(operand) != _shown(node.result.type.sizes):
                return None
            shown = iter([label for label, s in zip(labels, node.result.type.sizes, strict=True) if s != 1])
            labels = [next(shown) if s != 1 else None for s in operand]
        else:
            labels = [labels[d] if s != 1 else None for d, s in zip(node.attrs.dims, operand, strict=True)]
        value = node.operands[0]
    wanted = [d for d, s in enumerate(spread.type.sizes) if d not in dims and s != 1]
    named = [label for label, s in zip(labels, value.type.sizes, strict=True) if s != 1]
    return node if named == wanted else None


class _ExchangeBuilder(Builder):
    """Writes the exchange of a pair; its last nodes make the values that the two reductions made."""

    def __init__(self, mesh: Mesh, pair: Pair) -> None:
        super().__init__(Graph(""), pair.second.loc)
        self._pair = pair
        count = pair.first.result.type.size
        size = mesh.group_size(tuple(pair.first.attrs.axes))
        scale = 1 / (pair.mean.scale * pair.rows)  # from what the first reduction is given to a mean
        given = self.reshape(pair.first.operands[0], (1, count))
        own = self._scaled(given, scale)
        squares = self._scaled(self._own_squares(own), pair.squares.scale)
        row = self.concatenate([given, squares], 1)
        note = "each device's own mean and squared deviations, in one exchange"
        notes = merged_notes([pair.first, pair.second], note)
        notes = notes if notes.why else replace(notes, why=note)
        attrs: dict[str, Any] = {"axes": tuple(pair.first.attrs.axes), "dim": 0}
        (both,) = self.append("all_gather", [row], [row.type.with_shape((size, 2 * count))], attrs, notes=notes)
        sums, deviations = (self.rows(both, 1, i * count, (i + 1) * count) for i in (0, 1))
        total = self._total(sums)
        self._end(total, pair.first)
        spread = self.spread(total, (size, count), (1,))
        apart = self.elementwise("subtract", self._scaled(sums, scale), spread)
        between = self.elementwise("multiply", apart, apart)
        weighted = self._scaled(between, pair.rows * pair.squares.scale)
        self._end(self._total(self.elementwise("add", deviations, weighted)), pair.second)

    def _scaled(self, value: Value, scale: float) -> Value:
        return value if scale == 1 else self.elementwise("multiply", value, self.splat(scale, value.type))

    def _own_squares(self, own: Value) -> Value:
        """Squared deviations of the device's rows from their own mean, as one row."""
        x, dims = self._pair.x, self._pair.mean.dims
        kept = tuple(d for d in range(x.type.rank) if d not in dims)
        means = self.reshape(own, [x.type.sizes[d] for d in kept])
        spread = self.spread(means, x.type.sizes, kept)
        apart = self.elementwise("subtract", x, spread)
        squares = self.elementwise("multiply", apart, apart)
        return self.reshape(self._sum(squares, dims, means.type), own.type.sizes)

    def _total(self, value: Value) -> Value:
        return self._sum(value, (0,), value.type.with_shape(value.type.sizes[1:]))

    def _sum(self, value: Value, dims: tuple[int, ...], kind: TensorType) -> Value:
        zero = self.splat(0, kind.with_shape(()))
        return self.emit("reduce", [value, zero], kind, dims=dims, kind="add")

    def _end(self, value: Value, node: Node) -> None:
        self.reshape(value, node.result.type.sizes)
        self.make(node.results)
