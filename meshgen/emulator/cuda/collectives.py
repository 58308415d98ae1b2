"""Collectives of the emulated NCCL: calls of ranks that meet, and what then happens in their memories.

A rank's calls of one group are one piece of work on its device. It starts when its turn comes in its stream, in its
communicator and on its device, which holds one at a time: NCCL's kernels wait for their peers with the device's
multiprocessors in hand. It ends when all its calls have met those of the other ranks. With NCCL_LAUNCH_ORDER_IMPLICIT
(`Machine.orders_launches`) the work of a device begins in the order of issue, whatever stream and communicator it is of.

Sums of 16-bit and 8-bit floats add up in f32 in the order of the ranks and round once, as the simulated ranks do, so
results have the same bits. NCCL adds in an order of its own, with a rounding at each step.
"""

from __future__ import annotations

import functools
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from meshgen.ccl.nccl_types import DATA_TYPES, REDUCTIONS
from meshgen.ccl.simulated import reduce_arrays
from meshgen.emulator.cuda.machine import Array, Machine
from meshgen.emulator.cuda.timeline import Timeline, Work
from meshgen.emulator.faults import DeviceFault
from meshgen.ir.graph import DTYPES, is_float

DTYPE_OF = {number: name for name, number in DATA_TYPES.items()}
KIND_OF = {number: name for name, number in REDUCTIONS.items()}
# Elements that a rank reads and writes for a call of `count`, with n ranks; None: only the root does
_SIZES: dict[str, tuple[Callable[[int, int], int], Callable[[int, int], int]]] = {
    "all_reduce": (lambda count, n: count, lambda count, n: count),
    "reduce": (lambda count, n: count, lambda count, n: count),
    "broadcast": (lambda count, n: count, lambda count, n: count),
    "all_gather": (lambda count, n: count, lambda count, n: count * n),
    "reduce_scatter": (lambda count, n: count * n, lambda count, n: count),
    "send": (lambda count, n: count, lambda count, n: 0),
    "recv": (lambda count, n: 0, lambda count, n: count),
}


@dataclass(frozen=True)
class Call:
    """One call of a rank.

    Attributes:
        op: a key of `_SIZES`.
        count: elements, as NCCL counts them.
        reduction: of the reducing ones, else empty.
        peer: the root, or the rank at the other end; -1 for all others.
    """

    op: str
    source: int
    target: int
    count: int
    dtype: str
    reduction: str = ""
    peer: int = -1

    @property
    def text(self) -> str:
        """For people: `all_reduce (sum) of 16 f32`."""
        where = {"send": f" to rank {self.peer}", "recv": f" from rank {self.peer}"}
        root = where.get(self.op, f" of root {self.peer}" if self.peer >= 0 else "")
        return f"{self.op}{f' ({self.reduction})' if self.reduction else ''} of {self.count} {self.dtype}{root}"

    @property
    def itemsize(self) -> int:
        return DTYPES[self.dtype].itemsize

    def source_bytes(self, rank: int, ranks: int) -> int:
        reads = self.op != "broadcast" or rank == self.peer
        return _SIZES[self.op][0](self.count, ranks) * self.itemsize if reads else 0

    def target_bytes(self, rank: int, ranks: int) -> int:
        writes = self.op != "reduce" or rank == self.peer
        return _SIZES[self.op][1](self.count, ranks) * self.itemsize if writes else 0


@dataclass(eq=False)
class Clique:
    """The ranks of one communicator, by their devices.

    Attributes:
        meetings: of calls that have been given a number and not all come.
        key: names the clique in all processes; empty where all ranks are in this one.
        processes: which process has each rank; empty where all are in this one.
    """

    name: str
    ranks: int
    key: str = ""
    processes: dict[int, int] = field(default_factory=dict)
    devices: dict[int, int] = field(default_factory=dict)
    meetings: dict[tuple[object, ...], Meeting] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)


