"""Lowering of a plan's control flow to jumps between device work, shared by all engines and the C loader.

    %r = while (%x) condition body      becomes

    0  Only(its ranks, else 9)      5  Enter(body)
    1  Move(%x -> %r)               6  Issue(items of body)
    2  Enter(condition)             7  Move(results of body -> %r)
    3  Issue(items of condition)    8  Jump(2)
    4  Choose(its result: 9, 5)     9

Consecutive items that an engine can issue without a decision of the host form one `Issue`. Each rank runs control flow
independently if it contains no communication.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from meshgen.errors import Diagnostic, RuntimeFailure, bracketed
from meshgen.ir.predicates import is_control, is_if, is_loop, is_scan
from meshgen.runtime.plan import Item, Schedule

# a condition that an engine yields and that must hold before the engine continues
Request = TypeVar("Request", covariant=True)
SameFrame = TypeVar("SameFrame", bound="Frame")
F = TypeVar("F", bound="Frame")
Numbers: TypeAlias = tuple[int, ...]  # indices of items or buffers of a plan


class Frame(Protocol):
    """A step or region, with the addresses or arrays of its buffers on some ranks."""

    @property
    def plan(self) -> Schedule: ...

    def inside(self: SameFrame, number: int) -> Sequence[SameFrame]:
        """Return the frames of the regions of control-flow item `number`, in order."""
        ...

    def by_rank(self: SameFrame) -> Sequence[SameFrame]:
        """Return one frame per rank, each with the buffers of this rank only."""
        ...


@dataclass(frozen=True, eq=False)
class Enter(Generic[F]):
    """The start of a region. The contents of the region's arena become undefined."""

    frame: F


@dataclass(frozen=True, eq=False)
class Issue(Generic[F]):
    """The start of several items of a frame, in order."""

    frame: F
    items: Numbers


@dataclass(frozen=True, eq=False)
class Move(Generic[F]):
    """A parallel copy from buffers of one frame to buffers of another, for carried values and results of regions."""

    source: F
    sources: Numbers
    target: F
    targets: Numbers


@dataclass(eq=False)
class Choose(Generic[F]):
    """A jump to `targets[i]`, where i is the value of `buffer`. An i out of range selects the last target."""

    item: Item
    frame: F
    buffer: int
    targets: Numbers = ()


@dataclass(eq=False)
class Trip(Generic[F]):
    """Start the next iteration of a scan, or jump to `target` after the last iteration."""

    item: Item
    frame: F
    target: int = 0


@dataclass(eq=False)
class Jump:
    target: int


@dataclass(eq=False)
class Only(Generic[F]):
    """A marker: only the ranks of `frame` run the instructions up to `target`."""

    frame: F
    target: int = 0


Instruction: TypeAlias = Enter[F] | Issue[F] | Move[F] | Choose[F] | Trip[F] | Jump | Only[F]


class Engine(Protocol[F, Request]):
    """The interface that executes instructions on the devices of some ranks.

    `follow` calls it.

    `position` is the index of the instruction in the code.
    """

    def enter(self, frame: F) -> None: ...
    def issue(self, position: int, step: Issue[F]) -> Iterable[Request]: ...
    def move(self, position: int, step: Move[F]) -> Iterable[Request]: ...
    def begin_iteration(self, frame: F, trip: int) -> None:
        """Make the body of a scan use the rows of iteration `trip` from now on."""
        ...

    def choice(self, step: Choose[F]) -> Generator[Request, None, int]:
        """Return the value by which a `Choose` selects its target.

        Raises:
            RuntimeFailure: MG0604, ranks that communicate have different values.
        """
        ...


def follow(code: Sequence[Instruction[F]], engine: Engine[F, Request]) -> Iterator[Request]:
    """Run the instructions from first to last, with jumps, and yield the conditions for which the engine waits."""
    next_index, iterations = 0, dict[int, int]()  # index of the `Trip` instruction of a scan -> next iteration
    while next_index < len(code):
        index, next_index = next_index, next_index + 1
        match code[index]:
            case Enter() as step:
                engine.enter(step.frame)
            case Issue() as step:
                yield from engine.issue(index, step)
            case Move() as step:
                yield from engine.move(index, step)
            case Choose() as step:
                choice = yield from engine.choice(step)
                next_index = step.targets[choice if 0 <= choice < len(step.targets) else -1]
            case Trip(item, frame, target):
                iteration = iterations.pop(index, 0)
                if iteration < item.times:
                    iterations[index] = iteration + 1
                    engine.begin_iteration(frame, iteration)
                else:
                    next_index = target
            case Jump(target):
                next_index = target
            case Only():
                pass  # nothing to do: an engine runs at least one rank of each of its frames


def require_equal_choices(item: Item, choices: Sequence[int | None]) -> None:
    """Raise RuntimeFailure MG0604 if ranks choose different branches of `item`, whose branches communicate.

    The ranks would deadlock.

    Args:
        choices: the choice of each rank, or None for ranks of other processes.
    """
    if len(set(choices)) > 1:
        text = f"'{item.op}' holds collectives, but the ranks choose differently: {[*choices]}; they would deadlock"
        raise RuntimeFailure(Diagnostic("MG0604", text + bracketed(item.source)))


