"""Analyse a program per device: its collectives and their bytes, peak memory, arithmetic, time on links.

Works from stage `materialize` (global types with shardings) on, and on programs with local types.
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
from meshgen.ops.flops import loop_runs, named_trips
from meshgen.sharding.arithmetic import Work, work_of
from meshgen.sharding.live import Peak, local_type, peak_of
from meshgen.sharding.optimizations.rewrite import moved_ends
from meshgen.sharding.unknown import nominal_mesh


class CollectiveRecord(NamedTuple):
    """One collective of the program; bytes and seconds are per device and for one of its `times` runs."""

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
    formula: Formula  # the bytes in terms of the numbers of devices


@dataclass(frozen=True)
class Volume:
    """Collectives in program order, and what a device moves in a step, as numbers and as formulas."""

    mesh: Mesh
    collectives: tuple[CollectiveRecord, ...]
    sizes: Mapping[str, int]  # open sizes, by name, at their current values

    @property
    def counts(self) -> dict[str, int]:
        """How often each kind of collective runs."""
        table: Counter[str] = Counter()
        for record in self.collectives:
            table[record.kind] += record.times
        return dict(sorted(table.items()))

    @property
    def ring_bytes(self) -> int:
        """Bytes that a device moves, loops included."""
        return sum(record.ring_bytes * record.times for record in self.collectives)

    @property
    def communication_seconds(self) -> float:
        """Time of all collectives one after the other on idle links."""
        return sum(record.seconds * record.times for record in self.collectives)

    @property
    def formula(self) -> Formula:
        """`ring_bytes` in terms of the numbers of devices along the axes."""
        return self._total(self.collectives)

    def formulas_by_kind(self) -> dict[str, Formula]:
        """The same for each kind of collective."""
        kinds = sorted({record.kind for record in self.collectives})
        return {k: self._total(r for r in self.collectives if r.kind == k) for k in kinds}

    def _total(self, records: Iterable[CollectiveRecord]) -> Formula:
        found = total((record.times, record.formula) for record in records)
        return replace(found, now={**found.now, **self.sizes})

    def formula_record(self) -> dict[str, Any]:
        """Formulas as text, and their value on the mesh."""
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
    """Traffic, memory and arithmetic of a device in a step."""

    peak: Peak
    work: tuple[Work, ...]

    @property
    def peak_memory_bytes(self) -> int:
        """The most bytes alive at once in program order."""
        return self.peak.bytes

    @property
    def flops_per_device(self) -> float:
        """Arithmetic operations of a device."""
        return sum(work.flops for work in self.work)

    @property
    def redundant_flops_per_device(self) -> float:
        """Those of them that repeat another device's work, or are on padding."""
        return sum(work.redundant for work in self.work)


def analyze(module: Module) -> Analysis:
    """The analysis of a module; mesh axes of unknown size that it uses are taken at a nominal one.

    Raises UsageError (MG0001) for a stage at which values have no shardings yet.
    """
    if module.stage in ("import", "propagate"):
        hint = "analyze it after materialize"
        raise UsageError(
            Diagnostic("MG0001", f"a program at stage '{module.stage}' has no collectives yet", None, (), hint)
        )
    found = volume_of(module)
    mesh = found.mesh
    work = tuple(work_of(module.graph, mesh, module.kernels))
    peak = peak_of(module.graph, mesh, is_fused=module.stage in ("fuse", "schedule"))
    return Analysis(mesh, found.collectives, found.sizes, peak, work)


def work_in(stages: Mapping[str, Module]) -> tuple[Work, ...] | None:
    """`Analysis.work` alone; None for a program without a stage before partition."""
    module = stages.get("optimize") or stages.get("materialize")
    return tuple(work_of(module.graph, nominal_mesh(module), module.kernels)) if module else None


def volume_of(module: Module) -> Volume:
    """What a module with shardings or local types moves; mesh axes of unknown size are taken at a nominal one."""
    mesh, sizes = nominal_mesh(module), open_sizes(module)
    records = tuple(_CollectiveReader(mesh, sizes).collectives(module.graph, 1))
    trips = {name: 1 for record in records for name in names_in(record.times)}
    return Volume(mesh, records, sizes | trips)


def open_sizes(module: Module) -> dict[str, int]:
    """The open sizes of inputs, by name, at their current values."""
    types = module.in_types or [value.type for value in module.graph.inputs]
    dims = [size for kind in types for size in kind.sizes if isinstance(size, Dim)]
    return {str(size.expr): int(size) for size in dims}


class _CollectiveReader:
    """Reads the collectives of graphs with local types, or global ones with shardings."""

    def __init__(self, mesh: Mesh, sizes: Mapping[str, int]) -> None:
        self._mesh, self._sizes = mesh, sizes

    def collectives(self, graph: Graph, times: int) -> Iterator[CollectiveRecord]:
        """Records in program order, those of regions at their node; of branches those of the one that communicates longest."""
        for node in graph.nodes:
            if node.op in COMMUNICATING:
                yield self._record(node, times)
            elif node.op in REPEATED:
                for region, count in loop_runs(node, named_trips(node, graph)):
                    yield from self.collectives(region, times * count)
            elif node.op in WITH_PROGRAMS:
                branches = [list(self.collectives(region, times)) for region in node.regions]
                yield from max(branches, key=lambda records: sum(each.seconds * each.times for each in records))

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
