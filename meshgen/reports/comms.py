"""The collectives of a compiled program, as JSON records and as a table.

Records are derived from the schedule that the runtime executes, so a report cannot disagree with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from meshgen.ccl.cost import link_axes
from meshgen.errors import line_of_location
from meshgen.ir.attributes.sharding import reduction_of
from meshgen.ir.op_names import TEXT_NAMES
from meshgen.ir.predicates import is_transfer, is_transfer_recv
from meshgen.mesh import Mesh
from meshgen.reports.merged_reasons import joined, skeleton, without_repeated_clauses
from meshgen.reports.tables import Table, bytes_text, render, seconds_text, table_of
from meshgen.runtime.plan import Launched, Schedule


class Collective(NamedTuple):
    """One collective of a schedule. Bytes are per device and execution, seconds per execution. `times` is the number of
    executions per step. It is 0 in a branch that the cost model does not count (`runs_of` in `runtime/plan.py`).
    """

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
    mesh: str = ""  # the mesh whose devices run the collective, or "" if the program has one mesh
    peer: str = ""  # the other mesh of a transfer between meshes
    channel: int = -1
    edges: tuple[int, ...] = ()  # numbers of the collective's reshard edges in the program of stage `materialize`
    operands: int = 1  # number of operands; above 1 for a group call, whose `shape` is the total element count

    @property
    def way(self) -> str:
        """Return "over tp" for a collective over axis `tp`, or "to @b" or "from @b" for a transfer to or from mesh
        `b`.
        """
        if not self.peer:
            return f"over {', '.join(self.axes)}"
        return f"{'to' if self.kind == 'transfer_send' else 'from'} @{self.peer}"

    @property
    def operand(self) -> str:
        """Return the operand type, such as `f32[4,8]`, or `f32[96] in 3` for a grouped collective with three
        operands.
        """
        return f"{self.dtype}[{','.join(map(str, self.shape))}]{f' in {self.operands}' if self.operands > 1 else ''}"

    @property
    def line(self) -> int | None:
        """Return the source line of the collective."""
        return line_of_location(self.source)


class Total(NamedTuple):
    """Totals of several collectives over one step: the number of executions, bytes per device, and seconds."""

    times: int
    ring_bytes: int
    seconds: float
    hidden_seconds: float
    exposed_seconds: float


def total_of(rows: Iterable[Collective]) -> Total:
    """Return the totals of `rows` over all executions in a step."""
    rows = list(rows)
    return Total(
        times=sum(row.times for row in rows),
        ring_bytes=sum(row.ring_bytes * row.times for row in rows),
        seconds=sum((row.seconds * row.times for row in rows), 0.0),
        hidden_seconds=sum((row.hidden_seconds * row.times for row in rows), 0.0),
        exposed_seconds=sum((row.exposed_seconds * row.times for row in rows), 0.0),
    )


@dataclass(frozen=True)
class Comms(Sequence[Collective]):
    """The collectives of a program in execution order."""

    rows: tuple[Collective, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __iter__(self) -> Iterator[Collective]:
        return iter(self.rows)

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of executions per step of each kind of collective, without kinds that are never
        executed.
        """
        table: Counter[str] = Counter()
        for row in self.rows:
            table[row.kind] += row.times
        return {kind: count for kind, count in sorted(table.items()) if count}

    @property
    def runs(self) -> int:
        """Return the number of collectives executed per step, the sum of `counts`.

        In contrast, `len` is the number of collectives in the schedule, where a collective in a loop body counts once.
        """
        return sum(row.times for row in self.rows)

    @property
    def in_schedule(self) -> str:
        """Return the number of scheduled collectives as a suffix, ` (29 in the schedule)`, or "" if it equals
        `runs`.
        """
        return "" if self.runs == len(self) else f" ({len(self)} in the schedule)"

    def count(self, value: Any) -> int:
        """Return the number of executions per step of one kind of collective, as in `comms.count("all_gather")`."""
        return self.counts.get(str(value), 0)

    @property
    def ring_bytes(self) -> int:
        """Return the bytes that a device sends per step in the ring model. With several meshes, it is the maximum over
        the meshes.
        """
        meshes = dict.fromkeys(row.mesh for row in self.rows)
        return max((sum(r.ring_bytes * r.times for r in self.rows if r.mesh == mesh) for mesh in meshes), default=0)

    def __str__(self) -> str:
        return render(comms_table(self))

    def _repr_html_(self) -> str:
        return render(comms_table(self), html=True)


