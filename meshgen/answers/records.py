"""What a compiled program is said to do, as plain records: collectives, kernels, memory and cost.

All of it derives from the executed schedule, so the report cannot disagree with what runs.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from meshgen.ccl.between import BETWEEN
from meshgen.ccl.cost import link_axes, ring_bytes
from meshgen.ir.dialects.shard.checks import TEXT_NAMES
from meshgen.ir.graph import TensorType
from meshgen.mesh import Mesh
from meshgen.runtime.plan import Buffer, Item, Launched, Schedule


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
    mesh: str = ""  # in a program on several meshes: whose devices run it
    peer: str = ""  # and of a transfer: with which mesh
    channel: int = -1
    edges: tuple[int, ...] = ()  # of stage `materialize` that it serves

    @property
    def way(self) -> str:
        """`over` the axes, or `to` or `from` the mesh that takes or has the value."""
        if not self.peer:
            return f"over {', '.join(self.axes)}"
        return f"{'to' if self.kind == 'transfer_send' else 'from'} @{self.peer}"

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
        """Bytes per device and step in the ring model; of several meshes those of the one that moves most."""
        meshes = dict.fromkeys(row.mesh for row in self.rows)
        return max((sum(r.ring_bytes * r.times for r in self.rows if r.mesh == mesh) for mesh in meshes), default=0)

    def __str__(self) -> str:
        from meshgen.answers.tables import comms_table, render

        return render(comms_table(self))

    def _repr_html_(self) -> str:
        from meshgen.answers.tables import comms_table, render

        return render(comms_table(self), html=True)


@dataclass(frozen=True)
class Resident:
    """A buffer: what it holds, how many bytes of the arena it takes, and the line of the program that makes it."""

    name: str
    type: str
    kind: str
    bytes: int
    offset: int
    source: str


@dataclass(frozen=True)
class Memory:
    """Device memory of one rank.

    `largest` are the distinct buffers, largest first. At launch `peak_at` the most bytes are alive at once:
    `live_bytes`, in the buffers `live_at_peak` (largest first); the arena's `peak_bytes` are these and the gaps.
    """

    peak_bytes: int
    live_bytes: int
    live_at_peak: tuple[Resident, ...]
    peak_at: str
    input_bytes: int
    output_bytes: int
    largest: tuple[Resident, ...]

    def __str__(self) -> str:
        from meshgen.answers.tables import memory_table, render

        return render(memory_table(self))


@dataclass(frozen=True)
class Cost:
    """What one step of one rank does by the cost model.

    Without overlap the step would take `serial_seconds`, of which `communication_seconds` on links: what is hidden of
    these behind kernels is what overlap gains. `redundant_flops` repeat what other devices do (None: not known of a
    program that was entered as each device runs it).
    """

    flops: float
    redundant_flops: float | None
    device_bytes: int
    kernels: int
    distinct_kernels: int
    ring_bytes: int
    step_seconds: float
    exposed_seconds: float
    communication_seconds: float
    serial_seconds: float

    @property
    def overlap_gain_seconds(self) -> float:
        """By how much overlap makes the step shorter."""
        return max(0.0, self.serial_seconds - self.step_seconds)

    def __str__(self) -> str:
        from meshgen.answers.tables import cost_table, render

        return render(cost_table(self))


def comms_of(plan: Schedule, mesh: Mesh) -> Comms:
    """The collectives of a schedule."""
    return Comms(tuple(_collective(each, mesh) for each in plan.launches() if each.item.is_collective))


def _collective(launched: Launched, mesh: Mesh) -> Collective:
    """A `send` has no result and a `recv` no operand: the other side's type is the same."""
    item, plan = launched.item, launched.plan
    hidden = launched.exposure.hidden if launched.exposure else 0.0
    numbers = item.outputs[:1] if item.op == "transfer_recv" else (*item.inputs[:1], *item.outputs[:1])
    local, result = plan.buffers[numbers[0]].type, plan.buffers[numbers[-1]].type
    axes = link_axes(item.op, item.attrs, mesh)
    return Collective(
        kind=TEXT_NAMES.get(item.op, item.op),
        axes=axes,
        group_size=mesh.group_size(axes),
        dtype=local.dtype,
        shape=local.sizes,
        local_bytes=local.nbytes,
        ring_bytes=ring_bytes(item.op, item.attrs, local, result, mesh),
        reduction=str(item.attrs.get("kind", "")),
        times=launched.times,
        why=item.why,
        source=item.source,
        seconds=item.seconds,
        hidden_seconds=hidden,
        exposed_seconds=max(0.0, item.seconds - hidden),
        peer=item.attrs["peer"].name if item.op in BETWEEN else "",
        channel=item.attrs["channel"] if item.op in BETWEEN else -1,
        edges=item.edges,
    )


