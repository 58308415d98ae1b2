"""Control flow of a plan lowered to jumps between device work, shared by all engines and the C loader.

    %r = while (%x) condition body      becomes

    0  Only(its ranks, else 9)      5  Enter(body)
    1  Move(%x -> %r)               6  Issue(items of body)
    2  Enter(condition)             7  Move(results of body -> %r)
    3  Issue(items of condition)    8  Jump(2)
    4  Choose(its result: 9, 5)     9

Items that an engine can issue without the host's decision form one `Issue`. Where control flow does not communicate,
every rank follows it independently.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from meshgen.errors import Diagnostic, RuntimeFailure, bracketed
from meshgen.ir.predicates import is_control, is_if, is_loop, is_scan
from meshgen.runtime.plan import Item, Schedule

Request = TypeVar("Request", covariant=True)  # the condition that an engine waits for before it goes on
Own = TypeVar("Own", bound="Frame")
F = TypeVar("F", bound="Frame")
Numbers: TypeAlias = tuple[int, ...]  # of items or buffers of a plan


class Frame(Protocol):
    """A step, or one of a region, with its buffers on some ranks."""

    @property
    def plan(self) -> Schedule: ...

    def inside(self: Own, number: int) -> Sequence[Own]:
        """The regions of an item."""
        ...

    def by_rank(self: Own) -> Sequence[Own]:
        """The same step on each rank by itself."""
        ...


@dataclass(frozen=True, eq=False)
class Enter(Generic[F]):
    """A region begins; its arena is undefined."""

    frame: F


@dataclass(frozen=True, eq=False)
class Issue(Generic[F]):
    """Items of a step in their order."""

    frame: F
    items: Numbers


@dataclass(frozen=True, eq=False)
class Move(Generic[F]):
    """Parallel copies of buffers of one step to another: carried values, and yields of a region."""

    source: F
    sources: Numbers
    target: F
    targets: Numbers


@dataclass(eq=False)
class Choose(Generic[F]):
    """A jump by the element of a buffer of `frame`: by its number, or to the last target for numbers beyond."""

    item: Item
    frame: F
    buffer: int
    targets: Numbers = ()


@dataclass(eq=False)
class Trip(Generic[F]):
    """The next trip of a scan begins; after the last one, a jump."""

    item: Item
    frame: F
    target: int = 0


@dataclass(eq=False)
class Jump:
    target: int


@dataclass(eq=False)
class Only(Generic[F]):
    """The instructions up to the target are for the ranks of a frame only."""

    frame: F
    target: int = 0


Instruction: TypeAlias = Enter[F] | Issue[F] | Move[F] | Choose[F] | Trip[F] | Jump | Only[F]


class Engine(Protocol[F, Request]):
    """The interface of control flow to the devices of some ranks. `place`: the number of the instruction."""

    def enter(self, frame: F) -> None: ...
    def issue(self, place: int, step: Issue[F]) -> Iterable[Request]: ...
    def move(self, place: int, step: Move[F]) -> Iterable[Request]: ...
    def begin_trip(self, frame: F, trip: int) -> None:
        """The body of a scan is given the rows of a trip from now on."""
        ...

    def choice(self, step: Choose[F]) -> Generator[Request, None, int]:
        """The number to jump by. Raises RuntimeFailure MG0604 where ranks that communicate have different ones."""
        ...


def follow(code: Sequence[Instruction[F]], engine: Engine[F, Request]) -> Iterator[Request]:
    """Run the instructions from first to last; yields the conditions that the engine waits for."""
    place, trips = 0, dict[int, int]()  # by the place of the scan
    while place < len(code):
        here, place = place, place + 1
        match code[here]:
            case Enter() as step:
                engine.enter(step.frame)
            case Issue() as step:
                yield from engine.issue(here, step)
            case Move() as step:
                yield from engine.move(here, step)
            case Choose() as step:
                chosen = yield from engine.choice(step)
                place = step.targets[chosen if 0 <= chosen < len(step.targets) else -1]
            case Trip(item, frame, target):
                trip = trips.pop(here, 0)
                if trip < item.times:
                    trips[here] = trip + 1
                    engine.begin_trip(frame, trip)
                else:
                    place = target
            case Jump(target):
                place = target
            case Only():
                pass  # an engine has ranks of all its frames


def require_one_way(item: Item, choices: Sequence[int | None]) -> None:
    """Raise RuntimeFailure MG0604 where ranks take different branches around collectives: they would deadlock.

    `choices`: of the ranks; None: not on this process.
    """
    if len(set(choices)) > 1:
        text = f"'{item.op}' holds collectives, but the ranks choose differently: {[*choices]}; they would deadlock"
        raise RuntimeFailure(Diagnostic("MG0604", text + bracketed(item.source)))


def code_of(
    frame: F, is_issued: Callable[[Item], bool], items: Sequence[int] | None = None
) -> Sequence[Instruction[F]]:
    """The instructions of a step, or of some of its items.

    Args:
        is_issued: whether an engine issues an item without the host's decision.
    """
    writer = _InstructionWriter[F](is_issued)
    writer.put_items(frame, range(len(frame.plan.items)) if items is None else items)
    return writer.code


def carried(frame: F, item: Item) -> Move[F]:
    """The results of a loop hold its carried values: before its first trip, its operands.

    A stack of which a scan writes all rows before it reads them needs none.
    """
    places = [n for n in range(len(item.outputs)) if not _is_filled(frame.plan, item, n)]
    return Move(frame, tuple(item.inputs[n] for n in places), frame, tuple(item.outputs[n] for n in places))


def _is_filled(plan: Schedule, item: Item, place: int) -> bool:
    """Whether a scan writes all rows of a result, none of which it reads before."""
    if place not in item.starts(0):
        return False
    (body,) = item.regions
    own, step = body.inputs[place], item.attrs.steps[place][1]
    count, size = (kind.sizes[0] for kind in (body.buffers[own].type, plan.buffers[item.outputs[place]].type))
    if item.times * count != size or (item.times > 1 and abs(step) != count):
        return False
    for inner in body.items:
        if any(body.buffers[n].storage == own for n in inner.inputs):
            return False
        if any(body.buffers[n].storage == own for n in inner.writes):
            return True
    return all(body.buffers[n].storage != own for n in body.outputs)


def given_back(frame: F, item: Item, region: F) -> Move[F]:
    """The results of a region become those of its item; those of a scan's body are in place already, or go to the rows of the trip."""
    if not is_scan(item):
        return Move(region, region.plan.outputs, frame, item.outputs)
    plan = region.plan
    moved = [(n, own) for n, own in zip(plan.outputs, plan.inputs, strict=False) if plan.buffers[n].storage != own]
    return Move(region, tuple(n for n, _ in moved), region, tuple(own for _, own in moved))


