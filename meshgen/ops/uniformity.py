"""Analysis of a local program (stage `partition`): the mesh axes along which a value may differ between devices.

A value is uniform along an axis if it is computed from constants, replicated arguments, and results of
collectives that give every device of a group the same value. The padding after uneven tiles is ignored: it
has no meaning. Axes are split into the finest sub-axes that the program names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from meshgen.ir.attributes.sharding import axes_of
from meshgen.ir.axis_parts import AxisParts
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.op_names import BRANCHES, REPEATED
from meshgen.ir.predicates import is_optimization_barrier
from meshgen.ir.regions import all_nodes, captured
from meshgen.mesh import contains, overlaps
from meshgen.ops.classes import COLLECTIVES
from meshgen.spec import Sharding

Axes = frozenset[str]
_SHARED = ("all_reduce", "all_gather", "broadcast")  # each device of a group gets the same result
_RESHARDED = ("permute", "retile")
_UNKNOWN = ("kernel", "transfer_send")


def _named(module: Module) -> Iterator[str]:
    """Yield the axes and sub-axes that the shardings and attributes of a program name."""
    for sharding in (*module.in_shardings, *module.out_shardings):
        yield from sharding.used_axes
    for node in all_nodes(module.graph):
        yield from axes_of(node.attrs)
        for attribute in node.attrs.given.values():
            yield from attribute.used_axes if isinstance(attribute, Sharding) else ()


class Varying:
    """The result of the analysis: for each value of a module, the sub-axes along which it may differ between devices."""

    def __init__(self, module: Module) -> None:
        parts = AxisParts.of(module.mesh, list(_named(module)))
        self._all: Axes = frozenset(
            part for axis in module.mesh.axes if axis.size != 1 for part in parts.parts[axis.name]
        )
        self._table: dict[Value, Axes] = {}
        shardings = module.in_shardings if len(module.in_shardings) == len(module.graph.inputs) else None
        for index, value in enumerate(module.graph.inputs):
            axes = self._all if shardings is None else self._touched(shardings[index].used_axes)
            self._table[value] = frozenset() if module.arguments == "global" else axes
        self._graph(module.graph)

    def copy(self) -> Varying:
        """Return a copy, so that `add` on the copy does not change this analysis."""
        duplicate = object.__new__(Varying)
        duplicate._all, duplicate._table = self._all, self._table.copy()
        return duplicate

    def is_uniform(self, value: Value, axes: Sequence[str]) -> bool:
        """Whether the value is provably equal on all devices of every group over `axes`."""
        return not self.along(value, axes)

    def along(self, value: Value, axes: Sequence[str]) -> list[str]:
        """Return those of `axes` along which the value may differ between devices."""
        return [axis for axis in axes if any(overlaps(varying, axis) for varying in self._of(value))]

    def add(self, node: Node) -> None:
        """Extend the analysis by a node whose operands have been analyzed."""
        self._table.update(zip(node.results, self._results(node), strict=True))

    def _touched(self, axes: Iterable[str]) -> Axes:
        """Return the sub-axes that overlap any of `axes`."""
        return frozenset(part for axis in axes for part in self._all if overlaps(part, axis))

    def _within(self, axes: Iterable[str]) -> Axes:
        """Return the sub-axes that are part of an axis in `axes`."""
        return frozenset(part for axis in axes for part in self._all if contains(axis, part))

    def _of(self, value: Value) -> Axes:
        return self._table.get(value, self._all)

    def _graph(self, graph: Graph) -> None:
        for node in graph.nodes:
            self.add(node)

    def _results(self, node: Node) -> Sequence[Axes]:
        if node.op in REPEATED:
            return self._loop(node)
        if node.op in BRANCHES:
            return self._branches(node)
        if is_optimization_barrier(node):
            return [self._of(value) for value in node.operands]
        axes, given = axes_of(node.attrs), self._union(node.operands)
        if node.op in _SHARED:
            axes_of_result = given - self._within(axes)
        elif node.op in _RESHARDED:  # Devices with equal source tiles get equal result tiles.
            source, target = node.attrs.source, node.attrs.target
            axes_of_result = (given - self._within(source.used_axes)) | self._touched(target.used_axes)
        elif node.op == "process_index" or (node.op in (*COLLECTIVES, "mask_padding") and "axes" in node.attrs):
            axes_of_result = given | self._touched(axes)
        elif node.op == "transfer_recv":
            axes_of_result = self._touched(node.attrs.target.used_axes)
        elif node.op in COLLECTIVES or node.op in _UNKNOWN:
            axes_of_result = self._all
        else:
            axes_of_result = given | self._union(captured(node))
        return [axes_of_result] * len(node.results)

    def _union(self, values: Sequence[Value] | Iterator[Value]) -> Axes:
        return frozenset().union(*map(self._of, values))

    def _loop(self, node: Node) -> Sequence[Axes]:
        """Analyze a loop, by iterating to a fixed point.

        A carried value may differ along the axes of its initial value, its next value, and the loop condition.
        """
        *conditions, body = node.regions
        carried = [self._of(value) for value in node.operands]
        while True:
            for region in node.regions:
                self._table.update(zip(region.inputs, carried, strict=True))
                self._graph(region)
            tested = self._union(value for condition in conditions for value in condition.outputs)
            next_carried = [old | self._of(value) | tested for old, value in zip(carried, body.outputs, strict=False)]
            next_carried += carried[len(next_carried) :]
            if next_carried == carried:
                return carried[: len(node.results)]
            carried = next_carried

    def _branches(self, node: Node) -> Sequence[Axes]:
        chosen = self._of(node.operands[0])
        for region in node.regions:
            self._table.update(zip(region.inputs, map(self._of, node.operands[1:]), strict=True))
            self._graph(region)
        yielded = zip(*(region.outputs for region in node.regions), strict=True)
        return [chosen | self._union(iter(values)) for values in yielded]
