"""One rank's part of a step on the host: kernels, lowered collectives and control flow in the rank's arena.

The rank runs until it communicates, and yields that to the owner of the transport: all ranks in one process (`reference.py`), or processes. Undefined
results of collectives are poison, as is their scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from meshgen.ccl.host import HostBuffers
from meshgen.ccl.local import Pending
from meshgen.ccl.lower import lower
from meshgen.ccl.processes import Processes
from meshgen.ccl.steps import SCRATCH, BufferRef, Lowered
from meshgen.ccl.transport import axes_of, launches, perform
from meshgen.identity_dict import IdentityDict
from meshgen.ir.predicates import is_control
from meshgen.mesh import Mesh
from meshgen.ops.classes import OVERWRITING
from meshgen.ops.evaluate.common import poison
from meshgen.runtime.control_flow import Choose, Issue, Move, code_of, follow, require_one_way
from meshgen.runtime.launch import POISON, Launch
from meshgen.runtime.measured import timed
from meshgen.runtime.plan import Item, Schedule

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Choice:
    """The branch of control flow that communicates: all ranks must take the same, or they deadlock."""

    item: Item
    number: int


Request: TypeAlias = Pending | Choice  # requests of a rank that involve others


@dataclass(frozen=True)
class Frame:
    """A step, or one of a region: its arena, and the arrays of its given buffers.

    Attributes:
        given: of each buffer that is given to a region, its array at the trip that runs.
        trip: the number of that, of the body of a scan.
    """

    plan: Schedule
    arena: Array
    given: Mapping[int, Callable[[int], Array]]
    trip: list[int] = field(default_factory=lambda: [0])

    def view(self, number: int) -> Array:
        """The bytes of a buffer as an array of its type."""
        buffer = self.plan.buffers[number]
        if buffer.kind == "given":
            return self.given[buffer.storage](self.trip[0]).reshape(buffer.type.sizes)
        bytes_ = self.arena[buffer.offset : buffer.end]
        return bytes_.view(buffer.type.numpy_dtype).reshape(buffer.type.sizes)

    def bytes_of(self, number: int) -> Array:
        """The same as bytes."""
        return self.view(number).reshape(-1).view(np.uint8)

    def write(self, numbers: Sequence[int], values: Sequence[Array]) -> None:
        for number, value in zip(numbers, values, strict=True):
            self.view(number)[...] = value

    def copies(self, numbers: Sequence[int]) -> list[Array]:
        return [self.view(number).copy() for number in numbers]

    def inside(self, number: int) -> list[Frame]:
        """The frames of an item's regions: their arena is its scratch, and given buffers are the item's."""
        item = self.plan.items[number]
        arena = np.empty(0, np.uint8) if item.scratch is None else self.view(item.scratch)
        return [
            Frame(
                region, arena, {n: partial(self._given, item, region, place) for place, n in enumerate(region.inputs)}
            )
            for region in item.regions
        ]

    def _given(self, item: Item, region: Schedule, place: int, trip: int) -> Array:
        """What a region is given at a trip: a buffer, or rows of it."""
        array, starts = self.view(item.given[place]), item.starts(trip)
        if place not in starts:
            return array
        return array[starts[place] : starts[place] + region.buffers[region.inputs[place]].type.sizes[0]]

    def by_rank(self) -> list[Frame]:
        return [self]


def run_alone(rank: Rank, network: Processes) -> None:
    """The step of a rank in a process of its own. Raises RuntimeFailure: MG0609, a rank is lost; MG0604, ranks choose differently."""
    for number in range(len(rank.frame.plan.items)):
        for request in rank.run(number):
            if isinstance(request, Pending):
                with network.world.doing(partial(str, request.label)):
                    perform(request.launch, request.memory, network)
            else:
                with network.world.doing(partial(str, f"the choice of '{request.item.located()}'")):
                    require_one_way(request.item, network.choices(request.number))


def _is_issued(item: Item) -> bool:
    """The host decides all control flow."""
    return not is_control(item)


def _operands(frame: Frame, item: Item) -> list[Array]:
    """A kernel's operands; copies of those that it overwrites."""
    plan = frame.plan
    is_overwritten = any(n in plan.replaced for n in item.outputs)
    return frame.copies(item.inputs) if is_overwritten else [frame.view(n) for n in item.inputs]


class Rank:
    """A device of the mesh.

    Attributes:
        frame: its step; the arena is poison until inputs and constants are placed.
    """

    def __init__(
        self, plan: Schedule, mesh: Mesh, rank: int, launch: Launch, first_rank: Mapping[str, int] | None = None
    ) -> None:
        """Args: first_rank: as in `Collective`."""
        self.frame = Frame(plan, np.full(plan.arena_bytes, POISON, np.uint8), {})
        self._mesh, self._rank, self._launch, self._first_rank = mesh, rank, launch, first_rank or {}
        self._lowered = IdentityDict[Item, Lowered]()  # an item of a loop runs often

    def run(self, number: int) -> Iterator[Request]:
        """One item of the step, by its number."""
        return follow(code_of(self.frame, _is_issued, [number]), self)

    # --- what control flow needs (`control_flow.Engine`) -----------------------------------------------------------------

    def enter(self, frame: Frame) -> None:
        frame.arena[...] = POISON

    def issue(self, place: int, step: Issue[Frame]) -> Iterator[Request]:
        for number in step.items:
            item = step.frame.plan.items[number]
            with timed(self._mesh.name, self._rank, item):
                if item.is_collective:
                    yield from self._collective(step.frame, item)
                else:
                    self._kernel(step.frame, item)

    def begin_trip(self, frame: Frame, trip: int) -> None:
        frame.trip[0] = trip

    def move(self, place: int, step: Move[Frame]) -> Iterable[Request]:
        step.target.write(step.targets, step.source.copies(step.sources))
        return ()

    def choice(self, step: Choose[Frame]) -> Generator[Request, None, int]:
        number = int(step.frame.view(step.buffer))
        if step.item.communicates:
            yield Choice(step.item, number)
        return number

    # --- items -----------------------------------------------------------------------------------------------------------

    def _kernel(self, frame: Frame, item: Item) -> None:
        types = [frame.plan.buffers[n].type for n in item.outputs]
        frame.write(item.outputs, self._launch(item.kernel, self._rank, _operands(frame, item), types))

    def _collective(self, frame: Frame, item: Item) -> Iterator[Request]:
        memory = {BufferRef("operand", place): frame.bytes_of(n) for place, n in enumerate(item.inputs)}
        for place, number in enumerate(item.outputs):
            if item.op not in OVERWRITING:  # these write all of their result, which may be their operand
                frame.view(number)[...] = poison(frame.plan.buffers[number].type.dtype)
            memory[BufferRef("result", place)] = frame.bytes_of(number)
        if item.scratch is not None:
            memory[SCRATCH] = frame.bytes_of(item.scratch)
            memory[SCRATCH][...] = POISON
        buffers = HostBuffers(memory)
        for launch in launches(self._steps(frame, item), buffers):
            yield Pending(launch, buffers, item.located(axes_of(launch)))

    def _steps(self, frame: Frame, item: Item) -> Lowered:
        if (lowered := self._lowered.get(item)) is None:
            lowered = self._lowered[item] = lower(frame.plan.collective(item, self._mesh, self._first_rank), self._rank)
        return lowered
