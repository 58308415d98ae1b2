"""The step of every rank: items in one total order on streams, over buffers in one arena of bytes.

Plain frozen values without the compiler: `codegen/scheduling/schedule.py` makes them, `runtime/validation/checker.py` proves them,
the module file stores them and the engines execute them. The same plan holds for all ranks.

Streams: 0 computes, 1 communicates; 2 communicates at the same time, over slower links than others of the mesh: of hosts with a network
between them, the network. A step begins when all streams are idle and the inputs are in place, and
ends when all streams are idle again; between them only stream order and events order anything.

Control flow is an item too, and its regions are steps of their own. Where they communicate, all ranks go the same way and
nothing else communicates meanwhile; else each rank goes its own way. The item is done when all streams of its regions are idle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from meshgen.ccl.collective import Collective
from meshgen.errors import bracketed
from meshgen.ir.attributes.table import attributes_of
from meshgen.ir.graph import Graph, TensorType
from meshgen.ir.op_names import REPEATED
from meshgen.ir.predicates import is_control, is_scan, is_transfer_send
from meshgen.mesh import Mesh
from meshgen.ops.classes import COMMUNICATING, OVERWRITING
from meshgen.runtime.in_place import overwrites

COMPUTE, COMMUNICATION, NETWORK = 0, 1, 2
STREAMS = 3
ROW_ALIGNMENT = 16  # bytes: what kernels rely on; of rows of buffers, which are given to the bodies of scans
MOST_PARTS = 64  # of a buffer that several items write: for each read the checker looks at all of them
ALIGNMENT = 256  # bytes: what cudaMalloc guarantees, and a multiple of every vector load

KINDS = ("input", "constant", "temporary", "output", "given")


def aligned(nbytes: int) -> int:
    """Bytes that a buffer takes in the arena."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


class Buffer(NamedTuple):
    """A tensor in the arena.

    Attributes:
        type: local shape and element type.
        kind: inputs and constants are in place before a step and stay for the next; outputs stay until it ends.
            Buffers given to a region are those of its item, and take no bytes of the region's arena; a result of a
            scan's body may be written over the value that it carries.
        storage: number of the buffer whose bytes these are, or some of these: its own number, or for a view the viewed one's.
        offset: byte offset in the arena, a multiple of `ALIGNMENT`.
        source: file and line of the program; empty if unknown.
    """

    name: str
    type: TensorType
    kind: str
    storage: int
    offset: int
    source: str = ""

    @property
    def end(self) -> int:
        return self.offset + self.type.nbytes


@dataclass(frozen=True)
class Item:
    """One launch: a kernel, a collective over the groups of `attrs["axes"]`, or control flow.

    Attributes:
        op: `kernel`, one that communicates or one of `CONTROL`.
        kernel: name of the kernel; empty for all else.
        inputs, outputs: buffer numbers, in operand and result order.
        regions: of control flow. A loop has its condition and its body: both are given the results, in which the first
            operands are put before the first trip and what the body gives after each, and the other operands. So is the
            body of a scan; of the buffers that `Scan.sliced` numbers, it is given the rows of the trip. Branches
            are given all operands but the first, which chooses.
        scratch: the buffer that is the arena of the region that runs, or in which a collective packs what it moves; None: it
            needs none.
        waits: events that the stream waits for first.
        records: event that is recorded on the stream when the item is done; None: nothing waits for it.
        seconds, start: predicted duration, and start since the beginning of the step.
        source: file and line of the program; empty if unknown.
        edges: numbers of the edges of stage `materialize` that a collective serves.
    """

    op: str
    kernel: str
    attrs: Any
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    stream: int
    waits: tuple[int, ...] = ()
    records: int | None = None
    seconds: float = 0.0
    start: float = 0.0
    why: str = ""
    source: str = ""
    edges: tuple[int, ...] = ()
    regions: tuple[Schedule, ...] = ()
    scratch: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "attrs", attributes_of(self.op, self.attrs))

    @property
    def end(self) -> float:
        return self.start + self.seconds

    @property
    def is_collective(self) -> bool:
        return self.op in COMMUNICATING

    @property
    def communicates(self) -> bool:
        """Whether other ranks take part: all of them must run these items in one order."""
        return self.is_collective or any(item.communicates for region in self.regions for item in region.items)

    @property
    def given(self) -> tuple[int, ...]:
        """The arguments of regions: a loop's results and invariant operands, or all operands of a branch but the first."""
        return (*self.outputs, *self.inputs[len(self.outputs) :]) if self.op in REPEATED else self.inputs[1:]

    @property
    def writes(self) -> tuple[int, ...]:
        """Buffers whose bytes it changes."""
        return self.outputs if self.scratch is None else (*self.outputs, self.scratch)

    @property
    def times(self) -> int:
        """How often the body of a loop runs in a step; 1 if unknown, and for all else."""
        return self.attrs.get("trips", 1)

    @property
    def runs(self) -> tuple[tuple[Schedule, int], ...]:
        """The regions, each with how often it counts in the figures of a step (`runs_of`)."""
        return runs_of(self.op, self.regions, self.times)

    def starts(self, trip: int) -> dict[int, int]:
        """By place in `given`, the first row that the body of a scan is given at a trip, of what it is given rows of."""
        return self.attrs.starts(trip) if is_scan(self) else {}

    @property
    def label(self) -> str:
        """Its name in messages."""
        if "peer" in self.attrs.given:
            return f"{self.op} {'to' if is_transfer_send(self) else 'from'} @{self.attrs.peer.name}"
        axes = self.attrs.get("axes")
        return self.kernel or (f"{self.op} over {', '.join(axes) or 'no axis'}" if isinstance(axes, tuple) else self.op)

    def located(self, axes: Sequence[str] = ()) -> str:
        """The same with its location in the program: `all_reduce over x, y (block.mlir:12)`.

        `axes`: along which it communicates, of one that does not list them.
        """
        along = f" over {', '.join(axes)}" if axes and not isinstance(self.attrs.get("axes"), tuple) else ""
        return f"{self.label}{along}{bracketed(self.source)}"


