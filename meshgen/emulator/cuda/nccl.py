"""The emulated NCCL: communicators of emulated GPUs in one process, and the calls on them.

Functions return a tuple of their result code and their value, like those of `meshgen.runtime.cuda.nccl`. A communicator is
a `c_void_p`, which has its value when the group is over in which it is made.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, Concatenate, TypeVar

from meshgen.ccl.nccl_types import NO_COLOR, RESULT_TEXTS, UNIQUE_ID_BYTES, Result
from meshgen.ccl.world import World
from meshgen.emulator.cuda.capture import Operation, is_captured
from meshgen.emulator.cuda.collectives import DTYPE_OF, KIND_OF, Call, Clique, CollectiveWork, Communicator
from meshgen.emulator.cuda.driver import EmulatedDriver
from meshgen.emulator.cuda.network import Network
from meshgen.emulator.cuda.streams import Stream
from meshgen.emulator.cuda.types import CallFailed
from meshgen.emulator.faults import DeviceFault

NCCL_VERSION = 23203  # what ncclGetVersion says: 2.32.3, whose nccl.h the table of prototypes was compared with
Handle = ctypes.c_void_p
Outcome = tuple[Any, ...]


class NcclFailed(Exception):
    """A call that is refused: its result code and why."""

    def __init__(self, result: Result, message: str = "") -> None:
        super().__init__(message or RESULT_TEXTS[result])
        self.result = result


@dataclass
class _Arrival:
    """A rank that makes a communicator: of this clique, or by a split of it (its number, color, key and name)."""

    handle: Handle
    clique: Clique
    rank: int
    device: int
    split: tuple[Any, ...] = ()


@dataclass
class _Group:
    """The calls since the outermost `ncclGroupStart`."""

    depth: int = 0
    calls: list[tuple[Communicator, Stream, Call]] = field(default_factory=list)
    arrivals: list[_Arrival] = field(default_factory=list)


def _call(
    outputs: int = 0,
) -> Callable[[Callable[Concatenate[EmulatedNccl, ...], Any]], Callable[Concatenate[EmulatedNccl, ...], Outcome]]:
    def decorate(function: Callable[Concatenate[EmulatedNccl, ...], Any]) -> Callable[..., Outcome]:
        @wraps(function)
        def wrapper(self: EmulatedNccl, *args: Any) -> Outcome:
            try:
                value = function(self, *args)
            except NcclFailed as error:
                self.last_error = str(error)
                return error.result, *((None,) * outputs)
            except CallFailed as error:
                self.last_error = str(error)
                return Result.ncclUnhandledCudaError, *((None,) * outputs)
            except DeviceFault as fault:
                self.machine.fault = fault
                return Result.ncclUnhandledCudaError, *((None,) * outputs)
            return (Result.ncclSuccess, value) if outputs else (Result.ncclSuccess,)

        return wrapper

    return decorate


class EmulatedNccl:
    """NCCL on the GPUs of an emulated driver. `last_error`: why the last call was refused."""

    def __init__(self, driver: EmulatedDriver, world: World | None = None) -> None:
        """`world`: the ranks of which this process has one; None: it has all of them."""
        self.machine, self._streams = driver.machine, driver.streams
        self._network = Network(world, driver.machine.timeline) if world else None
        self._shared: list[Clique] = []  # those with ranks in other processes
        if world:
            driver.machine.timeline.listen = self._listen
        self._group = _Group()
        self._cliques: dict[bytes, Clique] = {}
        self.last_error = ""

    @_call(outputs=1)
    def ncclGetVersion(self) -> int:
        return NCCL_VERSION

    @_call(outputs=1)
    def ncclGetUniqueId(self) -> bytes:
        return self.machine.handle("unique id").to_bytes(8, "little").ljust(UNIQUE_ID_BYTES, b"\0")

    def ncclGetErrorString(self, result: int) -> str:
        return RESULT_TEXTS[Result(result)]

    def ncclGetLastError(self, comm: Handle | None = None) -> str:
        return self.last_error

    @_call()
    def ncclGroupStart(self) -> None:
        self._group.depth += 1

    @_call()
    def ncclGroupEnd(self) -> None:
        if not self._group.depth:
            raise NcclFailed(Result.ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart")
        self._group.depth -= 1
        if not self._group.depth:
            self._finish_group()

    @_call(outputs=1)
    def ncclCommInitRank(self, nranks: int, commId: bytes, rank: int, name: str = "") -> Handle:
        """`name`: of the communicator, in messages; NCCL takes it as `ncclConfig_t.commName`."""
        if not 0 <= rank < nranks:
            raise NcclFailed(Result.ncclInvalidArgument, f"rank {rank} of {nranks}")
        if commId not in self._cliques:
            self._cliques[commId] = Clique(name or f"communicator {len(self._cliques) + 1}", nranks)
        clique = self._cliques[commId]
        if clique.ranks != nranks or rank in clique.devices:
            raise NcclFailed(Result.ncclInvalidUsage, f"rank {rank} of {nranks} does not fit {clique.name}")
        return self._arrive(_Arrival(Handle(), clique, rank, self.machine.device))

    @_call(outputs=1)
    def ncclCommSplit(self, comm: Handle, color: int, key: int, name: str = "") -> Handle:
        parent = self._find(comm)
        number, parent.splits = parent.splits, parent.splits + 1
        return self._arrive(_Arrival(Handle(), parent.clique, parent.rank, parent.device, (number, color, key, name)))

    @_call(outputs=1)
    def ncclCommCount(self, comm: Handle) -> int:
        return self._find(comm).clique.ranks

    @_call(outputs=1)
    def ncclCommUserRank(self, comm: Handle) -> int:
        return self._find(comm).rank

    @_call(outputs=1)
    def ncclCommCuDevice(self, comm: Handle) -> int:
        return self._find(comm).device

    @_call(outputs=1)
    def ncclCommGetAsyncError(self, comm: Handle) -> int:
        """`ncclRemoteError` where another rank has aborted."""
        own = self._find(comm)
        return Result.ncclRemoteError if own.clique.aborted - {own.rank} else Result.ncclSuccess

    @_call()
    def ncclCommFinalize(self, comm: Handle) -> None:
        for work in list(self._find(comm).line):
            self.machine.wait(work)

    @_call()
    def ncclCommDestroy(self, comm: Handle) -> None:
        own = self._find(comm)
        if own.line:
            raise NcclFailed(Result.ncclInvalidUsage, f"{own.label} is destroyed while {own.line[0].label} is pending")
        self._require_no_graph(own)
        del self.machine.objects[comm.value or 0]

    @_call()
    def ncclCommAbort(self, comm: Handle) -> None:
        """Pending calls of this rank end without effect; its peers notice by `ncclCommGetAsyncError`."""
        own = self._find(comm)
        self._require_no_graph(own)
        own.clique.aborted.add(own.rank)
        self.machine.timeline.wake_waiting(lambda work: isinstance(work, CollectiveWork) and work.communicator is own)

    @_call()
    def ncclAllReduce(
        self, send: int, recv: int, count: int, datatype: int, op: int, comm: Handle, stream: int
    ) -> None:
        self._add(comm, stream, Call("all_reduce", send, recv, count, _nccl_dtype(datatype), _nccl_op(op)))

    @_call()
    def ncclAllGather(self, send: int, recv: int, sendcount: int, datatype: int, comm: Handle, stream: int) -> None:
        self._add(comm, stream, Call("all_gather", send, recv, sendcount, _nccl_dtype(datatype)))

    @_call()
    def ncclReduceScatter(self, send: int, recv: int, recvcount: int, datatype: int, op: int, comm: Handle,
                          stream: int) -> None:  # fmt: skip
        self._add(comm, stream, Call("reduce_scatter", send, recv, recvcount, _nccl_dtype(datatype), _nccl_op(op)))

    @_call()
    def ncclBroadcast(
        self, send: int, recv: int, count: int, datatype: int, root: int, comm: Handle, stream: int
    ) -> None:
        self._add(comm, stream, Call("broadcast", send, recv, count, _nccl_dtype(datatype), peer=root))

    @_call()
    def ncclReduce(self, send: int, recv: int, count: int, datatype: int, op: int, root: int, comm: Handle,
                   stream: int) -> None:  # fmt: skip
        self._add(comm, stream, Call("reduce", send, recv, count, _nccl_dtype(datatype), _nccl_op(op), root))

    @_call()
    def ncclSend(self, send: int, count: int, datatype: int, peer: int, comm: Handle, stream: int) -> None:
        self._add(comm, stream, Call("send", send, 0, count, _nccl_dtype(datatype), peer=peer))

    @_call()
    def ncclRecv(self, recv: int, count: int, datatype: int, peer: int, comm: Handle, stream: int) -> None:
        self._add(comm, stream, Call("recv", 0, recv, count, _nccl_dtype(datatype), peer=peer))

    def _find(self, comm: Handle) -> Communicator:
        found = self.machine.objects.get(comm.value or 0)
        if not isinstance(found, Communicator):
            raise NcclFailed(Result.ncclInvalidArgument, "no communicator")
        return found

    def _require_no_graph(self, own: Communicator) -> None:
        """NCCL waits, for ever, until graphs with its calls are destroyed (`commDestroySync` in its init.cc), also in an abort."""
        if is_captured(own, self.machine.objects.values()):
            raise DeviceFault("deadlock", f"{own.label} is destroyed or aborted before graphs with its calls")

    def _arrive(self, arrival: _Arrival) -> Handle:
        self._group.arrivals.append(arrival)
        if not self._group.depth:
            self._finish_group()
        return arrival.handle

    def _add(self, comm: Handle, handle: int, call: Call) -> None:
        own, stream = self._find(comm), self._streams.find(handle)
        if stream.device != own.device:
            raise NcclFailed(
                Result.ncclInvalidUsage, f"{own.label} is on device {own.device}, its stream on {stream.device}"
            )
        if call.count < 0 or not -1 <= call.peer < own.clique.ranks:
            raise NcclFailed(Result.ncclInvalidArgument, f"{call.text} by {own.label}")
        if own.rank in own.clique.aborted:
            raise NcclFailed(Result.ncclInvalidUsage, f"{own.label} was aborted")
        require_places(call, own)
        if call.count:  # what moves nothing is nothing, for NCCL too
            self._group.calls.append((own, stream, call))
        if not self._group.depth:
            self._finish_group()

    def _finish_group(self) -> None:
        group, self._group = self._group, _Group()
        for members in _by(group.arrivals, lambda arrival: (arrival.clique, arrival.split[:1])):
            self._make(members)
        for calls in _by(group.calls, lambda entry: entry[0]):
            self._issue(calls)

    def _listen(self) -> None:
        assert self._network
        self._network.listen(self._shared)

    def _make(self, members: Sequence[_Arrival]) -> None:
        """The communicators of one `ncclCommInitRank` or `ncclCommSplit` of all ranks."""
        clique = members[0].clique
        if self._network:
            self._make_between(self._network, members[0])
            return
        missing = sorted(set(range(clique.ranks)) - {each.rank for each in members})
        if missing:
            waits = f"it waits for ranks {', '.join(map(str, missing))}, which come later or outside of its group"
            raise DeviceFault("deadlock", f"rank {members[0].rank} makes {clique.name}: {waits}")
        if not members[0].split:
            self._fill(clique, {each.rank: each for each in members})
            return
        number = members[0].split[0]
        for ends in _by(members, lambda each: each.split[1]):
            if ends[0].split[1] != NO_COLOR:
                ordered = sorted(ends, key=lambda each: (each.split[2], each.rank))
                name = ends[0].split[3] or f"{clique.name}, split {number}, color {ends[0].split[1]}"
                self._fill(Clique(name, len(ordered)), dict(enumerate(ordered)))

    def _make_between(self, network: Network, own: _Arrival) -> None:
        """The same with ranks in other processes, of whose first communicator a rank is the number of its process."""
        clique = own.clique
        if not own.split:
            clique.key, clique.processes = "0", {rank: rank for rank in range(clique.ranks)}
            network.together(clique, {})
            self._share(clique, own.rank, own)
            return
        number, color, key, name = own.split
        ends = network.together(clique, {"split": number, "color": color, "key": key})
        members = sorted((end["key"], rank) for rank, end in enumerate(ends) if end["color"] == color)
        if color != NO_COLOR:
            made = Clique(name or f"{clique.name}, split {number}, color {color}", len(members))
            made.key = f"{clique.key}.{number}.{color}"
            made.processes = {place: clique.processes[rank] for place, (_, rank) in enumerate(members)}
            self._share(made, members.index((key, own.rank)), own)

    def _share(self, clique: Clique, rank: int, own: _Arrival) -> None:
        """A communicator of this process's rank in a clique with ranks in other processes."""
        self._shared.append(clique)
        clique.devices = {rank: own.device}
        own.handle.value = self.machine.handle(Communicator(clique, rank, own.device))

    def _fill(self, clique: Clique, members: Mapping[int, _Arrival]) -> None:
        clique.devices = {rank: each.device for rank, each in members.items()}
        if len(set(clique.devices.values())) < clique.ranks:
            raise NcclFailed(Result.ncclInvalidUsage, f"{clique.name}: several ranks are using the same GPU")
        for rank, each in members.items():
            each.handle.value = self.machine.handle(Communicator(clique, rank, each.device))

    def _issue(self, calls: Sequence[tuple[Communicator, Stream, Call]]) -> None:
        """A rank's calls of one group, as one operation."""
        own, stream, _ = calls[0]
        if any(other is not stream for _, other, _ in calls):
            raise NcclFailed(Result.ncclInvalidUsage, f"{own.label} is used in several streams of one group")
        given = [call for _, _, call in calls]
        tell = self._network.tell if self._network else None
        make = partial(CollectiveWork, self.machine, own, given, tell)
        self._streams.issue(stream, Operation("collective", given[0].text, make, own))


def require_places(call: Call, own: Communicator) -> None:
    """Raises NcclFailed: source and target overlap, and not as NCCL allows it for in-place operation."""
    reads, writes = (size(own.rank, own.clique.ranks) for size in (call.source_bytes, call.target_bytes))
    shift = {"all_gather": reads * own.rank, "reduce_scatter": -writes * own.rank}.get(call.op, 0)
    overlap = call.source < call.target + writes and call.target < call.source + reads
    if overlap and call.source != call.target + shift:
        raise NcclFailed(Result.ncclInvalidArgument, f"{call.text} by {own.label}: source and target overlap")


Item = TypeVar("Item")


def _by(items: Iterable[Item], key: Callable[[Item], Any]) -> list[list[Item]]:
    """Items with the same key together, in order."""
    found: dict[Any, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return list(found.values())


def _nccl_dtype(number: int) -> str:
    if number not in DTYPE_OF:
        raise NcclFailed(Result.ncclInvalidArgument, f"data type {number}")
    return DTYPE_OF[number]


def _nccl_op(number: int) -> str:
    if number not in KIND_OF:
        raise NcclFailed(Result.ncclInvalidArgument, f"reduction {number}")
    return KIND_OF[number]