class _InstructionWriter(Generic[F]):
    def __init__(self, is_issued: Callable[[Item], bool]) -> None:
        self.code: list[Instruction[F]] = []
        self._is_issued = is_issued

    def put_items(self, frame: F, items: Iterable[int]) -> None:
        together: list[int] = []
        for number in items:
            if self._is_issued(frame.plan.items[number]):
                together.append(number)
                continue
            self._put_issue(frame, together)
            together = []
            self._put_control(frame, number)
        self._put_issue(frame, together)

    def _put_issue(self, frame: F, items: Sequence[int]) -> None:
        if items:
            self.code.append(Issue(frame, tuple(items)))

    def _put_control(self, frame: F, number: int) -> None:
        item = frame.plan.items[number]
        assert is_control(item), f"'{item.op}' needs no decision"
        for own in [frame] if item.communicates else frame.by_rank():
            only = Only(own)
            self.code.append(only)
            put = self._put_loop if is_loop(item) else self._put_scan if is_scan(item) else self._put_branch
            put(own, item, own.inside(number))
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
        self.code += [given_back(frame, item, body), Jump(top)]
        choose.targets = (len(self.code), first)

    def _put_scan(self, frame: F, item: Item, regions: Sequence[F]) -> None:
        (body,) = regions
        self.code.append(carried(frame, item))
        top, trip = len(self.code), Trip(item, body)
        self.code.append(trip)
        self._put_region(body)
        self.code += [given_back(frame, item, body), Jump(top)]
        trip.target = len(self.code)

    def _put_branch(self, frame: F, item: Item, regions: Sequence[F]) -> None:
        """Of an `if` the first region is for a choice of 1."""
        choose = Choose(item, frame, item.inputs[0])
        self.code.append(choose)
        ends: list[Jump] = []
        targets: list[int] = []
        for region in reversed(regions) if is_if(item) else regions:
            targets.append(len(self.code))
            self._put_region(region)
            ends.append(Jump(0))
            self.code += [given_back(frame, item, region), ends[-1]]
        choose.targets = tuple(targets)
        for end in ends:
            end.target = len(self.code)

    def _put_region(self, region: F) -> None:
        self.code.append(Enter(region))
        self.put_items(region, range(len(region.plan.items)))