@dataclass(eq=False)
class Communicator:
    """One rank's end of a clique.

    Attributes:
        line: its work that is not done, in the order in which it was issued.
        numbers: how many collectives, and messages to and from each peer, it has been given.
    """

    clique: Clique
    rank: int
    device: int
    line: deque[CollectiveWork] = field(default_factory=deque)
    numbers: dict[tuple[object, ...], int] = field(default_factory=lambda: defaultdict(int))
    splits: int = 0

    @property
    def label(self) -> str:
        return f"rank {self.rank} of {self.clique.name}"

    def meeting(self, call: Call) -> Meeting:
        """Where the next call of this kind meets those of the other ranks."""
        place, parties = self._meeting_key(call)
        side = (call.op == "recv", *place)  # a rank counts what it sends to itself and what it receives so apart
        number = self.numbers[side]
        self.numbers[side] += 1
        key = (*place, number)
        if key not in self.clique.meetings:
            self.clique.meetings[key] = Meeting(self.clique, key, number, parties)
        return self.clique.meetings[key]

    def _meeting_key(self, call: Call) -> tuple[tuple[object, ...], tuple[int, ...]]:
        """Calls are counted by pair of sender and receiver, collectives all together; and who takes part."""
        if call.op == "send":
            return ("message", self.rank, call.peer), (self.rank, call.peer)
        if call.op == "recv":
            return ("message", call.peer, self.rank), (call.peer, self.rank)
        return ("collective",), tuple(range(self.clique.ranks))


@dataclass(eq=False)
class Party:
    """A rank that has come to a meeting: what it calls, and the elements that it gives.

    Attributes:
        work: what it does; None: it is a rank of another process.
    """

    rank: int
    call: Call
    source: Array
    work: CollectiveWork | None = None


@dataclass(eq=False)
class Meeting:
    """Calls that belong together: a collective of all ranks, or a send and its receive.

    Attributes:
        parties: the ranks that take part.
        here: who has come, by rank and whether it receives.
    """

    clique: Clique
    key: tuple[object, ...]
    number: int
    parties: tuple[int, ...]
    here: dict[tuple[int, bool], Party] = field(default_factory=dict)

    @property
    def title(self) -> str:
        what = "collective" if self.key[0] == "collective" else "message"
        return f"{what} {self.number} of {self.clique.name}"

    def join(self, party: Party, timeline: Timeline) -> None:
        """A rank's call has begun. With the last one it all happens. Raises DeviceFault: the calls do not fit together."""
        self.here[party.rank, party.call.op == "recv"] = party
        if len(self.here) < len(self.parties):
            return
        del self.clique.meetings[self.key]
        self._require_agreement()
        exchange(list(self.here.values()))
        for other in self.here.values():
            if other.work:
                other.work.is_met(self, timeline)

    def missing(self) -> list[int]:
        """Ranks that have not come."""
        come = {rank for rank, _ in self.here}
        return [rank for rank in self.parties if rank not in come]

    def _require_agreement(self) -> None:
        said: dict[tuple[object, ...], list[int]] = {}
        texts: dict[tuple[object, ...], str] = {}
        is_message = self.key[0] == "message"
        for (rank, _), call in sorted((place, party.call) for place, party in self.here.items()):
            what = (
                (call.count, call.dtype) if is_message else (call.op, call.count, call.dtype, call.reduction, call.peer)
            )
            said.setdefault(what, []).append(rank)
            texts[what] = call.text
        if len(said) > 1:
            views = "; ".join(f"rank{'s' * (len(r) > 1)} {', '.join(map(str, r))}: {texts[w]}" for w, r in said.items())
            raise DeviceFault("collective", f"the ranks of {self.title} disagree: {views}")


Tell: TypeAlias = Callable[[Meeting, Party], None]  # what a rank of this process calls and gives


