"""What a program does on every device: its collectives and their bytes, peak memory, arithmetic, time on links.

Works from stage `materialize` (global types with shardings) on, and on programs with local types.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from meshgen.ccl.cost import COMMUNICATIONS, link_axes, ring_bytes, seconds_of
from meshgen.ccl.volume import Formula, formula_of, total
from meshgen.errors import Diagnostic, UsageError
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ir.loops import trip_count
from meshgen.ir.reasons import reason_of
from meshgen.mesh import Mesh
from meshgen.sharding.unknown import nominal_mesh

_CONTROL = ("while", "case", "if", "manual")
_VIEWS = ("reshape", "optimization_barrier")  # no storage of their own
# Ops that compute nothing: they move, choose or make data.
_NO_ARITHMETIC = (
    *_CONTROL, *_VIEWS, *COMMUNICATIONS, "all_slice", "to_partial", "constant", "iota", "broadcast_in_dim", "transpose",
    "reverse", "slice", "concatenate", "pad", "gather", "scatter", "dynamic_slice", "dynamic_update_slice", "convert",
    "bitcast_convert", "select", "process_index", "mask_padding", "kernel", "view", "sort", "custom_call",
)  # fmt: skip


@dataclass(frozen=True)
class CollectiveRecord:
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
class Analysis:
    """Collectives in program order, and totals per device and step."""

    mesh: Mesh
    collectives: tuple[CollectiveRecord, ...]
    peak_memory_bytes: int
    flops_per_device: float

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
        return total((record.times, record.formula) for record in self.collectives)

    def formulas_by_kind(self) -> dict[str, Formula]:
        """The same for each kind of collective."""
        kinds = sorted({record.kind for record in self.collectives})
        return {k: total((r.times, r.formula) for r in self.collectives if r.kind == k) for k in kinds}

    def formula_record(self) -> dict[str, Any]:
        """Formulas as text, and their value on the mesh."""
        return {
            "total": str(self.formula),
            "by_kind": {kind: str(formula) for kind, formula in self.formulas_by_kind().items()},
            "collectives": [
                {"kind": r.kind, "axes": list(r.axes), "times": r.times, "formula": str(r.formula)}
                for r in self.collectives
            ],
            "devices": {f"n_{axis.name}": axis.size for axis in self.mesh.axes},
            "ring_bytes": self.ring_bytes,
        }

    def to_json(self) -> dict[str, Any]:
        """The part of `explain --json` that does not need kernels or a schedule."""
        return {
            "mesh": {axis.name: axis.size for axis in self.mesh.axes},
            "collectives": [
                {**asdict(record), "axes": list(record.axes), "formula": str(record.formula)}
                for record in self.collectives
            ],
            "counts": self.counts,
            "ring_bytes": self.ring_bytes,
            "peak_memory_bytes": self.peak_memory_bytes,
            "flops_per_device": self.flops_per_device,
            "communication_seconds": self.communication_seconds,
            "formula": self.formula_record(),
        }


def analyze(module: Module) -> Analysis:
    """The analysis of a module; mesh axes of unknown size that it uses are taken at a nominal one.

    Raises UsageError (MG0001) for a stage at which values have no shardings yet.
    """
    if module.stage in ("import", "propagate"):
        hint = "analyze it after materialize"
        raise UsageError(
            Diagnostic("MG0001", f"a program at stage '{module.stage}' has no collectives yet", None, (), hint)
        )
    mesh = nominal_mesh(module)
    reader = _Reader(mesh, module.kernels)
    records = tuple(reader.collectives(module.graph, 1))
    return Analysis(mesh, records, reader.peak(module.graph), reader.flops(module.graph))


class _Reader:
    """Reads graphs with local types; kernels' bodies are looked up by name."""

    def __init__(self, mesh: Mesh, kernels: Mapping[str, Graph]) -> None:
        self._mesh = mesh
        self._kernels = kernels

    def _local(self, value: Value) -> TensorType:
        if value.sharding is None:
            return value.type
        return value.type.with_shape(value.sharding.local_shape(value.type.sizes, self._mesh))

    def _trips(self, node: Node, graph: Graph) -> int:
        """Runs of a node's regions; 1 where that cannot be read off."""
        return (trip_count(node, graph.producers()) or 1) if node.op == "while" else 1

    def collectives(self, graph: Graph, times: int) -> Iterator[CollectiveRecord]:
        """Records in program order; those in a loop's body stand where the loop does."""
        for node in graph.nodes:
            if node.op in COMMUNICATIONS:
                yield self._record(node, times)
            elif node.op in _CONTROL:
                trips = self._trips(node, graph)
                for region in node.regions:
                    yield from self.collectives(region, times * trips)

    def _record(self, node: Node, times: int) -> CollectiveRecord:
        ends = [*node.operands[:1], *node.results[:1]]  # a send has no result, a recv no operand
        source, result = self._local(ends[0]), self._local(ends[-1])
        moved = ring_bytes(node.op, node.attrs, source, result, self._mesh)
        axes = link_axes(node.op, node.attrs, self._mesh)
        return CollectiveRecord(
            kind=node.op,
            axes=axes,
            group_size=self._mesh.group_size(axes),
            dtype=source.dtype,
            local_bytes=source.nbytes,
            ring_bytes=moved,
            reduction=str(node.attrs.get("kind", "")),
            times=times,
            why=reason_of(node),
            line=node.loc.line if node.loc else None,
            seconds=seconds_of(node.op, node.attrs, moved, self._mesh),
            formula=formula_of(node.op, node.attrs, ends[0], ends[-1], self._mesh),
        )

    def flops(self, graph: Graph) -> float:
        """Arithmetic operations of a device; those of dots and convolutions exactly, one per element else."""
        total = 0.0
        for node in graph.nodes:
            if node.op == "kernel":
                total += self.flops(self._kernels[node.attrs["kernel"]])
            elif node.op == "while":
                total += self._trips(node, graph) * sum(self.flops(region) for region in node.regions)
            elif node.op in ("case", "if", "manual"):
                total += max(self.flops(region) for region in node.regions)
            else:
                total += self._node_flops(node)
        return total

    def _node_flops(self, node: Node) -> float:
        if node.op == "dot_general":
            lhs = self._local(node.operands[0]).sizes
            return 2.0 * self._local(node.result).size * math.prod(lhs[d] for d in node.attrs["lhs_contract"])
        if node.op == "convolution":
            kernel = self._local(node.operands[1]).sizes
            features = (
                kernel[node.attrs["kernel_output_feature_dim"]] if "kernel_output_feature_dim" in node.attrs else 1
            )
            return 2.0 * self._local(node.result).size * math.prod(kernel) / max(features, 1)
        if node.op in _NO_ARITHMETIC:
            return 0.0
        values = node.operands[:1] if node.op in ("reduce", "reduce_region") else node.results
        return float(sum(self._local(value).size for value in values))

    def peak(self, graph: Graph) -> int:
        """Most bytes alive at once in program order: inputs and outputs all the time, others until their last use."""
        inputs = sum(self._local(value).nbytes for value in graph.inputs)
        return inputs + self._temporaries(graph)

    def _temporaries(self, graph: Graph) -> int:
        """Most bytes alive besides the inputs of a graph."""
        storage = {value: value for value in graph.inputs}
        last = _last_uses(graph, storage)
        kept = {storage[value] for value in graph.outputs if value in storage} | set(graph.inputs)
        alive: dict[Value, int] = {}
        total = peak = 0
        for number, node in enumerate(graph.nodes):
            made = {v: self._stored(node, v) for v in node.results if storage[v] is v}
            alive |= made
            total += sum(made.values())
            inner = max((self._temporaries(region) for region in node.regions if node.op in _CONTROL), default=0)
            peak = max(peak, total + inner)
            total -= sum(alive.pop(v, 0) for v in last.get(number, ()) if v not in kept)
        return peak

    def _stored(self, node: Node, value: Value) -> int:
        """Bytes of a value's buffer; a splat or iota is made where it is read."""
        splat = node.op == "constant" and (node.attrs["value"].size <= 1 or not any(node.attrs["value"].strides))
        return 0 if splat or node.op == "iota" else self._local(value).nbytes


def _last_uses(graph: Graph, storage: dict[Value, Value]) -> dict[int, list[Value]]:
    """Per node the buffers that it is the last to use; fills `storage` with the buffer of each value."""
    last: dict[Value, int] = {}
    for number, node in enumerate(graph.nodes):
        for value in node.results:
            source = node.operands[0] if node.op in _VIEWS and node.operands else None
            storage[value] = storage.get(source, value) if source is not None else value
            last[storage[value]] = number
        for value in _read(node):
            if value in storage:
                last[storage[value]] = number
    table: dict[int, list[Value]] = {}
    for value, number in last.items():
        table.setdefault(number, []).append(value)
    return table


def _read(node: Node) -> Iterator[Value]:
    """Values that a node and its regions read."""
    yield from node.operands
    for region in node.regions:
        for inner in region.nodes:
            yield from _read(inner)
        yield from region.outputs
