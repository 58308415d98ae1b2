"""Memory of a program in program order: the peak of live bytes on a device, and the values that are live at the
peak.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from meshgen.errors import bracketed, location_text
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.predicates import is_constant
from meshgen.ir.regions import program_regions, used_by
from meshgen.mesh import Mesh
from meshgen.ops.classes import MADE, REGROUPING, UNLAUNCHED

_UNCOPIED = REGROUPING | UNLAUNCHED  # Ops whose results share the storage of an operand.


class Live(NamedTuple):
    """A value that is live at the memory peak.

    `op` is the producing op, or "input".
    """

    name: str
    type: str
    op: str
    bytes: int
    source: str


class Peak(NamedTuple):
    """The memory peak of a device: the live bytes, the live values (largest first), and the op at which the peak
    occurs.
    """

    bytes: int
    live: tuple[Live, ...] = ()
    at: str = ""


def peak_of(graph: Graph, mesh: Mesh, *, is_fused: bool = False) -> Peak:
    """Return the memory peak of a device. Inputs, constants and outputs are live to the end, other values until their
    last use.

    Args:
        is_fused: whether kernels are formed already, so that each remaining constant has a buffer. Before that,
            splats and iotas take no memory, because the kernels that use them generate them in registers.
    """
    reader = _PeakReader(mesh, is_fused)
    inputs = [reader.live(value, "input") for value in graph.inputs]
    inner = reader.peak(graph)
    live = sorted([*inputs, *inner.live], key=lambda entry: -entry.bytes)
    return Peak(sum(entry.bytes for entry in live), tuple(live), inner.at)


def local_type(value: Value, mesh: Mesh) -> TensorType:
    """Return the type of the value's buffer on a device. A value without a sharding has a local type already."""
    if value.sharding is None:
        return value.type
    return value.type.with_shape(value.sharding.local_shape(value.type.sizes, mesh))


class _PeakReader:
    def __init__(self, mesh: Mesh, is_fused: bool) -> None:
        self._mesh = mesh
        self._is_fused = is_fused
        self._inner: dict[Node, Peak] = {}  # control node -> peak of its regions while it runs

    def live(self, value: Value, op: str) -> Live:
        tensor_type = local_type(value, self._mesh)
        return Live(value.name, str(tensor_type), op, tensor_type.nbytes, location_text(value.loc))

    def peak(self, graph: Graph) -> Peak:
        """Return the memory peak of the graph, not counting its inputs."""
        moments = enumerate((sum(alive.values()) + self._needs(node).bytes for node, alive in self._moments(graph)))
        best = max(moments, key=lambda moment: (moment[1], -moment[0]), default=None)
        if best is None:
            return Peak(0)
        node, alive = next(m for index, m in enumerate(self._moments(graph)) if index == best[0])
        producers = {value: producer.op for producer in graph.nodes for value in producer.results}
        inner = self._needs(node)
        live = [self.live(value, producers[value]) for value, count in alive.items() if count]
        at = inner.at or f"{node.op}" + bracketed(location_text(node.loc))
        return Peak(best[1], (*live, *inner.live), at)

    def _needs(self, node: Node) -> Peak:
        if node not in self._inner:
            peaks = [self.peak(region) for region in program_regions(node)]
            self._inner[node] = max(peaks, key=lambda peak: peak.bytes, default=Peak(0))
        return self._inner[node]

    def _moments(self, graph: Graph) -> Iterator[tuple[Node, Mapping[Value, int]]]:
        """Yield each node with the bytes of each value that is live while the node runs.

        All nodes come with the same dict, which is updated between them.
        """
        storage = {value: value for value in graph.inputs}
        last = _last_uses(graph, storage)
        constants = [node for node in graph.nodes if is_constant(node)]
        alive = {node.result: self._stored(node, node.result) for node in constants}
        kept = {storage[value] for value in graph.outputs if value in storage} | {*graph.inputs, *alive}
        for index, node in enumerate(graph.nodes):
            alive |= {v: self._stored(node, v) for v in node.results if storage[v] is v}
            yield node, alive
            for value in last.get(index, ()):
                if value not in kept:
                    alive.pop(value, None)

    def _stored(self, node: Node, value: Value) -> int:
        """Return the bytes of the value's buffer."""
        if not self._is_fused and node.op in MADE:  # kernels generate these constants in registers
            array = node.attrs.value if is_constant(node) else np.zeros(())
            if array.size <= 1 or not any(array.strides):
                return 0
        return local_type(value, self._mesh).nbytes


def _last_uses(graph: Graph, storage: dict[Value, Value]) -> dict[int, list[Value]]:
    """Return, for the index of each node, the buffers that no later node uses.

    Fills `storage` with the value whose buffer each value shares.
    """
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
