"""A step or region prepared for devices: the addresses of its buffers, and the launches of its items.

Addresses do not change between steps, so launches and their parameters are prepared only once.
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
    """A step or region prepared for a set of ranks.

    Attributes:
        path: position of a region in the step: for each nesting level, the index of the item and the index of the
            region in this item. Empty for a step.
        ranks: global ranks that run the frame. The address maps also contain the other ranks of the mesh.
        arenas: address of the arena on each rank.
        given: buffer of a region that aliases a buffer of the enclosing item -> its addresses.
        external: storage outside of the arena -> its addresses. These are persistent inputs, and results that alias
            them.
        launches: item -> rank -> launch of the kernel.
        works: item -> rank -> lowered steps of the collective.
        regions: item -> frames of its regions. A scan has one frame of its body per iteration.
        calls: list of items -> driver calls that issue them. A cache that only a step uses, not a region.
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

    def address(self, index: int, rank: int) -> int:
        """Return the address of buffer `index` on a rank."""
        buffer = self.plan.buffers[index]
        if buffer.storage in self.external:
            return self.external[buffer.storage][rank] + buffer.offset - self.plan.buffers[buffer.storage].offset
        return self.given[buffer.storage][rank] if buffer.kind == "given" else self.arenas[rank] + buffer.offset

    def addresses(self, buffer: int) -> Addresses:
        return {rank: self.address(buffer, rank) for rank in self.arenas}

    def inside(self, number: int) -> tuple[Frame, ...]:
        return self.regions[number]

    def by_rank(self) -> list[Frame]:
        return [self] if len(self.ranks) == 1 else [self._alone(rank) for rank in self.ranks]

    def _alone(self, rank: int) -> Frame:
        regions = {
            item_index: tuple(region._alone(rank) for region in frames) for item_index, frames in self.regions.items()
        }
        return replace(self, ranks=(rank,), regions=regions, calls={})


class FrameMaker:
    """A factory that prepares the frames of a mesh's steps."""

    def __init__(
        self, mesh: Mesh, firsts: Mapping[str, int], devices: Mapping[int, Device], launcher: Launcher
    ) -> None:
        """`firsts` has the global rank of each mesh's first device, and `devices` the device of each rank."""
        self._mesh, self._firsts, self._devices, self._launcher = mesh, firsts, devices, launcher

    @property
    def _first(self) -> int:
        return self._firsts[self._mesh.name]

    def frame(self, plan: Schedule, arenas: Addresses, inputs_at: Mapping[int, Addresses] | None = None) -> Frame:
        """Return the frame of an entire step.

        Args:
            inputs_at: addresses of input buffers outside of the arenas.
        Raises:
            MissingError: MG0602, a kernel has no code for the device.
        """
        return self._prepare(
            Frame((), plan, tuple(arenas), arenas, {}, external=external_storages(plan, inputs_at or {}))
        )

    def _prepare(self, frame: Frame) -> Frame:
        for item_index, item in enumerate(frame.plan.items):
            if is_control(item):
                frame.regions[item_index] = self._regions(frame, item_index, item)
            elif item.is_collective:
                frame.works[item_index] = {rank: self._work(frame, item, rank) for rank in frame.ranks}
            else:
                frame.launches[item_index] = {rank: self._launch(frame, item, rank) for rank in frame.ranks}
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

    def _regions(self, frame: Frame, item_index: int, item: Item) -> tuple[Frame, ...]:
        arenas = dict.fromkeys(frame.ranks, 0) if item.scratch is None else frame.addresses(item.scratch)
        frames: list[Frame] = []
        for region_index, plan in enumerate(item.regions):
            for iteration in range(item.times if is_scan(item) else 1):
                passed_addresses = _passed_addresses(frame, item, plan, iteration)
                frames.append(
                    self._prepare(
                        Frame((*frame.path, item_index, region_index), plan, frame.ranks, arenas, passed_addresses)
                    )
                )
        return tuple(frames)


def _passed_addresses(frame: Frame, item: Item, plan: Schedule, iteration: int) -> dict[int, Addresses]:
    """Return the addresses of the buffers that an item passes to a region.

    For an operand that a scan slices, this is the address of the iteration's row.
    """
    starts, region_addresses = item.starts(iteration), dict[int, Addresses]()
    for position, (inner, outer) in enumerate(zip(plan.inputs, item.given, strict=True)):
        tensor_type = frame.plan.buffers[outer].type
        offset = starts[position] * (tensor_type.nbytes // tensor_type.sizes[0]) if position in starts else 0
        region_addresses[inner] = {rank: address + offset for rank, address in frame.addresses(outer).items()}
    return region_addresses


def axes_of(plan: Schedule, mesh: Mesh, firsts: Mapping[str, int]) -> set[tuple[str, ...]]:
    """Return the mesh axes of all NCCL calls in a step. They are equal on every rank."""
    axes: set[tuple[str, ...]] = set()
    for item in plan.items:
        if item.is_collective:
            steps = lower(plan.collective(item, mesh, firsts), 0).steps
            axes |= {step.axes for step in steps if isinstance(step, Group)}
    return axes.union(*(axes_of(region, mesh, firsts) for item in plan.items for region in item.regions))


def external_storages(plan: Schedule, inputs_at: Mapping[int, Addresses]) -> dict[int, Addresses]:
    """Return a map from each storage outside of the arena to its addresses.

    These are the storages of the inputs in `inputs_at`, and of the outputs that alias these inputs.
    """
    external = {plan.buffers[buffer].storage: addresses for buffer, addresses in inputs_at.items()}
    return external | {
        result: external[argument] for argument, result in plan.overwritten_inputs.items() if argument in external
    }


def arena_begin(plan: Schedule, inputs_at: Mapping[int, Addresses]) -> int:
    """Return the offset of the first used byte of the arena, if the inputs in `inputs_at` are stored elsewhere."""
    outside = external_storages(plan, inputs_at)
    inside = [b.offset for n, b in enumerate(plan.buffers) if b.storage == n and n not in outside and b.type.nbytes]
    return min(inside, default=plan.arena_bytes)
