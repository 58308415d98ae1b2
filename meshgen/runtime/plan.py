"""The plan of a step, equal on all ranks: a totally ordered list of items, each on a stream, and buffers in one arena.

The plan consists of plain frozen values and does not need the compiler. `codegen/scheduling/schedule.py` creates it,
`runtime/validation/checker.py` proves it correct, the module file stores it, and the engines execute it.

Stream 0 computes and stream 1 communicates. Stream 2 communicates at the same time over the slowest links of the mesh,
for example the network between hosts. A step begins when all streams are idle and its inputs are in memory, and ends
when all streams are idle again. In between, only stream order and events order items.

Control flow is an item too, and each of its regions is a step of its own. If a region communicates, all ranks take the
same path and no other item communicates at the same time; otherwise, each rank takes its own path. The item ends when
all streams of its regions are idle.
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
ROW_ALIGNMENT = 16  # bytes; kernels assume this alignment for the rows of a buffer that a scan passes to its body
# largest number of items that write parts of one buffer; the checker compares all parts for each read (chosen: bounds
# its time)
MOST_PARTS = 64
ALIGNMENT = 256  # bytes; alignment of cudaMalloc (CUDA C++ programming guide), a multiple of every vector load

KINDS = ("input", "constant", "temporary", "output", "given")


def aligned(nbytes: int) -> int:
    """Return `nbytes` rounded up to a multiple of `ALIGNMENT`, as buffers are in the arena."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


class Buffer(NamedTuple):
    """A tensor in the arena.

    Attributes:
        type: local shape and element type.
        kind: inputs and constants are in memory before a step and remain valid for the next one. Outputs remain valid
            until the step ends. A `given` buffer of a region aliases a buffer of the enclosing item, and takes no bytes
            of the region's arena. A result of a scan's body may overwrite the carried value that it replaces.
        storage: number of the buffer that owns the bytes: this buffer, or the buffer of which it is a view.
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
    """A launch of a kernel, a collective over the groups of `attrs["axes"]`, or control flow.

    Attributes:
        op: `kernel`, a communicating op, or an op of `CONTROL`.
        kernel: name of the kernel; empty for other ops.
        inputs, outputs: numbers of the buffers of operands and of results.
        regions: of control flow. The buffers of a loop's results hold the carried values. The condition and the body of
            the loop get these buffers and the invariant operands. The body of a scan gets the same, but of each buffer
            in `Scan.sliced` only the rows of the iteration. A branch gets all operands except the first one, which
            selects the branch.
        scratch: number of the buffer that is the arena of a running region, or in which a collective packs data, or
            None.
        waits: events for which the stream waits before the item.
        records: event that the stream records after the item, or None if no item waits for it.
        seconds, start: predicted duration, and predicted start relative to the start of the step.
        source: file and line of the program; empty if unknown.
        edges: numbers of the edges of stage `materialize` that a collective implements.
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
        """Whether the item communicates with other ranks. All ranks must run such items in the same order."""
        return self.is_collective or any(item.communicates for region in self.regions for item in region.items)

    @property
    def given(self) -> tuple[int, ...]:
        """Return the numbers of the buffers that the item passes to its regions.

        These are the results and invariant operands of a loop, or all operands except the first of a branch.
        """
        return (*self.outputs, *self.inputs[len(self.outputs) :]) if self.op in REPEATED else self.inputs[1:]

    @property
    def writes(self) -> tuple[int, ...]:
        """Return the numbers of the buffers that the item modifies: results and scratch."""
        return self.outputs if self.scratch is None else (*self.outputs, self.scratch)

    @property
    def times(self) -> int:
        """Return the trip count of a loop, or 1 if it is unknown or the item is not a loop."""
        return self.attrs.get("trips", 1)

    @property
    def runs(self) -> tuple[tuple[Schedule, int], ...]:
        """Return (region, weight) pairs. The weight of a region in the metrics of a step is that of `runs_of`."""
        return runs_of(self.op, self.regions, self.times)

    def starts(self, iteration: int) -> dict[int, int]:
        """Return the first row that a scan's body gets at an iteration: position of a sliced buffer in `given` -> row."""
        return self.attrs.starts(iteration) if is_scan(self) else {}

    @property
    def label(self) -> str:
        """Return the name of the item for messages."""
        if "peer" in self.attrs.given:
            return f"{self.op} {'to' if is_transfer_send(self) else 'from'} @{self.attrs.peer.name}"
        axes = self.attrs.get("axes")
        return self.kernel or (f"{self.op} over {', '.join(axes) or 'no axis'}" if isinstance(axes, tuple) else self.op)

    def located(self, axes: Sequence[str] = ()) -> str:
        """Return the label with the location in the program: `all_reduce over x, y (block.mlir:12)`.

        Args:
            axes: mesh axes along which the item communicates, if its attributes do not contain them.
        """
        along = f" over {', '.join(axes)}" if axes and not isinstance(self.attrs.get("axes"), tuple) else ""
        return f"{self.label}{along}{bracketed(self.source)}"


class Exposure(NamedTuple):
    """The predicted overlap of a collective with kernels: hidden and exposed seconds, which add up to its duration."""

    item: int
    hidden: float
    exposed: float