def memory_of(plan: Schedule) -> Memory:
    """The buffers of a schedule; views share their storage's bytes and are left out."""
    owners = [b for n, b in enumerate(plan.buffers) if b.storage == n]
    at, live = _peak(plan)
    return Memory(
        plan.arena_bytes,
        sum(b.type.nbytes for b in live),
        tuple(_residents(live)),
        plan.items[at].label if plan.items else "",
        sum(b.type.nbytes for b in owners if b.kind == "input"),
        sum(b.type.nbytes for b in owners if b.kind == "output"),
        tuple(_residents(owners)),
    )


def _residents(buffers: Iterable[Buffer]) -> Iterator[Resident]:
    for b in sorted(buffers, key=lambda b: (-b.type.nbytes, b.offset)):
        yield Resident(b.name, str(b.type), b.kind, b.type.nbytes, b.offset, b.source)


def _peak(plan: Schedule) -> tuple[int, list[Buffer]]:
    """The launch at which most bytes are alive in the order of issue, and the buffers that are."""
    stays = {n for n, b in enumerate(plan.buffers) if b.kind in ("input", "constant")}
    born: dict[int, int] = dict.fromkeys(stays, 0)
    last: dict[int, int] = {n: len(plan.items) for n, b in enumerate(plan.buffers) if b.kind != "temporary"}
    for number, item in enumerate(plan.items):
        for buffer in (*item.inputs, *item.writes):
            storage = plan.buffers[buffer].storage
            born.setdefault(storage, number)
            last[storage] = max(last.get(storage, 0), number)
    change = [0] * (len(plan.items) + 2)
    for storage, start in born.items():
        change[start] += plan.buffers[storage].type.nbytes
        change[last[storage] + 1] -= plan.buffers[storage].type.nbytes
    totals = list(itertools.accumulate(change))[: max(len(plan.items), 1)]
    at = max(range(len(totals)), key=lambda number: (totals[number], -number))
    return at, [plan.buffers[s] for s, start in born.items() if start <= at <= last[s]]


def cost_of(plan: Schedule, comms: Comms, flops: Mapping[str, float], redundant_flops: float | None = None) -> Cost:
    """Totals of a step; `flops` per kernel."""
    launches = [each for each in plan.launches() if each.item.kernel]
    return Cost(
        flops=sum(flops[each.item.kernel] * each.times for each in launches),
        redundant_flops=redundant_flops,
        device_bytes=sum(launch_bytes(each.item, each.plan) * each.times for each in launches),
        kernels=sum(each.times for each in launches),
        distinct_kernels=len({each.item.kernel for each in launches}),
        ring_bytes=comms.ring_bytes,
        step_seconds=plan.step_seconds,
        exposed_seconds=plan.exposed_seconds,
        communication_seconds=sum(e.item.seconds * e.times for e in plan.launches() if e.item.is_collective),
        serial_seconds=sum(e.item.seconds * e.times for e in plan.launches()),
    )


def memory_record(memory: Memory, most: int = 20) -> dict[str, Any]:
    """For `--json`: peaks, and the largest buffers that are alive at the peak."""
    return {
        "peak_memory_bytes": memory.peak_bytes,
        "live_peak_bytes": memory.live_bytes,
        "peak_at": memory.peak_at,
        "live_at_peak": [asdict(b) for b in memory.live_at_peak[:most]],
    }


def launch_bytes(item: Item, plan: Schedule) -> int:
    """Device memory that a kernel reads and writes: each distinct buffer that it touches, once."""
    touched: dict[int, TensorType] = {}
    for number in (*item.inputs, *item.outputs):
        touched.setdefault(plan.buffers[number].storage, plan.buffers[number].type)
    return sum(kind.nbytes for kind in touched.values())


def mesh_record(mesh: Mesh) -> dict[str, int | None]:
    return {axis.name: axis.size for axis in mesh.axes}


def collective_records(comms: Comms) -> list[dict[str, Any]]:
    """Rows as plain values; what is about several meshes only where there are such."""
    return [collective_record(row) for row in comms]


def collective_record(row: Collective) -> dict[str, Any]:
    """A row as plain values; what is about several meshes only where there are such."""
    absent = {"mesh": "", "peer": "", "channel": -1}
    return {name: value for name, value in asdict(row).items() if name not in absent or value != absent[name]}
