"""Collectives of the emulated NCCL: a `Meeting` of matching calls of all ranks, and the effect on memory.

The calls of a rank in one group form one work item on its device. The item starts when it is the first in its stream
and in its communicator, and no other collective runs on the device. The last condition models that a real NCCL kernel
occupies multiprocessors while it waits for its peers. The item ends when all its calls have met the matching calls of
the other ranks. With NCCL_LAUNCH_ORDER_IMPLICIT (`Machine.orders_launches`), collectives of a device start in the order
of issue, across streams and communicators.

Sums of 16-bit and 8-bit floats accumulate in f32 in rank order and round once. The simulated ranks do the same, so
results are bitwise equal. NCCL uses another order and rounds at each step.
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
# Elements that a rank reads and writes in a call of `count` elements with n ranks; in rooted collectives, the root.
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
    """A collective, send or receive call of one rank.

    Attributes:
        op: a key of `_SIZES`.
        source, target: addresses of the operand and the result.
        count: element count as in the NCCL call.
        reduction: the reduction of a reducing collective, else empty.
        peer: the root, or the other rank of a send or receive; else -1.
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
        """Return a description for error messages: `all_reduce (sum) of 16 f32`."""
        peer_text = {"send": f" to rank {self.peer}", "recv": f" from rank {self.peer}"}
        suffix = peer_text.get(self.op, f" of root {self.peer}" if self.peer >= 0 else "")
        return f"{self.op}{f' ({self.reduction})' if self.reduction else ''} of {self.count} {self.dtype}{suffix}"

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
    """The ranks of one communicator and their devices.

    Attributes:
        key: name of the clique, equal in all processes; empty if all ranks are in this process.
        processes: process of each rank; empty if all ranks are in this process.
        meetings: meetings that some ranks have not reached yet, by key.
        aborted: ranks that have aborted the communicator.
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
    """The handle of one rank to a clique.

    Attributes:
        line: pending work of the communicator, in the order of issue.
        numbers: counter key (see `_meeting_key`) -> number of calls with this key so far.
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
        """Return the meeting for a call. Calls of different ranks match if they have equal counts in `numbers`."""
        channel, parties = self._meeting_key(call)
        counter = (call.op == "recv", *channel)  # sends and receives count separately: a rank may send to itself
        number = self.numbers[counter]
        self.numbers[counter] += 1
        key = (*channel, number)
        if key not in self.clique.meetings:
            self.clique.meetings[key] = Meeting(self.clique, key, number, parties)
        return self.clique.meetings[key]

    def _meeting_key(self, call: Call) -> tuple[tuple[object, ...], tuple[int, ...]]:
        """Return the counter key and the ranks of a call. Messages are counted per pair of ranks."""
        if call.op == "send":
            return ("message", self.rank, call.peer), (self.rank, call.peer)
        if call.op == "recv":
            return ("message", call.peer, self.rank), (call.peer, self.rank)
        return ("collective",), tuple(range(self.clique.ranks))


@dataclass(eq=False)
class Party:
    """A rank that has reached a meeting, with its call and the elements that it contributes.

    Attributes:
        work: the work item of the call; None for a rank in another process.
    """

    rank: int
    call: Call
    source: Array
    work: CollectiveWork | None = None


