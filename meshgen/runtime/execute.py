"""Execution of one rank's step on the host.

Kernels, lowered collectives and control flow read and write the rank's arena.

A rank runs until it communicates, and then yields the communication to the owner of the transport: all ranks in one
process (`reference.py`), or separate processes. Undefined results and the scratch of collectives are filled with
poison.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from meshgen.ccl.host import HostBuffers
from meshgen.ccl.local_transport import Pending
from meshgen.ccl.lower import lower
from meshgen.ccl.process_transport import Processes
from meshgen.ccl.steps import SCRATCH, BufferRef, Lowered
from meshgen.ccl.transport import axes_of, launches, perform
from meshgen.identity_dict import IdentityDict
from meshgen.ir.predicates import is_control
from meshgen.mesh import Mesh
from meshgen.ops.classes import OVERWRITING
from meshgen.ops.evaluate.common import poison
from meshgen.runtime.control_flow import Choose, Issue, Move, code_of, follow, require_equal_choices
from meshgen.runtime.launch import POISON, Launch
from meshgen.runtime.plan import Item, Schedule
from meshgen.runtime.recording import timed

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Choice:
    """The request of a rank that has reached control flow with communication: the branch that it takes.

    All ranks must take the same branch, because they would deadlock otherwise.
    """

    item: Item
    number: int


# a step that a rank cannot run alone: a communicating step, or a branch decision
Request: TypeAlias = Pending | Choice


@dataclass(frozen=True)
class Frame:
    """A step or region on one rank: its arena, and the arrays that the enclosing item passes to a region.

    Attributes:
        given: buffer that is passed to a region -> function that returns its array for an iteration.
        trip: the current iteration of a scan's body, in a list of one element.
    """

    plan: Schedule
    arena: Array
    given: Mapping[int, Callable[[int], Array]]
    trip: list[int] = field(default_factory=lambda: [0])

    def view(self, number: int) -> Array:
        """Return the array of buffer `number`."""
        buffer = self.plan.buffers[number]
        if buffer.kind == "given":
            return self.given[buffer.storage](self.trip[0]).reshape(buffer.type.sizes)
        bytes_ = self.arena[buffer.offset : buffer.end]
        return bytes_.view(buffer.type.numpy_dtype).reshape(buffer.type.sizes)

    def bytes_of(self, number: int) -> Array:
        """Return the bytes of buffer `number`."""
        return self.view(number).reshape(-1).view(np.uint8)

    def write(self, numbers: Sequence[int], values: Sequence[Array]) -> None:
        for number, value in zip(numbers, values, strict=True):
            self.view(number)[...] = value

    def copies(self, numbers: Sequence[int]) -> list[Array]:
        return [self.view(number).copy() for number in numbers]

    def inside(self, number: int) -> list[Frame]:
        """Return the frames of the regions of item `number`, whose arena is the item's scratch."""
        item = self.plan.items[number]
        arena = np.empty(0, np.uint8) if item.scratch is None else self.view(item.scratch)
        return [
            Frame(
                region,
                arena,
                {buffer: partial(self._given, item, region, position) for position, buffer in enumerate(region.inputs)},
            )
            for region in item.regions
        ]

    def _given(self, item: Item, region: Schedule, position: int, iteration: int) -> Array:
        """Return the array for input `position` of a region at an iteration: a buffer of this frame, or some rows of it."""
        array, starts = self.view(item.given[position]), item.starts(iteration)
        if position not in starts:
            return array
        return array[starts[position] : starts[position] + region.buffers[region.inputs[position]].type.sizes[0]]

    def by_rank(self) -> list[Frame]:
        return [self]


def run_alone(rank: Rank, network: Processes) -> None:
    """Run a step of the one rank that this process runs.

    Raises:
        RuntimeFailure: MG0609, a rank is lost.

    MG0604, ranks choose different branches.
    """
    for number in range(len(rank.frame.plan.items)):
        for request in rank.run(number):
            if isinstance(request, Pending):
                with network.world.doing(partial(str, request.label)):
                    perform(request.launch, request.memory, network)
            else:
                with network.world.doing(partial(str, f"the choice of '{request.item.located()}'")):
                    require_equal_choices(request.item, network.choices(request.number))


def _is_issued(item: Item) -> bool:
    """Whether `item` runs without a decision of the host. The host decides all control flow."""
    return not is_control(item)


def _operands(frame: Frame, item: Item) -> list[Array]:
    """Return the operands of a kernel, as copies if the kernel overwrites one of them."""
    plan = frame.plan
    is_overwritten = any(n in plan.replaced for n in item.outputs)
    return frame.copies(item.inputs) if is_overwritten else [frame.view(n) for n in item.inputs]


class Rank:
    """A simulated device of the mesh.

    Attributes:
        frame: the step with its arena, which is filled with poison until inputs and constants are written.
    """

    def __init__(
        self, plan: Schedule, mesh: Mesh, rank: int, launch: Launch, first_rank: Mapping[str, int] | None = None
    ) -> None:
        """Allocate the arena of rank `rank` of `mesh`.

        Args:
            launch: function that runs a kernel. first_rank: see `Collective`.
        """
        self.frame = Frame(plan, np.full(plan.arena_bytes, POISON, np.uint8), {})
        self._mesh, self._rank, self._launch, self._first_rank = mesh, rank, launch, first_rank or {}
        self._lowered = IdentityDict[Item, Lowered]()  # a cache, since an item of a loop runs often

    def run(self, number: int) -> Iterator[Request]:
        """Run item `number` of the step, and yield a request whenever the item needs other ranks."""
        return follow(code_of(self.frame, _is_issued, [number]), self)

    # --- methods of `control_flow.Engine`
    # ------------------------------------------------------------------------------------

    def enter(self, frame: Frame) -> None:
        frame.arena[...] = POISON

    def issue(self, position: int, step: Issue[Frame]) -> Iterator[Request]:
        for number in step.items:
            item = step.frame.plan.items[number]
            with timed(self._mesh.name, self._rank, item):
                if item.is_collective:
                    yield from self._collective(step.frame, item)
                else:
                    self._kernel(step.frame, item)

    def begin_iteration(self, frame: Frame, trip: int) -> None:
        frame.trip[0] = trip

    def move(self, position: int, step: Move[Frame]) -> Iterable[Request]:
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
        memory = {BufferRef("operand", position): frame.bytes_of(n) for position, n in enumerate(item.inputs)}
        for position, number in enumerate(item.outputs):
            # OVERWRITING ops write their entire result, which may share bytes with the operand.
            if item.op not in OVERWRITING:
                frame.view(number)[...] = poison(frame.plan.buffers[number].type.dtype)
            memory[BufferRef("result", position)] = frame.bytes_of(number)
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