class Exposure(NamedTuple):
    """Overlap of a collective with kernels, in predicted seconds: `hidden + exposed` is its duration."""

    item: int
    hidden: float
    exposed: float


@dataclass(frozen=True)
class Schedule:
    """A whole step. `kernels` are the bodies that items name; `inputs` / `outputs` are buffer numbers.

    `donated` are inputs that the step may overwrite, each with the output that is its next value, by number of their buffers.
    Where both share bytes, the step updates in place; else the keeper of arguments between steps copies.
    """

    items: tuple[Item, ...]
    buffers: tuple[Buffer, ...]
    arena_bytes: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    kernels: Mapping[str, Graph] = field(default_factory=dict)
    step_seconds: float = 0.0
    exposures: tuple[Exposure, ...] = ()
    donated: Mapping[int, int] = field(default_factory=dict[int, int])

    @property
    def exposed_seconds(self) -> float:
        """Communication during which no kernel runs."""
        inner = sum(region.exposed_seconds * times for item in self.items for region, times in item.runs)
        return sum(e.exposed for e in self.exposures) + inner

    @property
    def hidden_seconds(self) -> float:
        inner = sum(region.hidden_seconds * times for item in self.items for region, times in item.runs)
        return sum(e.hidden for e in self.exposures) + inner

    @cached_property
    def given_up(self) -> Mapping[int, int]:
        """The storages of donated inputs that the step overwrites, and the storages of the outputs that take their bytes."""
        pairs = ((self.buffers[each].storage for each in pair) for pair in self.donated.items())
        return {own: other for own, other in pairs if own != other and self._share_bytes(own, other)}

    @cached_property
    def replaced(self) -> Mapping[int, int]:
        """The results that are written over a storage, and which: if the item that writes them reads it, for the last time. Both
        are numbers of buffers; a result is a storage of its own or a part of one.
        """
        found = {other: own for own, other in self.given_up.items()}
        for item in self.items:
            storages = [self.buffers[n].storage for n in item.inputs]
            at = {(self.buffers[n].offset, self.buffers[n].end): n for n in storages if self._is_in_arena(n)}
            for place, number in enumerate(item.outputs):
                operand = at.get((self.buffers[number].offset, self.buffers[number].end))
                if self.buffers[number].kind == "given" and self.buffers[number].storage in storages:
                    operand = self.buffers[number].storage
                elif operand is None or operand == number:
                    continue
                found[number] = operand
                if not all(self._may_replace(item, n, place) for n, used in enumerate(storages) if used == operand):
                    del found[number]
        return found

    def _is_in_arena(self, storage: int) -> bool:
        """Whether a storage has bytes in the arena; those given to a region do not."""
        buffer = self.buffers[storage]
        return buffer.kind != "given" and buffer.type.nbytes > 0

    def _share_bytes(self, left: int, right: int) -> bool:
        """Whether two storages are the same bytes, and some."""
        one, other = self.buffers[left], self.buffers[right]
        return (one.offset, one.end) == (other.offset, other.end) and one.end > one.offset and left != right

    def _may_replace(self, item: Item, operand: int, result: int) -> bool:
        """Whether an item reads an operand before it writes a result over it."""
        if item.op in OVERWRITING:
            return operand == result
        if item.op in REPEATED:  # its results begin as its first operands
            return operand == result
        if not item.kernel:
            return False
        return result in overwrites(self.kernels[item.kernel]).get(operand, ())

    def collective(self, item: Item, mesh: Mesh, first_rank: Mapping[str, int] | None = None) -> Collective:
        """The `Collective` of an item on this mesh; `first_rank` as in `Collective`."""
        operands, results = (tuple(self.buffers[n].type for n in numbers) for numbers in (item.inputs, item.outputs))
        return Collective(item.op, item.attrs, operands, results, mesh, first_rank or {})

    def launches(self) -> Iterator[Launched]:
        """Kernels and collectives in the order of issue, those of regions at their item."""
        exposure = {e.item: e for e in self.exposures}
        for number, item in enumerate(self.items):
            if not is_control(item):
                yield Launched(item, self, 1, exposure.get(number))
            for region, times in item.runs:
                for inner in region.launches():
                    yield inner._replace(times=inner.times * times)

    def launch_counts(self) -> Counter[str]:
        """How often each kernel is launched in a step."""
        found = Counter[str]()
        for each in self.launches():
            if each.item.kernel:
                found[each.item.kernel] += each.times
        return found


def runs_of(op: str, regions: Sequence[Schedule], trips: int) -> tuple[tuple[Schedule, int], ...]:
    """Return the regions of control flow, each with how often it counts in the figures of a step.

    A loop evaluates its condition once more than its body. Of branches the longest one counts once, the first of several
    equally long ones, and the others not at all.
    """
    if op in REPEATED:
        *conditions, body = regions
        return (*((condition, trips + 1) for condition in conditions), (body, trips))
    longest = max(range(len(regions)), key=lambda n: regions[n].step_seconds, default=0)
    return tuple((region, int(number == longest)) for number, region in enumerate(regions))


class Launched(NamedTuple):
    """An item of a schedule or of a region in it, how often it counts in a step (`runs_of`), and how much of it hides."""

    item: Item
    plan: Schedule
    times: int
    exposure: Exposure | None
