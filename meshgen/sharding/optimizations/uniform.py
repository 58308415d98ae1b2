"""Along which mesh axes a value of a local program (stage partition) may differ from device to device.

Nothing is assumed to be equal: equal on all devices of a group is only what is made of constants, of arguments that are
given whole, and of what collectives deliver to all of them alike. Padding behind uneven tiles may differ all the same;
it has no meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.infer.sharding import COLLECTIVE_OPS
from meshgen.ir.regions import captured
from meshgen.mesh import overlaps

Axes = frozenset[str]
_SHARED = ("all_reduce", "all_gather", "broadcast")  # all devices of a group get the same
_OWN = ("reduce_scatter", "all_slice", "all_to_all", "to_partial", "gather_to", "reduce_to", "scatter_from", "mask_padding", "process_index")  # fmt: skip
_UNKNOWN = ("kernel", "transfer_recv", "transfer_send")


class Varying:
    """The axes along which each value of a module may vary; `add` tells of nodes that are new."""

    def __init__(self, module: Module) -> None:
        self._all: Axes = frozenset(axis.name for axis in module.mesh.axes if axis.size != 1)
        self._table: dict[Value, Axes] = {}
        given = module.in_shardings if len(module.in_shardings) == len(module.graph.inputs) else None
        for number, value in enumerate(module.graph.inputs):
            axes = self._all if given is None else frozenset(given[number].used_axes)
            self._table[value] = frozenset() if module.arguments == "global" else axes
        self._graph(module.graph)

    def is_uniform(self, value: Value, axes: Sequence[str]) -> bool:
        """Whether the value is provably the same on all devices of every group over `axes`."""
        return not any(overlaps(one, axis) for one in self._of(value) for axis in axes)

    def add(self, node: Node) -> None:
        """Find what the results of a node vary along; its operands are known."""
        self._table.update(zip(node.results, self._results(node), strict=True))

    def _of(self, value: Value) -> Axes:
        return self._table.get(value, self._all)

    def _graph(self, graph: Graph) -> None:
        for node in graph.nodes:
            self.add(node)

    def _results(self, node: Node) -> Sequence[Axes]:
        if node.op == "while":
            return self._loop(node)
        if node.op in ("case", "if"):
            return self._branches(node)
        axes = frozenset(node.attrs.get("axes", ()))
        given = self._union(node.operands)
        if node.op in _SHARED:
            found = given - axes
        elif node.op in _OWN:
            found = given | axes
        elif node.op in COLLECTIVE_OPS or node.op in _UNKNOWN:
            found = self._all
        else:
            found = given | self._union(captured(node))
        return [found] * len(node.results)

    def _union(self, values: Sequence[Value] | Iterator[Value]) -> Axes:
        return frozenset().union(*map(self._of, values))

    def _loop(self, node: Node) -> Sequence[Axes]:
        """What is carried varies as it does at the start or after any trip, and as the number of trips does."""
        condition, body = node.regions
        carried = [self._of(value) for value in node.operands]
        while True:
            for region in node.regions:
                self._table.update(zip(region.inputs, carried, strict=True))
                self._graph(region)
            tested = self._union(condition.outputs)
            after = [old | self._of(value) | tested for old, value in zip(carried, body.outputs, strict=True)]
            if after == carried:
                return carried
            carried = after

    def _branches(self, node: Node) -> Sequence[Axes]:
        chosen = self._of(node.operands[0])
        for region in node.regions:
            self._table.update(zip(region.inputs, map(self._of, node.operands[1:]), strict=True))
            self._graph(region)
        ends = zip(*(region.outputs for region in node.regions), strict=True)
        return [chosen | self._union(iter(values)) for values in ends]
