"""Analyze the cost of a program per device: collectives and their bytes, peak memory, arithmetic and time on the links.

The module must be at stage `materialize` or later (global types with shardings), or have local types.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from meshgen.ccl.cost import link_axes, ring_bytes, seconds_of
from meshgen.ccl.volume import Formula, formula_of, total
from meshgen.errors import Diagnostic, UsageError
from meshgen.ir.attributes.sharding import reduction_of
from meshgen.ir.graph import Graph, Module, Node
from meshgen.ir.op_names import REPEATED, WITH_PROGRAMS
from meshgen.ir.reasons import reason_of
from meshgen.ir.symbols import Dim, names_in
from meshgen.mesh import Mesh
from meshgen.ops.classes import COMMUNICATING
from meshgen.ops.flops import loop_runs, symbolic_trip_count
from meshgen.sharding.arithmetic import Work, work_of
from meshgen.sharding.live import Peak, local_type, peak_of
from meshgen.sharding.optimizations.walk import moved_ends
from meshgen.sharding.unknown_axes import nominal_mesh


class CollectiveRecord(NamedTuple):
    """The cost of one collective: bytes and seconds per device and per execution. A step executes the collective
    `times` times.
    """

    kind: str
    axes: tuple[str, ...]
    group_size: int
    dtype: str
    local_bytes: int
    ring_bytes: int
    reduction: str
    times: int
    why: str
    line: int | None
    seconds: float
    formula: Formula  # `ring_bytes` as a formula in the mesh axis sizes


@dataclass(frozen=True)
class Volume:
    """The communication of a program: its collectives in program order, with bytes per device and step.

    The bytes are available as numbers and as formulas in the mesh axis sizes.
    """

    mesh: Mesh
    collectives: tuple[CollectiveRecord, ...]
    sizes: Mapping[str, int]  # symbolic input sizes, by name, with their current values

    @property
    def counts(self) -> dict[str, int]:
        """Return, for each kind of collective, the number of executions per step."""
        table: Counter[str] = Counter()
        for record in self.collectives:
            table[record.kind] += record.times
        return dict(sorted(table.items()))

    @property
    def ring_bytes(self) -> int:
        """Return the bytes that a device moves per step. A collective in a loop counts once per iteration."""
        return sum(record.ring_bytes * record.times for record in self.collectives)

    @property
    def communication_seconds(self) -> float:
        """Return the seconds per step that all collectives take if they run one after the other on idle links."""
        return sum(record.seconds * record.times for record in self.collectives)

    @property
    def formula(self) -> Formula:
        """Return `ring_bytes` as a formula in the mesh axis sizes."""
        return self._total(self.collectives)

    def formulas_by_kind(self) -> dict[str, Formula]:
        """Return `ring_bytes` as a formula in the mesh axis sizes, for each kind of collective."""
        kinds = sorted({record.kind for record in self.collectives})
        return {k: self._total(r for r in self.collectives if r.kind == k) for k in kinds}

    def _total(self, records: Iterable[CollectiveRecord]) -> Formula:
        formula = total((record.times, record.formula) for record in records)
        return replace(formula, now={**formula.now, **self.sizes})

    def formula_record(self) -> dict[str, Any]:
        """Return the formulas as text, and their values on this mesh."""
        return {
            "total": str(self.formula),
            "by_kind": {kind: str(formula) for kind, formula in self.formulas_by_kind().items()},
            "collectives": [
                {"kind": r.kind, "axes": list(r.axes), "times": r.times, "formula": str(r.formula)}
                for r in self.collectives
            ],
            "devices": {name: size for name, size in self.formula.now.items() if name.startswith("n_")},
            "sizes": dict(self.sizes),
            "ring_bytes": self.ring_bytes,
        }


@dataclass(frozen=True)
class Analysis(Volume):
    """Communication, peak memory and arithmetic of a device per step."""

    peak: Peak
    work: tuple[Work, ...]

    @property
    def peak_memory_bytes(self) -> int:
        """Return the largest number of bytes that are live at the same time, if ops run in program order."""
        return self.peak.bytes

    @property
    def flops_per_device(self) -> float:
        """Return the number of arithmetic operations of a device per step."""
        return sum(work.flops for work in self.work)

    @property
    def redundant_flops_per_device(self) -> float:
        """Return how many arithmetic operations per step repeat another device's work or process padding."""
        return sum(work.redundant for work in self.work)


