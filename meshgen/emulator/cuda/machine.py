"""An emulated machine: GPUs of one kind, their memory, and the work that is pending on them."""

from __future__ import annotations

import bisect
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, TypeVar

import numpy as np

from meshgen.emulator.cuda.capture import Capture
from meshgen.emulator.cuda.history import READ, WRITE, History, Ranges, one_range
from meshgen.emulator.cuda.timeline import Timeline, Work
from meshgen.emulator.cuda.types import CallFailed, CUresult, CUstreamCaptureMode, result_of_fault
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.global_memory import Range
from meshgen.emulator.memory import Memory

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class DeviceKind:
    """The properties of a kind of GPU.

    Attributes:
        capability: major and minor number.
        memory_bytes: all memory of the device.
        shared_bytes: shared memory that a block can opt in to.
        l2_bytes: of the L2 cache.

    Source: CUDA C++ programming guide, "Technical specifications per compute capability"; data sheets of A100, H100, B200.
    """

    name: str
    capability: tuple[int, int]
    memory_bytes: int
    multiprocessors: int
    shared_bytes: int
    l2_bytes: int

    @property
    def arch(self) -> str:
        return f"sm_{self.capability[0]}{self.capability[1]}"


DEVICE_KINDS = {
    kind.arch: kind
    for kind in (
        DeviceKind("Emulated A100", (8, 0), 80 << 30, 108, 166_912, 40 << 20),
        DeviceKind("Emulated H100", (9, 0), 80 << 30, 132, 232_448, 50 << 20),
        DeviceKind("Emulated B200", (10, 0), 180 << 30, 148, 232_448, 126 << 20),
    )
}
STATIC_SHARED_BYTES = 49_152  # what a block can have without opting in, on all of them
THREADS_PER_BLOCK = 1024  # at most, on all of them (CUDA C++ guide, "Compute Capabilities")


