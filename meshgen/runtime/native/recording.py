"""Recording implementations of CUDA and NCCL, which turn a step of the CUDA executor into the launch table.

The table therefore contains exactly the operations of the executor, and lowering, packing and ordering are implemented
only once. The memory of each rank begins at address `BASE`, and allocations are consecutive, so all ranks have the same
memory map.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from meshgen.emulator.cuda import types
from meshgen.emulator.global_memory import Range
from meshgen.runtime.cuda.api import Api
from meshgen.runtime.cuda.code import POINTER
from meshgen.runtime.cuda.device import Device, Launch
from meshgen.runtime.native.table_format import Call, Op, Parameter, Record
from meshgen.runtime.plan import STREAMS

# Parameters that hold numbers are below 2^53 (`ir/limits.py`) or negative, so no number equals an address.
BASE = 1 << 62
_ALIGNMENT = 512  # bytes (chosen: at least the alignment of cuMemAlloc)
_DONE = 0  # CUDA_SUCCESS and ncclSuccess
Outcome = tuple[Any, ...]


class Comm(NamedTuple):
    """A rank's communicator. Number 0 contains all ranks; the others are splits of it, in order of their creation."""

    number: int
    rank: int


class Function(NamedTuple):
    """A loaded kernel: its entry point, and its image, which is PTX or a placeholder for the code of a module's kernel."""

    image: bytes
    entry: str


