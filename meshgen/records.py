"""What a compiled program is said to do, as plain records: collectives, kernels, memory and cost.

All of it derives from the executed schedule, so the report cannot disagree with what runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from meshgen.ccl.cost import link_axes, ring_bytes
from meshgen.ir.graph import TensorType
from meshgen.mesh import Mesh
from meshgen.runtime.plan import Item, Schedule


@dataclass(frozen=True)
class Collective:
    """One collective of a step, as every rank runs it. Bytes are per device, times in seconds."""

    kind: str
    axes: tuple[str, ...]
    group_size: int
    dtype: str
    shape: tuple[int, ...]
    local_bytes: int
    ring_bytes: int
    reduction: str
    times: int
    why: str
    source: str
    seconds: float
    hidden_seconds: float
    exposed_seconds: float

    @property
    def line(self) -> int | None:
        """The line of the program that it comes from."""
        line = self.source.rpartition(":")[2]
        return int(line) if line.isdecimal() else None


@dataclass(frozen=True)
class Comms(Sequence[Collective]):
    """The collectives of a program in the order in which they run."""

    rows: tuple[Collective, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __iter__(self) -> Iterator[Collective]:
        return iter(self.rows)

    @property
    def counts(self) -> dict[str, int]:
        """How often each kind runs in a step."""
        table: Counter[str] = Counter()
        for row in self.rows:
            table[row.kind] += row.times
        return dict(sorted(table.items()))

    def count(self, value: Any) -> int:
        """How often collectives of a kind run, such as `comms.count("all_gather")`."""
        return self.counts.get(str(value), 0)

    @property
    def ring_bytes(self) -> int:
        """Bytes per device and step in the ring model."""
        return sum(row.ring_bytes * row.times for row in self.rows)

    def __str__(self) -> str:
        from meshgen.tables import comms_table, render

        return render(comms_table(self))

    def _repr_html_(self) -> str:
        from meshgen.tables import comms_table, render

        return render(comms_table(self), html=True)


@dataclass(frozen=True)
class Resident:
    """A buffer: what it holds and how many bytes of the arena it takes."""

    name: str
    type: str
    kind: str
    bytes: int
    offset: int


@dataclass(frozen=True)
class Memory:
    """Device memory of one rank. `largest` are the distinct buffers, largest first."""

    peak_bytes: int
    input_bytes: int
    output_bytes: int
    largest: tuple[Resident, ...]

    def __str__(self) -> str:
        from meshgen.tables import memory_table, render

        return render(memory_table(self))


@dataclass(frozen=True)
class Cost:
    """What one step of one rank does by the cost model."""

    flops: float
    device_bytes: int
    kernels: int
    distinct_kernels: int
    ring_bytes: int
    step_seconds: float
    exposed_seconds: float

    def __str__(self) -> str:
        from meshgen.tables import cost_table, render

        return render(cost_table(self))


def comms_of(plan: Schedule, mesh: Mesh) -> Comms:
    """The collectives of a schedule."""
    exposure = {e.item: e for e in plan.exposures}
    rows: list[Collective] = []
    for number, item in enumerate(plan.items):
        if item.is_collective:
            hidden = exposure[number].hidden if number in exposure else 0.0
            rows.append(_collective(item, plan, mesh, hidden))
    return Comms(tuple(rows))


def _collective(item: Item, plan: Schedule, mesh: Mesh, hidden: float) -> Collective:
    """A `send` has no result and a `recv` no operand: the other side's type is the same."""
    buffers = [plan.buffers[n].type for n in (*item.inputs[:1], *item.outputs[:1])]
    local, result = buffers[0], buffers[-1]
    axes = link_axes(item.op, item.attrs, mesh)
    return Collective(
        kind=item.op,
        axes=axes,
        group_size=mesh.group_size(axes),
        dtype=local.dtype,
        shape=local.sizes,
        local_bytes=local.nbytes,
        ring_bytes=ring_bytes(item.op, item.attrs, local, result, mesh),
        reduction=str(item.attrs.get("kind", "")),
        times=1,
        why=item.why,
        source=item.source,
        seconds=item.seconds,
        hidden_seconds=hidden,
        exposed_seconds=max(0.0, item.seconds - hidden),
    )


def memory_of(plan: Schedule) -> Memory:
    """The buffers of a schedule; views share their storage's bytes and are left out."""
    owners = [b for n, b in enumerate(plan.buffers) if b.storage == n]
    ordered = sorted(owners, key=lambda b: (-b.type.nbytes, b.offset))
    return Memory(
        plan.arena_bytes,
        sum(b.type.nbytes for b in owners if b.kind == "input"),
        sum(b.type.nbytes for b in owners if b.kind == "output"),
        tuple(Resident(b.name, str(b.type), b.kind, b.type.nbytes, b.offset) for b in ordered),
    )


def cost_of(plan: Schedule, comms: Comms, flops: Mapping[str, float]) -> Cost:
    """Totals of a step; `flops` per kernel."""
    launches = [item for item in plan.items if not item.is_collective]
    return Cost(
        flops=sum(flops[item.kernel] for item in launches),
        device_bytes=sum(launch_bytes(item, plan) for item in launches),
        kernels=len(launches),
        distinct_kernels=len({item.kernel for item in launches}),
        ring_bytes=comms.ring_bytes,
        step_seconds=plan.step_seconds,
        exposed_seconds=plan.exposed_seconds,
    )


def launch_bytes(item: Item, plan: Schedule) -> int:
    """Device memory that a kernel reads and writes: each distinct buffer that it touches, once."""
    touched: dict[int, TensorType] = {}
    for number in (*item.inputs, *item.outputs):
        touched.setdefault(plan.buffers[number].storage, plan.buffers[number].type)
    return sum(kind.nbytes for kind in touched.values())


def mesh_record(mesh: Mesh) -> dict[str, int | None]:
    return {axis.name: axis.size for axis in mesh.axes}


def collective_records(comms: Comms) -> list[dict[str, Any]]:
    return [asdict(row) for row in comms]