class Machine:
    """State that the emulated driver and the emulated NCCL share.

    Attributes:
        kind: of all its devices.
        current: number of the device whose context is current; None before the first `cuCtxSetCurrent`.
        captures: the stream captures that are under way.
        fault: what has gone wrong on a device; from then on every call fails.
    """

    def __init__(self, devices: int, kind: DeviceKind, *, seed: int = 0, races: bool = False, issues: int = 0) -> None:
        """`seed` decides in which order work runs; `races`: check that accesses to the same bytes are ordered; `issues` as of `Checks`."""
        self.issues = issues
        self.devices, self.kind = devices, kind
        self.memory = Memory(devices * kind.memory_bytes)  # one range of addresses for all devices
        self.timeline = Timeline(seed)
        self.history = History(self.name_of) if races else None
        if self.history:
            self.timeline.on_epoch.append(self.history.clear)
        self.is_initialized = False
        self.current: int | None = None
        self.fault: DeviceFault | None = None
        self.captures: list[Capture] = []
        self.images: dict[bytes, str] = {}  # the PTX of cubins, by digest
        self.bodies: dict[bytes, Any] = {}  # kernels that are functions of Python, by the image of their module
        self.limits: dict[int, Sequence[Range]] = {}  # what launches may touch, by the address of their parameters
        self.used = [0] * devices
        self.owners: dict[int, int] = {}  # of allocations, by address
        self.objects: dict[int, Any] = {}  # what handles stand for
        self.collectives: dict[int, Work] = {}  # the one that a device is in, by device
        self.launches: dict[int, deque[Work]] = defaultdict(
            deque
        )  # collectives that have not begun, by device, as issued
        self.orders_launches = False  # collectives of a device begin in the order in which they are issued
        self._next_handle = 0x1000
        self._names: list[tuple[int, int, str]] = []

    def handle(self, value: Any) -> int:
        """A new handle for a value."""
        self._next_handle += 16
        self.objects[self._next_handle] = value
        return self._next_handle

    def find(self, handle: Any, kind: type[Found]) -> Found:
        """The object of a handle. Raises CallFailed for an unknown handle, or one of another kind."""
        value = self.objects.get(int(handle))
        if not isinstance(value, kind):
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_HANDLE)
        return value

    def refuse_in_capture(self) -> None:
        """Raises CallFailed in a capture that is not relaxed, and ends it: the call could wait for what it captures."""
        strict = [c for c in self.captures if c.mode != CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED]
        for each in strict:
            each.is_invalid = True
        if strict:
            raise CallFailed(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)

    @property
    def device(self) -> int:
        """The current device. Raises CallFailed without a current context."""
        if self.current is None:
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        return self.current

    def name(self, address: int, nbytes: int, text: str) -> None:
        """Set the name of an allocation's bytes in messages."""
        bisect.insort(self._names, (address, address + nbytes, text))

    def forget_names(self, start: int, stop: int) -> None:
        """When an allocation ends."""
        self._names = [each for each in self._names if each[1] <= start or each[0] >= stop]

    def name_of(self, start: int, stop: int) -> str:
        """Bytes for display: `bytes [16, 32) of 'arena of rank 0' ('weights', 'result')`."""
        holder = self.memory.range_of(start) or (start, start)
        names = [f"'{text}'" for first, last, text in self._names if first < stop and last > start]
        inner = f" ({', '.join(dict.fromkeys(names))})" if names else ""
        label = self.memory.label_of(start)
        return f"bytes [{start - holder[0]}, {stop - holder[0]}) of '{label}'{inner}"

    def limit(self, parameters: int, ranges: Sequence[Range]) -> None:
        """Say what a kernel may touch when it is launched with these parameters: without it, all memory of its device.

        Args:
            parameters: the address of the array of pointers that `cuLaunchKernel` is given.
            ranges: first address, bytes, and whether they may be written.
        """
        self.limits[parameters] = ranges

    def ranges_of(self, device: int) -> list[Range]:
        """First address and size of what is allocated on a device, all of it writable."""
        return [(start, nbytes, True) for start, nbytes in self.memory.live if self.owners.get(start) == device]

    def read(self, work: Work, device: int, address: int, nbytes: int) -> Array:
        """Bytes that work of a device reads. Raises DeviceFault."""
        return self._access(work, device, READ, address, nbytes)

    def write(self, work: Work, device: int, address: int, nbytes: int) -> Array:
        """Bytes that work of a device is about to write. Raises DeviceFault."""
        return self._access(work, device, WRITE, address, nbytes)

    def _access(self, work: Work, device: int, kind: int, address: int, nbytes: int) -> Array:
        if not nbytes:
            return np.empty(0, np.uint8)
        found = self.memory.view(address, nbytes)
        self.touch(work, device, kind, one_range(address, nbytes))
        return found

    def touch(self, work: Work, device: int, kind: int, ranges: Ranges) -> None:
        """Record accesses of work, each range within one allocation. Raises DeviceFault for another device's memory, or a race."""
        starts = np.asarray(sorted(self.owners), np.int64)
        holders = starts[np.searchsorted(starts, ranges[:, 0], side="right") - 1]
        for holder in np.unique(holders).tolist():
            if self.owners[holder] != device:
                reason = f"{work.label} accesses '{self.memory.label_of(holder)}' of device {self.owners[holder]}"
                raise DeviceFault("address", f"{reason}, but runs on device {device} without peer access")
            if self.history:
                self.history.add(work, kind, holder, ranges[holders == holder])

    def wait(self, work: Work | None) -> None:
        """The host waits for work. Raises DeviceFault."""
        self.timeline.wait(work)


Found = TypeVar("Found")


class Functions:
    """Functions of an API on a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine


Self = TypeVar("Self", bound=Functions)


def call(
    outputs: int = 0, *, unsafe: bool = False, sticky: bool = True
) -> Callable[[Callable[Concatenate[Self, ...], Any]], Callable[Concatenate[Self, ...], tuple[Any, ...]]]:
    """Make a method a function of the driver as cuda-bindings gives them: it returns its result code and `outputs` values.

    Args:
        unsafe: refused while a stream is captured in any mode but the relaxed one, which ends that capture.
        sticky: fails after a fault.
    """

    def decorate(function: Callable[Concatenate[Self, ...], Any]) -> Callable[Concatenate[Self, ...], tuple[Any, ...]]:
        @wraps(function)
        def wrapper(self: Self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
            machine, nothing = self.machine, (None,) * outputs
            if machine.fault and sticky:
                return result_of_fault(machine.fault.kind), *nothing
            try:
                if unsafe:
                    machine.refuse_in_capture()
                value = function(self, *args, **kwargs)
            except CallFailed as error:
                return error.result, *nothing
            except DeviceFault as fault:
                machine.fault = fault
                return result_of_fault(fault.kind), *nothing
            values = () if not outputs else value if outputs > 1 else (value,)
            return CUresult.CUDA_SUCCESS, *values

        return wrapper

    return decorate