class Tape:
    """Recorded operations of the ranks of one part, since the last call of `begin`."""

    def __init__(self) -> None:
        self.functions: dict[Function, int] = {}
        self.splits: list[dict[int, tuple[int, int]]] = []  # one map per split: rank -> (color, key)
        self._issued: dict[int, list[Record]] = {}
        self._group: dict[int, list[int]] | None = None
        self._groups = 0

    def begin(self) -> None:
        self._issued, self._group, self._groups = {}, None, 0

    @property
    def issued(self) -> dict[int, list[Record]]:
        """Return the operations of each rank in order."""
        return self._issued

    def add(self, stream: int, op: Op, *words: int) -> None:
        """Record an operation in a stream."""
        rank, stream_index = divmod(stream - 1, STREAMS)
        self._issued.setdefault(rank, []).append((op, stream_index, *words))

    def open_group(self) -> None:
        self._group = {}

    def call(self, kind: Call, comm: Comm, stream: int, source: int, target: int, *words: int) -> None:
        """Add an NCCL call to the current group. The address of an unused source or target is 0."""
        assert self._group is not None, "NCCL calls must be issued in groups"
        offsets = [address - BASE if address else 0 for address in (source, target)]
        self._group.setdefault(comm.rank, []).extend([kind, comm.number, (stream - 1) % STREAMS, *offsets, *words])

    def close_group(self) -> None:
        call_words = (
            9  # words of a call: kind, communicator, stream, source, target, count, dtype, reduction, peer or root
        )
        for rank, calls in (self._group or {}).items():
            self._issued.setdefault(rank, []).append((Op.GROUP, self._groups, len(calls) // call_words, *calls))
        self._group, self._groups = None, self._groups + 1


class RecordingDriver:
    """A replacement for `cuda.bindings.driver` that records calls."""

    CUdevice_attribute = types.CUdevice_attribute
    CUevent_flags = types.CUevent_flags
    CUstream_flags = types.CUstream_flags

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._images: list[bytes] = []
        self._current = 0
        self._stream_counts: dict[int, int] = {}  # rank -> number of its streams
        self.used: dict[int, int] = {}  # rank -> bytes of its memory
        self.events: dict[int, int] = {}  # rank -> number of its events

    def cuDeviceGet(self, ordinal: int) -> Outcome:
        return _DONE, ordinal

    def cuDevicePrimaryCtxRetain(self, device: int) -> Outcome:
        return _DONE, device

    def cuCtxSetCurrent(self, context: int) -> Outcome:
        self._current = context
        return (_DONE,)

    def cuDeviceGetAttribute(self, name: int, device: int) -> Outcome:
        """Return 0 as the compute capability, because the table does not depend on it."""
        return _DONE, 0

    def cuStreamCreateWithPriority(self, flags: int, priority: int) -> Outcome:
        index = self._stream_counts.get(self._current, 0)
        self._stream_counts[self._current] = index + 1
        return _DONE, 1 + self._current * STREAMS + index

    def cuMemAlloc(self, nbytes: int) -> Outcome:
        start = self.used.get(self._current, 0)
        self.used[self._current] = start + -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        return _DONE, BASE + start

    def cuModuleLoadData(self, image: bytes) -> Outcome:
        self._images.append(image)
        return _DONE, len(self._images) - 1

    def cuModuleGetFunction(self, module: int, entry: bytes) -> Outcome:
        function = Function(self._images[module], entry.decode())
        return _DONE, self._tape.functions.setdefault(function, len(self._tape.functions))

    def cuEventCreate(self, flags: int) -> Outcome:
        """Return an event, represented by its index within the rank. All ranks create their events in the same order."""
        index = self.events.get(self._current, 0)
        self.events[self._current] = index + 1
        return _DONE, index

    def cuEventRecord(self, event: int, stream: int) -> Outcome:
        self._tape.add(stream, Op.RECORD, event)
        return (_DONE,)

    def cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> Outcome:
        self._tape.add(stream, Op.WAIT, event)
        return (_DONE,)

    def cuMemcpyDtoDAsync(self, target: int, source: int, nbytes: int, stream: int) -> Outcome:
        self._tape.add(stream, Op.COPY, target - BASE, source - BASE, nbytes)
        return (_DONE,)

    def cuMemsetD8Async(self, address: int, value: int, nbytes: int, stream: int) -> Outcome:
        assert value == 0, "only fills with zeros are supported"
        self._tape.add(stream, Op.CLEAR, address - BASE, nbytes)
        return (_DONE,)


class RecordingNccl:
    """A replacement for `meshgen.runtime.cuda.nccl.Nccl` that records calls."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._splits: dict[int, int] = {}  # rank -> number of its splits

    def ncclGetUniqueId(self) -> Outcome:
        return _DONE, b""

    def ncclCommInitRank(self, ranks: int, unique_id: bytes, rank: int, name: str) -> Outcome:
        return _DONE, Comm(0, rank)

    def ncclCommSplit(self, comm: Comm, color: int, key: int, name: str) -> Outcome:
        index = self._splits.get(comm.rank, 0)
        self._splits[comm.rank] = index + 1
        if index == len(self._tape.splits):
            self._tape.splits.append({})
        self._tape.splits[index][comm.rank] = (color, key)
        return _DONE, Comm(index + 1, comm.rank)

    def ncclGroupStart(self) -> Outcome:
        self._tape.open_group()
        return (_DONE,)

    def ncclGroupEnd(self) -> Outcome:
        self._tape.close_group()
        return (_DONE,)

    def ncclAllReduce(
        self, source: int, target: int, count: int, dtype: int, kind: int, comm: Comm, stream: int
    ) -> Outcome:
        return self._call(Call.ALL_REDUCE, comm, stream, source, target, count, dtype, kind, 0)

    def ncclAllGather(self, source: int, target: int, count: int, dtype: int, comm: Comm, stream: int) -> Outcome:
        return self._call(Call.ALL_GATHER, comm, stream, source, target, count, dtype, 0, 0)

    def ncclReduceScatter(self, source: int, target: int, count: int, dtype: int, kind: int, comm: Comm, stream: int) -> Outcome:  # fmt: skip
        return self._call(Call.REDUCE_SCATTER, comm, stream, source, target, count, dtype, kind, 0)

    def ncclBroadcast(self, source: int, target: int, count: int, dtype: int, root: int, comm: Comm, stream: int) -> Outcome:  # fmt: skip
        return self._call(Call.BROADCAST, comm, stream, source, target, count, dtype, 0, root)

    def ncclReduce(self, source: int, target: int, count: int, dtype: int, kind: int, root: int, comm: Comm, stream: int) -> Outcome:  # fmt: skip
        return self._call(Call.REDUCE, comm, stream, source, target, count, dtype, kind, root)

    def ncclSend(self, source: int, count: int, dtype: int, peer: int, comm: Comm, stream: int) -> Outcome:
        return self._call(Call.SEND, comm, stream, source, 0, count, dtype, 0, peer)

    def ncclRecv(self, target: int, count: int, dtype: int, peer: int, comm: Comm, stream: int) -> Outcome:
        return self._call(Call.RECEIVE, comm, stream, 0, target, count, dtype, 0, peer)

    def _call(self, kind: Call, comm: Comm, stream: int, *words: int) -> Outcome:
        self._tape.call(kind, comm, stream, *words)
        return (_DONE,)


class RecordingApi(Api):
    """The interface to the recording driver and NCCL, which add their operations to `tape`."""

    def __init__(self) -> None:
        self.tape = Tape()
        self.recorder = RecordingDriver(self.tape)
        super().__init__(self.recorder, None, RecordingNccl(self.tape))
        self.ranges: dict[int, Sequence[Range]] = {}

    def limit_launch(self, parameters: int, ranges: Sequence[Range]) -> None:
        self.ranges[parameters] = ranges


class RecordingDevice(Device):
    """The GPU of a rank in a recording. It records launches with their parameters."""

    def __init__(self, api: RecordingApi, ordinal: int) -> None:
        super().__init__(api, ordinal)
        self._recorder = api

    def launch(self, launch: Launch, stream: int, *, is_current: bool = False) -> None:
        ranges = self._recorder.ranges[launch.parameters.address]
        words = [word for value, nbytes in launch.parameters.values for word in _parameter(value, nbytes, ranges)]
        count = len(launch.parameters.values)
        self._recorder.tape.add(stream, Op.LAUNCH, launch.function, *launch.grid, count, *words)


def _parameter(value: int, nbytes: int, ranges: Sequence[Range]) -> Record:
    if BASE <= value < 2 * BASE:
        ends = (start + size for start, size, _ in ranges if start <= value <= start + size)
        return Parameter.POINTER, value - BASE, max(ends) - value
    return (Parameter.WORD64 if nbytes == POINTER else Parameter.WORD32), value, 0
