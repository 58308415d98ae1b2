"""A step, or one of a region, prepared for devices: addresses of its buffers, and the launches of its items.

Addresses do not change between steps, so launches are prepared once, with their parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from meshgen.ccl.lower import lower
from meshgen.ccl.steps import BufferRef, Group
from meshgen.ir.predicates import is_control, is_scan
from meshgen.mesh import Mesh
from meshgen.runtime.cuda.code import Launcher
from meshgen.runtime.cuda.collectives import RankWork
from meshgen.runtime.cuda.device import Device, Launch
from meshgen.runtime.plan import Item, Schedule

Addresses = Mapping[int, int]  # by rank
Call = Callable[[], None]


@dataclass(frozen=True)
class Frame:
    """A step on some ranks.

    Attributes:
        path: of a region, the numbers of its item and of itself in that, from the whole step on.
        ranks: that run it, in the world of all meshes; the addresses are those of all ranks of its mesh.
        arenas, given: addresses of the arena, and of each buffer that is given to a region.
        external: addresses of storages outside of the arena: inputs that stay between steps, and the results written over them.
        launches, works: by item, the launch of a kernel and the work of a collective on each rank.
        regions: by item, the frames of its regions; of a scan, those of its body at each trip.
        calls: what issues items of a whole step, once they have run.
    """

    path: tuple[int, ...]
    plan: Schedule
    ranks: tuple[int, ...]
    arenas: Addresses
    given: Mapping[int, Addresses]
    launches: dict[int, dict[int, Launch | None]] = field(default_factory=dict[int, dict[int, Launch | None]])
    works: dict[int, dict[int, RankWork]] = field(default_factory=dict[int, dict[int, RankWork]])
    regions: dict[int, tuple[Frame, ...]] = field(default_factory=dict[int, tuple["Frame", ...]])
    external: Mapping[int, Addresses] = field(default_factory=dict[int, Addresses])
    calls: dict[tuple[int, ...], list[Call]] = field(default_factory=dict[tuple[int, ...], list["Call"]])

    def address(self, number: int, rank: int) -> int:
        """The address of a buffer on a rank."""
        buffer = self.plan.buffers[number]
        if buffer.storage in self.external:
            return self.external[buffer.storage][rank] + buffer.offset - self.plan.buffers[buffer.storage].offset
        return self.given[buffer.storage][rank] if buffer.kind == "given" else self.arenas[rank] + buffer.offset

    def addresses(self, number: int) -> Addresses:
        return {rank: self.address(number, rank) for rank in self.arenas}

    def inside(self, number: int) -> tuple[Frame, ...]:
        return self.regions[number]

    def by_rank(self) -> list[Frame]:
        return [self] if len(self.ranks) == 1 else [self._alone(rank) for rank in self.ranks]

    def _alone(self, rank: int) -> Frame:
        regions = {number: tuple(each._alone(rank) for each in frames) for number, frames in self.regions.items()}
        return replace(self, ranks=(rank,), regions=regions, calls={})


class FrameMaker:
    """Makes frames for all ranks of a mesh."""

    def __init__(
        self, mesh: Mesh, firsts: Mapping[str, int], devices: Mapping[int, Device], launcher: Launcher
    ) -> None:
        """`firsts`: rank in the world of the first device of each mesh; `devices`: by rank."""
        self._mesh, self._firsts, self._devices, self._launcher = mesh, firsts, devices, launcher

    @property
    def _first(self) -> int:
        return self._firsts[self._mesh.name]

    def frame(self, plan: Schedule, arenas: Addresses, inputs_at: Mapping[int, Addresses] | None = None) -> Frame:
        """The whole step. Raises MissingError MG0602: a kernel has no code for the device.

        Args:
            inputs_at: addresses of input buffers outside of the arenas.
        """
        return self._prepared(
            Frame((), plan, tuple(arenas), arenas, {}, external=external_storages(plan, inputs_at or {}))
        )

    def _prepared(self, frame: Frame) -> Frame:
        for number, item in enumerate(frame.plan.items):
            if is_control(item):
                frame.regions[number] = self._regions(frame, number, item)
            elif item.is_collective:
                frame.works[number] = {rank: self._work(frame, item, rank) for rank in frame.ranks}
            else:
                frame.launches[number] = {rank: self._launch(frame, item, rank) for rank in frame.ranks}
        return frame

    def _launch(self, frame: Frame, item: Item, rank: int) -> Launch | None:
        addresses = [frame.address(n, rank) for n in (*item.inputs, *item.outputs)]
        return self._launcher.launch(self._devices[rank], rank - self._first, item, frame.plan, addresses)

    def _work(self, frame: Frame, item: Item, rank: int) -> RankWork:
        device = self._devices[rank]
        lowered = lower(frame.plan.collective(item, self._mesh, self._firsts), rank - self._first)

        def start_of(ref: BufferRef) -> int:
            if ref.kind == "scratch":
                assert item.scratch is not None, "what packs has scratch"
                return frame.address(item.scratch, rank)
            return frame.address((item.inputs if ref.kind == "operand" else item.outputs)[ref.number], rank)

        return RankWork(device, device.streams[item.stream], lowered, start_of)

    def _regions(self, frame: Frame, number: int, item: Item) -> tuple[Frame, ...]:
        arenas = dict.fromkeys(frame.ranks, 0) if item.scratch is None else frame.addresses(item.scratch)
        found: list[Frame] = []
        for place, plan in enumerate(item.regions):
            for trip in range(item.times if is_scan(item) else 1):
                given = _given(frame, item, plan, trip)
                found.append(self._prepared(Frame((*frame.path, number, place), plan, frame.ranks, arenas, given)))
        return tuple(found)


def _given(frame: Frame, item: Item, plan: Schedule, trip: int) -> dict[int, Addresses]:
    """The addresses of what a region is given at a trip: of buffers, or of rows of them."""
    starts, found = item.starts(trip), dict[int, Addresses]()
    for place, (own, other) in enumerate(zip(plan.inputs, item.given, strict=True)):
        kind = frame.plan.buffers[other].type
        offset = starts[place] * (kind.nbytes // kind.sizes[0]) if place in starts else 0
        found[own] = {rank: address + offset for rank, address in frame.addresses(other).items()}
    return found


def axes_of(plan: Schedule, mesh: Mesh, firsts: Mapping[str, int]) -> set[tuple[str, ...]]:
    """The axes of all calls of NCCL in a step: every rank has the same ones."""
    found: set[tuple[str, ...]] = set()
    for item in plan.items:
        if item.is_collective:
            steps = lower(plan.collective(item, mesh, firsts), 0).steps
            found |= {step.axes for step in steps if isinstance(step, Group)}
    return found.union(*(axes_of(region, mesh, firsts) for item in plan.items for region in item.regions))


def external_storages(plan: Schedule, inputs_at: Mapping[int, Addresses]) -> dict[int, Addresses]:
    """The storages of these inputs, and those of the outputs that are written over them."""
    found = {plan.buffers[number].storage: addresses for number, addresses in inputs_at.items()}
    return found | {other: found[own] for own, other in plan.given_up.items() if own in found}


def arena_begin(plan: Schedule, inputs_at: Mapping[int, Addresses]) -> int:
    """The first used byte of the arena if these inputs are outside of it."""
    outside = external_storages(plan, inputs_at)
    inside = [b.offset for n, b in enumerate(plan.buffers) if b.storage == n and n not in outside and b.type.nbytes]
    return min(inside, default=plan.arena_bytes)