class CollectiveWork(Work):
    """A rank's calls of one group."""

    def __init__(self, machine: Machine, communicator: Communicator, calls: Sequence[Call], tell: Tell | None) -> None:
        """`tell`: tells ranks of other processes."""
        text = calls[0].text if len(calls) == 1 else f"{len(calls)} calls in a group"
        super().__init__(f"{text} by {communicator.label}")
        self.machine, self.communicator, self.calls = machine, communicator, tuple(calls)
        self._meetings = [communicator.meeting(call) for call in calls]  # in the order of issue
        self._unmet = list(self._meetings)
        self._has_begun, self._tell = False, tell
        communicator.line.append(self)
        machine.launches[communicator.device].append(self)

    def advance(self) -> bool:
        if self._has_begun or self._is_aborted():
            return self._leave()
        if self._blocker():
            return False
        self._has_begun = True
        self.machine.collectives[self.communicator.device] = self
        self._is_launched()
        self._note_accesses()
        for call, meeting in zip(self.calls, self._meetings, strict=True):
            party = Party(self.communicator.rank, call, _source(call, self), self)
            if self._tell:
                self._tell(meeting, party)
            meeting.join(party, self.machine.timeline)
        return False

    def _blocker(self) -> str:
        """Why it cannot begin; empty: it can."""
        device, first = self.communicator.device, self.communicator.line[0]
        if first is not self:
            return f"{first.label} to end"
        if device in self.machine.collectives:
            return f"{self.machine.collectives[device].label} to end"
        earlier = self.machine.launches[device][0]
        return f"{earlier.label} to begin" if self.machine.orders_launches and earlier is not self else ""

    def _is_launched(self) -> None:
        """What was issued after it may begin as far as it is concerned."""
        self.machine.launches[self.communicator.device].remove(self)

    def is_met(self, meeting: Meeting, timeline: Timeline) -> None:
        """One of its calls has been answered."""
        self._unmet.remove(meeting)
        if not self._unmet:
            timeline.wake(self)

    def waits_for(self) -> str:
        if not self._has_begun:
            return self._blocker()
        found = [
            f"rank{'s' * (len(each.missing()) > 1)} {', '.join(map(str, each.missing()))} in {each.title}"
            for each in self._unmet
        ]
        return " and ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")

    @property
    def has_begun(self) -> bool:
        return self._has_begun

    def _is_aborted(self) -> bool:
        return self.communicator.rank in self.communicator.clique.aborted

    def _leave(self) -> bool:
        """It is done: the next one of the communicator and of the device can begin."""
        device, line = self.communicator.device, self.communicator.line
        line.remove(self)
        if not self._has_begun:
            self._is_launched()
        if self.machine.collectives.get(device) is self:
            del self.machine.collectives[device]
        self.machine.timeline.wake_waiting(
            lambda work: isinstance(work, CollectiveWork) and not work.has_begun and work.communicator.device == device
        )
        return True

    def _note_accesses(self) -> None:
        communicator, machine = self.communicator, self.machine
        ranks = communicator.clique.ranks
        for call in self.calls:
            machine.read(self, communicator.device, call.source, call.source_bytes(communicator.rank, ranks))
            machine.write(self, communicator.device, call.target, call.target_bytes(communicator.rank, ranks))


def exchange(parties: Sequence[Party]) -> None:
    """Everything that a meeting changes in the memories of its ranks, as far as they are in this process."""
    if parties[0].call.op in ("send", "recv"):
        sender, receiver = sorted(parties, key=lambda party: party.call.op != "send")
        if receiver.work:
            _target(receiver.call, receiver.work)[:] = sender.source
        return
    parties = sorted(parties, key=lambda party: party.rank)
    sources = [party.source.copy() for party in parties]
    call, parts = parties[0].call, len(parties)
    if call.op == "all_gather":
        results = [np.concatenate(sources)] * parts
    elif call.op == "broadcast":
        results = [sources[call.peer]] * parts
    else:
        total = _nccl_reduced(sources, call.reduction, call.dtype)
        results = np.split(total, parts) if call.op == "reduce_scatter" else [total] * parts
    for party, result in zip(parties, results, strict=True):
        if party.work:
            target = _target(party.call, party.work)
            target[:] = result[: len(target)]


def _nccl_reduced(sources: Sequence[Array], kind: str, dtype: str) -> Array:
    """As NCCL does it: of a NaN and a number its maximum and minimum are the number."""
    if kind in ("max", "min") and is_float(dtype):
        return functools.reduce(np.fmax if kind == "max" else np.fmin, sources)
    return reduce_arrays(sources, kind, dtype)


def _source(call: Call, work: CollectiveWork) -> Array:
    rank, ranks = work.communicator.rank, work.communicator.clique.ranks
    return _elements_at_address(work.machine, call.source, call.source_bytes(rank, ranks), call.dtype)


def _target(call: Call, work: CollectiveWork) -> Array:
    rank, ranks = work.communicator.rank, work.communicator.clique.ranks
    return _elements_at_address(work.machine, call.target, call.target_bytes(rank, ranks), call.dtype)


def _elements_at_address(machine: Machine, address: int, nbytes: int, dtype: str) -> Array:
    found = machine.memory.view(address, nbytes) if nbytes else np.empty(0, np.uint8)
    return found.view(numbers_of(dtype))


def numbers_of(dtype: str) -> np.dtype[Any]:
    """NumPy's type of a call's elements."""
    return np.dtype(DTYPES[dtype])