def comms_of(plan: Schedule, mesh: Mesh) -> Comms:
    """Return the collectives of a schedule as records. `mesh` is the mesh that runs them."""
    return Comms(tuple(_collective(launch, mesh) for launch in plan.launches() if launch.item.is_collective))


def _collective(launched: Launched, mesh: Mesh) -> Collective:
    """Return the record of a launched collective, with the types of its operands.

    A `recv` has no operand, so its result type is used. A group call sums the elements of all its operands.
    """
    item, plan = launched.item, launched.plan
    hidden = launched.exposure.hidden if launched.exposure else 0.0
    called = plan.collective(item, mesh)
    types = [
        call.results[0] if is_transfer_recv(item) or not call.operands else call.operands[0] for call in called.calls
    ]
    axes = link_axes(item.op, item.attrs, mesh)
    return Collective(
        kind=TEXT_NAMES.get(item.op, item.op),
        axes=axes,
        group_size=mesh.group_size(axes),
        dtype=types[0].dtype,
        shape=types[0].sizes if len(types) == 1 else (sum(value_type.size for value_type in types),),
        local_bytes=sum(value_type.nbytes for value_type in types),
        ring_bytes=called.ring_bytes,
        reduction=reduction_of(item.attrs),
        times=launched.times,
        why=without_repeated_clauses(item.why),
        source=item.source,
        seconds=item.seconds,
        hidden_seconds=hidden,
        exposed_seconds=max(0.0, item.seconds - hidden),
        peer=item.attrs.peer.name if is_transfer(item) else "",
        channel=item.attrs.channel if is_transfer(item) else -1,
        edges=item.edges,
        operands=len(types),
    )


def collective_records(comms: Comms) -> list[dict[str, Any]]:
    """Return the records of all collectives as JSON-serializable dicts."""
    return [collective_record(row) for row in comms]


def collective_record(row: Collective) -> dict[str, Any]:
    """Return a collective as a JSON-serializable dict, without fields for several meshes that are empty."""
    absent = {"mesh": "", "peer": "", "channel": -1}
    return {name: value for name, value in row._asdict().items() if name not in absent or value != absent[name]}


def comms_table(comms: Comms, first: int = 0) -> Table:
    """Return a table of the collectives, numbered from `first` on.

    Equal collectives, such as those of loop iterations or repeated layers, share a row with totals.
    """
    alike: dict[tuple[str, ...], dict[int, Collective]] = {}
    for index, row in enumerate(comms, first):
        alike.setdefault((*_comms_words(row), skeleton(row.why)), {})[index] = row
    rows: list[tuple[object, ...]] = []
    for (*words, _), group in alike.items():
        total, why = total_of(group.values()), joined([row.why for row in group.values()])
        times = (seconds_text(total.hidden_seconds), seconds_text(total.exposed_seconds))
        rows.append((numbers_text([*group]), total.times, *words, bytes_text(total.ring_bytes), *times, why))
    title = f"Collectives: {comms.runs}{comms.in_schedule}, {bytes_text(comms.ring_bytes)} per device"
    columns = ("#", "times", "kind", "axes", "operand", "bytes", "moved", "hidden", "exposed", "why")
    return table_of(title, columns, rows, left=("kind", "axes", "operand", "why"))


def _comms_words(row: Collective) -> tuple[str, ...]:
    """Return the table cells of a collective: its kind, its axes or other mesh, its operand, and the operand's
    bytes.
    """
    return (
        row.kind + (f" {row.reduction}" if row.reduction else "") + (f" on @{row.mesh}" if row.mesh else ""),
        ",".join(row.axes) or (row.way if row.peer else ""),
        row.operand,
        bytes_text(row.local_bytes),
    )


def numbers_text(numbers: Sequence[int]) -> str:
    """Abbreviate a list of indices as `1`, `1, 3`, or `1, 3 .. 21 (11)`."""
    if len(numbers) < 4:
        return ", ".join(map(str, numbers))
    return f"{numbers[0]}, {numbers[1]} .. {numbers[-1]} ({len(numbers)})"