@dataclass(eq=False)
class Meeting:
    """A set of matching calls: a collective of all ranks, or a send and its receive.

    Attributes:
        parties: the ranks that take part.
        here: the parties that have arrived, by rank and whether the call is a receive.
    """

    clique: Clique
    key: tuple[object, ...]
    number: int
    parties: tuple[int, ...]
    here: dict[tuple[int, bool], Party] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Return a name for error messages, such as `collective 3 of communicator 1`."""
        call_kind = "collective" if self.key[0] == "collective" else "message"
        return f"{call_kind} {self.number} of {self.clique.name}"

    def join(self, party: Party, timeline: Timeline) -> None:
        """Record the call of a rank; the last call performs the exchange. Raises DeviceFault if calls mismatch."""
        self.here[party.rank, party.call.op == "recv"] = party
        if len(self.here) < len(self.parties):
            return
        del self.clique.meetings[self.key]
        self._require_agreement()
        exchange(list(self.here.values()))
        for arrived in self.here.values():
            if arrived.work:
                arrived.work.record_match(self, timeline)

    def missing(self) -> list[int]:
        """Return the ranks that have not joined the meeting."""
        arrived = {rank for rank, _ in self.here}
        return [rank for rank in self.parties if rank not in arrived]

    def _require_agreement(self) -> None:
        callers: dict[tuple[object, ...], list[int]] = {}
        texts: dict[tuple[object, ...], str] = {}
        is_message = self.key[0] == "message"
        for (rank, _), call in sorted((key, party.call) for key, party in self.here.items()):
            signature = (
                (call.count, call.dtype) if is_message else (call.op, call.count, call.dtype, call.reduction, call.peer)
            )
            callers.setdefault(signature, []).append(rank)
            texts[signature] = call.text
        if len(callers) > 1:
            texts_by_rank = "; ".join(
                f"rank{'s' * (len(r) > 1)} {', '.join(map(str, r))}: {texts[w]}" for w, r in callers.items()
            )
            raise DeviceFault("collective", f"the ranks of {self.title} disagree: {texts_by_rank}")


Tell: TypeAlias = Callable[[Meeting, Party], None]  # sends a rank's call and operand to other processes


class CollectiveWork(Work):
    """The calls of one rank in one group, as a single work item."""

    def __init__(self, machine: Machine, communicator: Communicator, calls: Sequence[Call], tell: Tell | None) -> None:
        """Queue the new item in the communicator and on the device. `tell` sends calls to other processes."""
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
            return self._retire()
        if self._blocker():
            return False
        self._has_begun = True
        self.machine.collectives[self.communicator.device] = self
        self._remove_from_launches()
        self._note_accesses()
        for call, meeting in zip(self.calls, self._meetings, strict=True):
            party = Party(self.communicator.rank, call, _source(call, self), self)
            if self._tell:
                self._tell(meeting, party)
            meeting.join(party, self.machine.timeline)
        return False

    def _blocker(self) -> str:
        """Return as text what prevents the item from starting, or "" if it can start."""
        device, first = self.communicator.device, self.communicator.line[0]
        if first is not self:
            return f"{first.label} to end"
        if device in self.machine.collectives:
            return f"{self.machine.collectives[device].label} to end"
        earlier = self.machine.launches[device][0]
        return f"{earlier.label} to begin" if self.machine.orders_launches and earlier is not self else ""

    def _remove_from_launches(self) -> None:
        """Remove the item from the launch order of the device, so that later collectives can start."""
        self.machine.launches[self.communicator.device].remove(self)

    def record_match(self, meeting: Meeting, timeline: Timeline) -> None:
        """Record that one of the calls has matched the calls of all other ranks."""
        self._unmet.remove(meeting)
        if not self._unmet:
            timeline.wake(self)

    def waits_for(self) -> str:
        if not self._has_begun:
            return self._blocker()
        texts = [
            f"rank{'s' * (len(meeting.missing()) > 1)} {', '.join(map(str, meeting.missing()))} in {meeting.title}"
            for meeting in self._unmet
        ]
        return " and ".join(texts[:4]) + (f" and {len(texts) - 4} more" if len(texts) > 4 else "")

    @property
    def has_begun(self) -> bool:
        return self._has_begun

    def _is_aborted(self) -> bool:
        return self.communicator.rank in self.communicator.clique.aborted

    def _retire(self) -> bool:
        """Remove the completed item from its queues, and wake the collectives that can start now. Returns True."""
        device, line = self.communicator.device, self.communicator.line
        line.remove(self)
        if not self._has_begun:
            self._remove_from_launches()
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
    """Perform a collective or a message: update the memories of the ranks that are in this process."""
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
    """Reduce arrays as NCCL does: if one operand of a maximum or minimum is NaN, the result is the other operand."""
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
    content = machine.memory.view(address, nbytes) if nbytes else np.empty(0, np.uint8)
    return content.view(numpy_dtype_of(dtype))


def numpy_dtype_of(dtype: str) -> np.dtype[Any]:
    """Return the NumPy dtype of the elements of a call."""
    return np.dtype(DTYPES[dtype])
