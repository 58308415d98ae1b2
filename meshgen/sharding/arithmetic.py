"""Arithmetic of a program per device and step, including the operations that repeat another device's work."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from meshgen.errors import location_text
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.node_keys import form_of
from meshgen.ir.op_names import REPEATED, WITH_PROGRAMS
from meshgen.ir.predicates import is_kernel
from meshgen.mesh import Mesh, overlaps
from meshgen.ops.flops import loop_runs, node_flops, trips
from meshgen.sharding.live import local_type


@dataclass(frozen=True)
class Work:
    """Arithmetic operations (FLOPs) of a device for one op in a step, and the redundant part of them.

    All devices together do `flops * devices` operations. Operations beyond those that a single device would need for
    the op are redundant: work on replicated values and on padding. Devices along the mesh axes `repeats` do the same
    work.
    """

    node: Node
    flops: float
    redundant: float
    repeats: tuple[str, ...] = ()

    @property
    def op(self) -> str:
        return self.node.op

    @property
    def name(self) -> str:
        """Return the name of the first result, or "" if it has none."""
        return self.node.results[0].name if self.node.results else ""

    @property
    def source(self) -> str:
        """Return the source location of the op as text."""
        return location_text(self.node.loc)

    def record(self) -> dict[str, Any]:
        """Return the fields for `--json`."""
        names = ("op", "name", "flops", "redundant", "repeats", "source")
        return {name: getattr(self, name) for name in names}


def work_of(graph: Graph, mesh: Mesh, kernels: Mapping[str, Graph]) -> list[Work]:
    """Return the arithmetic of each op that computes, in program order.

    Ops in loops count once per iteration. Of several branches, only the one with most operations is counted.
    """
    return list(_WorkReader(mesh, kernels).graph(graph, 1.0))


class _Count(NamedTuple):
    """Arithmetic operations (FLOPs) of a device in one execution of an op.

    Attributes:
        whole: operations if a single device executed the op on the global values, or None if these have no shardings.
        repeats: the mesh axes along which all devices do the same work.
    """

    flops: float
    whole: float | None = None
    repeats: tuple[str, ...] = ()


class _WorkReader:
    """Computes the work of graphs whose values have local types, or global types with shardings. The bodies of kernels
    are looked up by name.
    """

    def __init__(self, mesh: Mesh, kernels: Mapping[str, Graph]) -> None:
        self._mesh = mesh
        self._kernels = kernels
        self._counts: dict[Hashable, _Count] = {}  # cache for equal nodes, such as those of equal layers

    def graph(self, graph: Graph, times: float) -> Iterator[Work]:
        for node in graph.nodes:
            if is_kernel(node):
                yield from self.graph(self._kernels[node.attrs.kernel], times)
            elif node.op in REPEATED:
                for region, count in loop_runs(node, trips(node, graph)):
                    yield from self.graph(region, times * count)
            elif node.op in WITH_PROGRAMS:
                branches = [list(self.graph(region, times)) for region in node.regions]
                yield from max(branches, key=lambda branch: sum(work.flops for work in branch))
            elif (count := self._count_of(node)).flops:
                flops = count.flops * times
                redundant = 0.0 if count.whole is None else max(0.0, flops - count.whole * times / self._mesh.size)
                yield Work(node, flops, redundant, count.repeats)

    def _count_of(self, node: Node) -> _Count:
        if (form := form_of(node)) is None:
            return self._count(node)
        key = form, *[value.sharding for value in (*node.operands, *node.results)]
        if key not in self._counts:
            self._counts[key] = self._count(node)
        return self._counts[key]

    def _count(self, node: Node) -> _Count:
        flops = node_flops(node, self._local)
        shardings = [value.sharding for value in (*node.operands, *node.results) if value.sharding is not None]
        if not flops or not shardings:
            return _Count(flops)
        used = {axis for sharding in shardings for axis in sharding.used_axes}
        idle = (axis for axis in self._mesh.names if self._mesh.axis_size(axis) > 1)
        repeats = tuple(axis for axis in idle if not any(overlaps(axis, other) for other in used))
        return _Count(flops, node_flops(node), repeats)

    def _local(self, value: Value) -> TensorType:
        return local_type(value, self._mesh)