def analyze(module: Module) -> Analysis:
    """Analyze a module. Mesh axes of unknown size that the module uses get their nominal size.

    Raises UsageError (MG0001) at a stage before `materialize`, where values have no shardings yet.
    """
    if module.stage in ("import", "propagate"):
        hint = "analyze it after materialize"
        raise UsageError(
            Diagnostic("MG0001", f"a program at stage '{module.stage}' has no collectives yet", None, (), hint)
        )
    volume = volume_of(module)
    mesh = volume.mesh
    work = tuple(work_of(module.graph, mesh, module.kernels))
    peak = peak_of(module.graph, mesh, is_fused=module.stage in ("fuse", "schedule"))
    return Analysis(mesh, volume.collectives, volume.sizes, peak, work)


def work_in(stages: Mapping[str, Module]) -> tuple[Work, ...] | None:
    """Return the arithmetic of a device for each op (`Analysis.work`), or None if `stages` has no stage before
    `partition`.
    """
    module = stages.get("optimize") or stages.get("materialize")
    return tuple(work_of(module.graph, nominal_mesh(module), module.kernels)) if module else None


def volume_of(module: Module) -> Volume:
    """Return the communication volume per device of `module`, whose values have shardings or local types.

    Mesh axes of unknown size get their nominal size.
    """
    mesh, sizes = nominal_mesh(module), open_sizes(module)
    records = tuple(_CollectiveReader(mesh, sizes).collectives(module.graph, 1))
    trips = {name: 1 for record in records for name in names_in(record.times)}
    return Volume(mesh, records, sizes | trips)


def open_sizes(module: Module) -> dict[str, int]:
    """Return the current values of the symbolic input sizes, by name."""
    types = module.in_types or [value.type for value in module.graph.inputs]
    dims = [size for tensor_type in types for size in tensor_type.sizes if isinstance(size, Dim)]
    return {str(size.expr): int(size) for size in dims}


class _CollectiveReader:
    """Collects records of the collectives in graphs whose values have local types, or global types with shardings."""

    def __init__(self, mesh: Mesh, sizes: Mapping[str, int]) -> None:
        self._mesh, self._sizes = mesh, sizes

    def collectives(self, graph: Graph, times: int) -> Iterator[CollectiveRecord]:
        """Yield a record per collective in program order. Collectives in the regions of an op come at the position of
        the op.

        Of the branches of an op, only the one with the longest communication time is counted.
        """
        for node in graph.nodes:
            if node.op in COMMUNICATING:
                yield self._record(node, times)
            elif node.op in REPEATED:
                for region, count in loop_runs(node, symbolic_trip_count(node, graph)):
                    yield from self.collectives(region, times * count)
            elif node.op in WITH_PROGRAMS:
                branches = [list(self.collectives(region, times)) for region in node.regions]
                yield from max(branches, key=lambda records: sum(record.seconds * record.times for record in records))

    def _record(self, node: Node, times: int) -> CollectiveRecord:
        ends = moved_ends(node)
        source, result = local_type(ends[0], self._mesh), local_type(ends[-1], self._mesh)
        moved = int(ring_bytes(node.op, node.attrs, source, result, self._mesh))
        axes = link_axes(node.op, node.attrs, self._mesh)
        return CollectiveRecord(
            kind=node.op,
            axes=axes,
            group_size=self._mesh.group_size(axes),
            dtype=source.dtype,
            local_bytes=int(source.nbytes),
            ring_bytes=moved,
            reduction=reduction_of(node.attrs),
            times=times,
            why=reason_of(node),
            line=node.loc.line if node.loc else None,
            seconds=seconds_of(node.op, node.attrs, moved, self._mesh),
            formula=formula_of(node.op, node.attrs, ends[0], ends[-1], self._mesh, self._sizes),
        )
