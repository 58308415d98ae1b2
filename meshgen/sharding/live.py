"""Memory of a program in program order: the most bytes alive at once on a device, and the values in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from meshgen.errors import bracketed, place_text
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.predicates import is_constant
from meshgen.ir.regions import program_regions, used_by
from meshgen.mesh import Mesh
from meshgen.ops.classes import MADE, REGROUPING, UNLAUNCHED

_UNCOPIED = REGROUPING | UNLAUNCHED  # no storage of their own


class Live(NamedTuple):
    """A value that is alive at the peak: its local type, the op that makes it (or `input`), and its location."""

    name: str
    type: str
    op: str
    bytes: int
    source: str


class Peak(NamedTuple):
    """The most bytes alive at once, all that is alive then (largest first), and the op at which that is."""

    bytes: int
    live: tuple[Live, ...] = ()
    at: str = ""


def peak_of(graph: Graph, mesh: Mesh, *, is_fused: bool = False) -> Peak:
    """The peak of a device: inputs, constants and outputs are alive to the end, others until their last use.

    Args:
        is_fused: constants that are left are buffers; before that splats and iotas are made where they are read.
    """
    reader = _PeakReader(mesh, is_fused)
    inputs = [reader.live(value, "input") for value in graph.inputs]
    inner = reader.peak(graph)
    live = sorted([*inputs, *inner.live], key=lambda entry: -entry.bytes)
    return Peak(sum(entry.bytes for entry in live), tuple(live), inner.at)


def local_type(value: Value, mesh: Mesh) -> TensorType:
    """Type of a device's buffer; types are local already where no sharding is known."""
    if value.sharding is None:
        return value.type
    return value.type.with_shape(value.sharding.local_shape(value.type.sizes, mesh))


class _PeakReader:
    def __init__(self, mesh: Mesh, is_fused: bool) -> None:
        self._mesh = mesh
        self._is_fused = is_fused
        self._inner: dict[Node, Peak] = {}  # peak of the node's regions while it runs

    def live(self, value: Value, op: str) -> Live:
        kind = local_type(value, self._mesh)
        return Live(value.name, str(kind), op, kind.nbytes, place_text(value.loc))

    def peak(self, graph: Graph) -> Peak:
        """The peak of values other than the inputs of a graph."""
        moments = enumerate((sum(alive.values()) + self._needs(node).bytes for node, alive in self._moments(graph)))
        best = max(moments, key=lambda moment: (moment[1], -moment[0]), default=None)
        if best is None:
            return Peak(0)
        node, alive = next(m for number, m in enumerate(self._moments(graph)) if number == best[0])
        makers = {value: maker.op for maker in graph.nodes for value in maker.results}
        inner = self._needs(node)
        live = [self.live(value, makers[value]) for value, count in alive.items() if count]
        at = inner.at or f"{node.op}" + bracketed(place_text(node.loc))
        return Peak(best[1], (*live, *inner.live), at)

    def _needs(self, node: Node) -> Peak:
        if node not in self._inner:
            peaks = [self.peak(region) for region in program_regions(node)]
            self._inner[node] = max(peaks, key=lambda peak: peak.bytes, default=Peak(0))
        return self._inner[node]

    def _moments(self, graph: Graph) -> Iterator[tuple[Node, Mapping[Value, int]]]:
        """Each node with the bytes of all that is alive while it runs (one dict, changed from node to node)."""
        storage = {value: value for value in graph.inputs}
        last = _last_uses(graph, storage)
        constants = [node for node in graph.nodes if is_constant(node)]
        alive = {node.result: self._stored(node, node.result) for node in constants}
        kept = {storage[value] for value in graph.outputs if value in storage} | {*graph.inputs, *alive}
        for number, node in enumerate(graph.nodes):
            alive |= {v: self._stored(node, v) for v in node.results if storage[v] is v}
            yield node, alive
            for value in last.get(number, ()):
                if value not in kept:
                    alive.pop(value, None)

    def _stored(self, node: Node, value: Value) -> int:
        """Bytes of a value's buffer."""
        if not self._is_fused and node.op in MADE:  # kernels make them in registers
            array = node.attrs.value if is_constant(node) else np.zeros(())
            if array.size <= 1 or not any(array.strides):
                return 0
        return local_type(value, self._mesh).nbytes


def _last_uses(graph: Graph, storage: dict[Value, Value]) -> dict[int, list[Value]]:
    """Per node the buffers that it is the last to use; fills `storage` with the buffer of each value."""
    last: dict[Value, int] = {}
    for number, node in enumerate(graph.nodes):
        sources = dict(zip(node.results, node.operands, strict=False)) if node.op in _UNCOPIED else {}
        for value in node.results:
            source = sources.get(value)
            storage[value] = storage.get(source, value) if source is not None else value
            last[storage[value]] = number
        for value in used_by(node):
            if value in storage:
                last[storage[value]] = number
    table: dict[int, list[Value]] = {}
    for value, number in last.items():
        table.setdefault(number, []).append(value)
    return table