def code_of(
    frame: F, is_issued: Callable[[Item], bool], items: Sequence[int] | None = None
) -> Sequence[Instruction[F]]:
    """Return the instructions that run the items of a step.

    Args:
        is_issued: whether the engine can issue an item without a decision of the host.
        items: indices of the items to run; default: all items.
    """
    writer = _InstructionWriter[F](is_issued)
    writer.put_items(frame, range(len(frame.plan.items)) if items is None else items)
    return writer.code


def carried(frame: F, item: Item) -> Move[F]:
    """Return the copies of a loop's operands to its results, whose buffers hold the carried values during the loop.

    If a scan writes all rows of a stacked result before it reads them, the initial value of this result is not copied.
    """
    copied = [n for n in range(len(item.outputs)) if not _is_filled(frame.plan, item, n)]
    return Move(frame, tuple(item.inputs[n] for n in copied), frame, tuple(item.outputs[n] for n in copied))


def _is_filled(plan: Schedule, item: Item, result: int) -> bool:
    """Whether a scan writes all rows of result `result`, and reads no row before it is written."""
    if result not in item.starts(0):
        return False
    (body,) = item.regions
    buffer, step = body.inputs[result], item.attrs.steps[result][1]
    count, size = (
        buffer_type.sizes[0] for buffer_type in (body.buffers[buffer].type, plan.buffers[item.outputs[result]].type)
    )
    if item.times * count != size or (item.times > 1 and abs(step) != count):
        return False
    for inner in body.items:
        if any(body.buffers[n].storage == buffer for n in inner.inputs):
            return False
        if any(body.buffers[n].storage == buffer for n in inner.writes):
            return True
    return all(body.buffers[n].storage != buffer for n in body.outputs)


def from_region_dtype(frame: F, item: Item, region: F) -> Move[F]:
    """Return the copies that run after a region: its results to the results of the item that contains it.

    For the body of a scan, the targets are its own inputs: the carried values, or the rows of the iteration. A result
    that shares the storage of its input needs no copy.
    """
    if not is_scan(item):
        return Move(region, region.plan.outputs, frame, item.outputs)
    plan = region.plan
    pairs = [
        (n, carried)
        for n, carried in zip(plan.outputs, plan.inputs, strict=False)
        if plan.buffers[n].storage != carried
    ]
    return Move(region, tuple(n for n, _ in pairs), region, tuple(carried for _, carried in pairs))


class _InstructionWriter(Generic[F]):
    def __init__(self, is_issued: Callable[[Item], bool]) -> None:
        self.code: list[Instruction[F]] = []
        self._is_issued = is_issued

    def put_items(self, frame: F, items: Iterable[int]) -> None:
        issued: list[int] = []
        for number in items:
            if self._is_issued(frame.plan.items[number]):
                issued.append(number)
                continue
            self._put_issue(frame, issued)
            issued = []
            self._put_control(frame, number)
        self._put_issue(frame, issued)

    def _put_issue(self, frame: F, items: Sequence[int]) -> None:
        if items:
            self.code.append(Issue(frame, tuple(items)))

    def _put_control(self, frame: F, number: int) -> None:
        item = frame.plan.items[number]
        assert is_control(item), f"'{item.op}' needs no decision"
        for rank_frame in [frame] if item.communicates else frame.by_rank():
            only = Only(rank_frame)
            self.code.append(only)
            put = self._put_loop if is_loop(item) else self._put_scan if is_scan(item) else self._put_branch
            put(rank_frame, item, rank_frame.inside(number))
            only.target = len(self.code)

    def _put_loop(self, frame: F, item: Item, regions: Sequence[F]) -> None:
        condition, body = regions
        self.code.append(carried(frame, item))
        top = len(self.code)
        self._put_region(condition)
        choose = Choose(item, condition, condition.plan.outputs[0])
        self.code.append(choose)
        first = len(self.code)
        self._put_region(body)
        self.code += [from_region_dtype(frame, item, body), Jump(top)]
        choose.targets = (len(self.code), first)

    def _put_scan(self, frame: F, item: Item, regions: Sequence[F]) -> None:
        (body,) = regions
        self.code.append(carried(frame, item))
        top, trip = len(self.code), Trip(item, body)
        self.code.append(trip)
        self._put_region(body)
        self.code += [from_region_dtype(frame, item, body), Jump(top)]
        trip.target = len(self.code)

    def _put_branch(self, frame: F, item: Item, regions: Sequence[F]) -> None:
        """Emit an `if` or `case`. The regions of an `if` are reversed: its first region is for choice 1."""
        choose = Choose(item, frame, item.inputs[0])
        self.code.append(choose)
        ends: list[Jump] = []
        targets: list[int] = []
        for region in reversed(regions) if is_if(item) else regions:
            targets.append(len(self.code))
            self._put_region(region)
            ends.append(Jump(0))
            self.code += [from_region_dtype(frame, item, region), ends[-1]]
        choose.targets = tuple(targets)
        for end in ends:
            end.target = len(self.code)

    def _put_region(self, region: F) -> None:
        self.code.append(Enter(region))
        self.put_items(region, range(len(region.plan.items)))