@dataclass(frozen=True)
class Schedule:
    """The plan of an entire step or of a region.

    Attributes:
        inputs, outputs: numbers of buffers.
        kernels: kernel name in items -> body of the kernel.
        donated: input buffer that the step may overwrite -> output buffer with its next value. If both buffers share
            bytes, the step updates the input in place; otherwise, the owner of the arguments copies the output to the
            input between steps.
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
        """Return the predicted seconds of communication during which no kernel runs."""
        inner = sum(region.exposed_seconds * times for item in self.items for region, times in item.runs)
        return sum(e.exposed for e in self.exposures) + inner

    @property
    def hidden_seconds(self) -> float:
        inner = sum(region.hidden_seconds * times for item in self.items for region, times in item.runs)
        return sum(e.hidden for e in self.exposures) + inner

    @cached_property
    def overwritten_inputs(self) -> Mapping[int, int]:
        """Return the donated storages that the step overwrites, mapped to the output storages that take their bytes."""
        pairs = ((self.buffers[number].storage for number in pair) for pair in self.donated.items())
        return {
            donated: output for donated, output in pairs if donated != output and self._share_bytes(donated, output)
        }

    @cached_property
    def replaced(self) -> Mapping[int, int]:
        """Return a map from each result that overwrites a storage to this storage, both as numbers of buffers.

        The item that writes the result must be the last one that reads the storage. The result may be a part of a
        storage.
        """
        replaced = {output: donated for donated, output in self.overwritten_inputs.items()}
        for item in self.items:
            storages = [self.buffers[n].storage for n in item.inputs]
            storage_at = {(self.buffers[n].offset, self.buffers[n].end): n for n in storages if self._is_in_arena(n)}
            for position, number in enumerate(item.outputs):
                operand = storage_at.get((self.buffers[number].offset, self.buffers[number].end))
                if self.buffers[number].kind == "given" and self.buffers[number].storage in storages:
                    operand = self.buffers[number].storage
                elif operand is None or operand == number:
                    continue
                replaced[number] = operand
                if not all(self._may_replace(item, n, position) for n, used in enumerate(storages) if used == operand):
                    del replaced[number]
        return replaced

    def _is_in_arena(self, storage: int) -> bool:
        """Whether a storage has bytes in the arena. Empty buffers and buffers that are passed to a region have none."""
        buffer = self.buffers[storage]
        return buffer.kind != "given" and buffer.type.nbytes > 0

    def _share_bytes(self, left: int, right: int) -> bool:
        """Whether two different storages occupy the same range of bytes, which must not be empty."""
        first, second = self.buffers[left], self.buffers[right]
        return (first.offset, first.end) == (second.offset, second.end) and first.end > first.offset and left != right

    def _may_replace(self, item: Item, operand: int, result: int) -> bool:
        """Whether the item may write result `result` to the memory of operand `operand`.

        It may if it has read each element of the operand before it overwrites the element.
        """
        if item.op in OVERWRITING:
            return operand == result
        if item.op in REPEATED:  # The buffers of a loop's results start as copies of its first operands.
            return operand == result
        if not item.kernel:
            return False
        return result in overwrites(self.kernels[item.kernel]).get(operand, ())

    def collective(self, item: Item, mesh: Mesh, first_rank: Mapping[str, int] | None = None) -> Collective:
        """Return the `Collective` of an item on `mesh`. For `first_rank`, see `Collective`."""
        operands, results = (tuple(self.buffers[n].type for n in numbers) for numbers in (item.inputs, item.outputs))
        return Collective(item.op, item.attrs, operands, results, mesh, first_rank or {})

    def launches(self) -> Iterator[Launched]:
        """Yield all kernels and collectives in issue order.

        Those in a region follow at the position of the control-flow item.
        """
        exposure = {e.item: e for e in self.exposures}
        for index, item in enumerate(self.items):
            if not is_control(item):
                yield Launched(item, self, 1, exposure.get(index))
            for region, times in item.runs:
                for inner in region.launches():
                    yield inner._replace(times=inner.times * times)

    def launch_counts(self) -> Counter[str]:
        """Return the number of times that a step launches each kernel, by kernel name."""
        counts = Counter[str]()
        for launched in self.launches():
            if launched.item.kernel:
                counts[launched.item.kernel] += launched.times
        return counts


def runs_of(op: str, regions: Sequence[Schedule], trips: int) -> tuple[tuple[Schedule, int], ...]:
    """Return (region, weight) pairs.

    The weight says how often a region counts in the metrics of a step, such as predicted seconds.
    A loop evaluates its condition once more than its body. Of several branches, only the longest one counts, with
    weight 1.
    """
    if op in REPEATED:
        *conditions, body = regions
        return (*((condition, trips + 1) for condition in conditions), (body, trips))
    longest = max(range(len(regions)), key=lambda n: regions[n].step_seconds, default=0)
    return tuple((region, int(index == longest)) for index, region in enumerate(regions))


class Launched(NamedTuple):
    """A kernel or collective of a schedule or of a region in it.

    Attributes:
        plan: the step or region that directly contains the item.
        times: how often the item counts in the metrics of a step (`runs_of`).
        exposure: overlap of a collective with kernels, or None for a kernel.
    """

    item: Item
    plan: Schedule
    times: int
    exposure: Exposure | None
