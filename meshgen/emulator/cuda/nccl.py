"""The emulated NCCL: communicators of emulated GPUs, and the calls on them.

As in `meshgen.runtime.cuda.nccl`, a function returns a tuple of the result code and the value. A communicator is a
`c_void_p` whose value is set when the enclosing group ends.
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

NCCL_VERSION = 23203  # version code of NCCL 2.32.3; the table of prototypes was compared with nccl.h of this version
Handle = ctypes.c_void_p
Outcome = tuple[Any, ...]


class NcclFailed(Exception):
    """Raised for a refused call, with its result code and the reason."""

    def __init__(self, result: Result, message: str = "") -> None:
        super().__init__(message or RESULT_TEXTS[result])
        self.result = result


@dataclass
class _Arrival:
    """A call to create a communicator. `split` is empty, or has index, color, key and name of an `ncclCommSplit`."""

    handle: Handle
    clique: Clique
    rank: int
    device: int
    split: tuple[Any, ...] = ()


@dataclass
class _Group:
    """The calls of a group, which are the calls since the outermost `ncclGroupStart`."""

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
    """NCCL on the GPUs of an emulated driver. `last_error` says why the last refused call was refused."""

    def __init__(self, driver: EmulatedDriver, world: World | None = None) -> None:
        """Create the emulated NCCL. With a `world`, one rank of it is in this process; otherwise all ranks are."""
        self.machine, self._streams = driver.machine, driver.streams
        self._network = Network(world, driver.machine.timeline) if world else None
        self._shared: list[Clique] = []  # cliques with ranks in other processes
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
        """Create a communicator. Error messages call it `name`, like `ncclConfig_t.commName`."""
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
        index, parent.splits = parent.splits, parent.splits + 1
        return self._arrive(_Arrival(Handle(), parent.clique, parent.rank, parent.device, (index, color, key, name)))

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
        """Return `ncclRemoteError` if another rank has aborted the communicator."""
        owner = self._find(comm)
        return Result.ncclRemoteError if owner.clique.aborted - {owner.rank} else Result.ncclSuccess

    @_call()
    def ncclCommFinalize(self, comm: Handle) -> None:
        for work in list(self._find(comm).line):
            self.machine.wait(work)

    @_call()
    def ncclCommDestroy(self, comm: Handle) -> None:
        owner = self._find(comm)
        if owner.line:
            raise NcclFailed(
                Result.ncclInvalidUsage, f"{owner.label} is destroyed while {owner.line[0].label} is pending"
            )
        self._require_no_graph(owner)
        del self.machine.objects[comm.value or 0]

    @_call()
    def ncclCommAbort(self, comm: Handle) -> None:
        """End the pending calls of this rank without effect. Other ranks see it in `ncclCommGetAsyncError`."""
        owner = self._find(comm)
        self._require_no_graph(owner)
        owner.clique.aborted.add(owner.rank)
        self.machine.timeline.wake_waiting(lambda work: isinstance(work, CollectiveWork) and work.communicator is owner)

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
        owner = self.machine.objects.get(comm.value or 0)
        if not isinstance(owner, Communicator):
            raise NcclFailed(Result.ncclInvalidArgument, "no communicator")
        return owner

    def _require_no_graph(self, owner: Communicator) -> None:
        """Raise DeviceFault if a graph has calls of `owner`: NCCL would wait forever (`commDestroySync` in init.cc)."""
        if is_captured(owner, self.machine.objects.values()):
            raise DeviceFault("deadlock", f"{owner.label} is destroyed or aborted before graphs with its calls")

    def _arrive(self, arrival: _Arrival) -> Handle:
        self._group.arrivals.append(arrival)
        if not self._group.depth:
            self._finish_group()
        return arrival.handle

    def _add(self, comm: Handle, handle: int, call: Call) -> None:
        owner, stream = self._find(comm), self._streams.find(handle)
        if stream.device != owner.device:
            raise NcclFailed(
                Result.ncclInvalidUsage, f"{owner.label} is on device {owner.device}, its stream on {stream.device}"
            )
        if call.count < 0 or not -1 <= call.peer < owner.clique.ranks:
            raise NcclFailed(Result.ncclInvalidArgument, f"{call.text} by {owner.label}")
        if owner.rank in owner.clique.aborted:
            raise NcclFailed(Result.ncclInvalidUsage, f"{owner.label} was aborted")
        require_no_overlap(call, owner)
        if call.count:  # a call without elements has no effect in NCCL either
            self._group.calls.append((owner, stream, call))
        if not self._group.depth:
            self._finish_group()

    def _finish_group(self) -> None:
        group, self._group = self._group, _Group()
        for members in _grouped_by(group.arrivals, lambda arrival: (arrival.clique, arrival.split[:1])):
            self._make(members)
        for calls in _grouped_by(group.calls, lambda entry: entry[0]):
            self._issue(calls)

    def _listen(self) -> None:
        assert self._network
        self._network.listen(self._shared)

    def _make(self, members: Sequence[_Arrival]) -> None:
        """Create the communicators of one `ncclCommInitRank` or `ncclCommSplit` of all ranks."""
        clique = members[0].clique
        if self._network:
            self._make_between(self._network, members[0])
            return
        missing = sorted(set(range(clique.ranks)) - {member.rank for member in members})
        if missing:
            reason = f"it waits for ranks {', '.join(map(str, missing))}, which come later or outside of its group"
            raise DeviceFault("deadlock", f"rank {members[0].rank} makes {clique.name}: {reason}")
        if not members[0].split:
            self._fill(clique, {member.rank: member for member in members})
            return
        split_index = members[0].split[0]
        for same_color in _grouped_by(members, lambda member: member.split[1]):
            if same_color[0].split[1] != NO_COLOR:
                ordered = sorted(same_color, key=lambda member: (member.split[2], member.rank))
                name = same_color[0].split[3] or f"{clique.name}, split {split_index}, color {same_color[0].split[1]}"
                self._fill(Clique(name, len(ordered)), dict(enumerate(ordered)))

    def _make_between(self, network: Network, arrival: _Arrival) -> None:
        """Create the communicator of this process's rank, which in the first one is the index of the process."""
        clique = arrival.clique
        if not arrival.split:
            clique.key, clique.processes = "0", {rank: rank for rank in range(clique.ranks)}
            network.together(clique, {})
            self._share(clique, arrival.rank, arrival)
            return
        split_index, color, key, name = arrival.split
        answers = network.together(clique, {"split": split_index, "color": color, "key": key})
        members = sorted((answer["key"], rank) for rank, answer in enumerate(answers) if answer["color"] == color)
        if color != NO_COLOR:
            created = Clique(name or f"{clique.name}, split {split_index}, color {color}", len(members))
            created.key = f"{clique.key}.{split_index}.{color}"
            created.processes = {new_rank: clique.processes[rank] for new_rank, (_, rank) in enumerate(members)}
            self._share(created, members.index((key, arrival.rank)), arrival)

    def _share(self, clique: Clique, rank: int, arrival: _Arrival) -> None:
        """Create the communicator of this process's rank in a clique with ranks in other processes."""
        self._shared.append(clique)
        clique.devices = {rank: arrival.device}
        arrival.handle.value = self.machine.handle(Communicator(clique, rank, arrival.device))

    def _fill(self, clique: Clique, members: Mapping[int, _Arrival]) -> None:
        clique.devices = {rank: member.device for rank, member in members.items()}
        if len(set(clique.devices.values())) < clique.ranks:
            raise NcclFailed(Result.ncclInvalidUsage, f"{clique.name}: several ranks are using the same GPU")
        for rank, member in members.items():
            member.handle.value = self.machine.handle(Communicator(clique, rank, member.device))

    def _issue(self, calls: Sequence[tuple[Communicator, Stream, Call]]) -> None:
        """Issue the calls of a rank in one group as one stream operation."""
        owner, stream, _ = calls[0]
        if any(call_stream is not stream for _, call_stream, _ in calls):
            raise NcclFailed(Result.ncclInvalidUsage, f"{owner.label} is used in several streams of one group")
        owner_calls = [call for _, _, call in calls]
        tell = self._network.tell if self._network else None
        make = partial(CollectiveWork, self.machine, owner, owner_calls, tell)
        self._streams.issue(stream, Operation("collective", owner_calls[0].text, make, owner))


def require_no_overlap(call: Call, owner: Communicator) -> None:
    """Raise NcclFailed if source and target overlap, except in the positions that NCCL defines for in-place operation."""
    reads, writes = (size(owner.rank, owner.clique.ranks) for size in (call.source_bytes, call.target_bytes))
    shift = {"all_gather": reads * owner.rank, "reduce_scatter": -writes * owner.rank}.get(call.op, 0)
    overlap = call.source < call.target + writes and call.target < call.source + reads
    if overlap and call.source != call.target + shift:
        raise NcclFailed(Result.ncclInvalidArgument, f"{call.text} by {owner.label}: source and target overlap")


Item = TypeVar("Item")


def _grouped_by(items: Iterable[Item], key: Callable[[Item], Any]) -> list[list[Item]]:
    """Group items by key. Groups are in the order of the first occurrence of their key."""
    groups: dict[Any, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def _nccl_dtype(number: int) -> str:
    if number not in DTYPE_OF:
        raise NcclFailed(Result.ncclInvalidArgument, f"data type {number}")
    return DTYPE_OF[number]


def _nccl_op(number: int) -> str:
    if number not in KIND_OF:
        raise NcclFailed(Result.ncclInvalidArgument, f"reduction {number}")
    return KIND_OF[number]
