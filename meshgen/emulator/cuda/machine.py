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
from meshgen.emulator.cuda.timeline import Timeline, Work
from meshgen.emulator.cuda.types import CallFailed, CUresult, CUstreamCaptureMode, result_of_fault
from meshgen.emulator.cuda.work_races import READ, WRITE, History, Ranges, one_range
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.global_memory import Range
from meshgen.emulator.memory import Memory

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class DeviceKind:
    """The properties of a GPU model.

    Attributes:
        capability: compute capability (major, minor).
        memory_bytes: device memory.
        shared_bytes: maximum shared memory per block with opt-in.
        l2_bytes: size of the L2 cache.

    Source: CUDA C++ programming guide, "Technical specifications per compute capability"; data sheets of A100, H100,
    B200.
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
# maximum static shared memory per block, on all models (CUDA C++ guide, "Compute Capabilities")
STATIC_SHARED_BYTES = 49_152
THREADS_PER_BLOCK = 1024  # maximum threads per block, on all models (CUDA C++ guide, "Compute Capabilities")


class Machine:
    """State that the emulated driver and the emulated NCCL share.

    Attributes:
        kind: the model of all devices.
        current: index of the device whose context is set; None before the first `cuCtxSetCurrent`.
        captures: stream captures in progress.
        fault: the first fault on a device, after which every call fails.
    """

    def __init__(self, devices: int, kind: DeviceKind, *, seed: int = 0, races: bool = False, issues: int = 0) -> None:
        """Create a machine with `devices` idle devices.

        Args:
            seed: selects the order in which pending work runs.
            races: whether to check that accesses to the same bytes are ordered.
            issues: limit on instructions, as in `Checks`.
        """
        self.issues = issues
        self.devices, self.kind = devices, kind
        self.memory = Memory(devices * kind.memory_bytes)  # one address range, which all devices share
        self.timeline = Timeline(seed)
        self.history = History(self.name_of) if races else None
        if self.history:
            self.timeline.on_epoch.append(self.history.clear)
        self.is_initialized = False
        self.current: int | None = None
        self.fault: DeviceFault | None = None
        self.captures: list[Capture] = []
        self.images: dict[bytes, str] = {}  # digest of a cubin -> PTX from which it was compiled
        self.bodies: dict[bytes, Any] = {}  # image of a module -> kernel implemented in Python
        # address of the kernel parameters of a launch -> memory that this launch may access
        self.limits: dict[int, Sequence[Range]] = {}
        self.used = [0] * devices
        self.owners: dict[int, int] = {}  # address of an allocation -> device
        self.objects: dict[int, Any] = {}  # handle of the driver API -> object
        self.collectives: dict[int, Work] = {}  # device -> the collective that runs on it
        self.launches: dict[int, deque[Work]] = defaultdict(
            deque
        )  # device -> collectives that have not started, in the order of issue
        self.orders_launches = False  # whether collectives of a device start in the order of issue
        self._next_handle = 0x1000
        self._names: list[tuple[int, int, str]] = []

    def handle(self, value: Any) -> int:
        """Return a new handle for an object."""
        self._next_handle += 16
        self.objects[self._next_handle] = value
        return self._next_handle

    def find(self, handle: Any, kind: type[Found]) -> Found:
        """Return the object of a handle. Raises CallFailed if the handle is unknown or has another type."""
        value = self.objects.get(int(handle))
        if not isinstance(value, kind):
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_HANDLE)
        return value

    def refuse_in_capture(self) -> None:
        """Raise CallFailed and invalidate the captures if a capture is active that is not relaxed.

        The refused call could otherwise wait for work that is only captured, not executed.
        """
        strict_captures = [c for c in self.captures if c.mode != CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED]
        for capture in strict_captures:
            capture.is_invalid = True
        if strict_captures:
            raise CallFailed(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)

    @property
    def device(self) -> int:
        """Return the current device. Raises CallFailed without a current context."""
        if self.current is None:
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        return self.current

    def name(self, address: int, nbytes: int, text: str) -> None:
        """Name a part of an allocation in error messages."""
        bisect.insort(self._names, (address, address + nbytes, text))

    def forget_names(self, start: int, stop: int) -> None:
        """Drop the names of the freed allocation [start, stop)."""
        self._names = [entry for entry in self._names if entry[1] <= start or entry[0] >= stop]

    def name_of(self, start: int, stop: int) -> str:
        """Return a description of bytes for error messages: `bytes [16, 32) of 'arena of rank 0' ('weights')`."""
        holder = self.memory.range_of(start) or (start, start)
        names = [f"'{text}'" for first, last, text in self._names if first < stop and last > start]
        inner = f" ({', '.join(dict.fromkeys(names))})" if names else ""
        label = self.memory.label_of(start)
        return f"bytes [{start - holder[0]}, {stop - holder[0]}) of '{label}'{inner}"

    def limit(self, parameters: int, ranges: Sequence[Range]) -> None:
        """Restrict what a kernel may access if it is launched with `parameters`.

        The default is all memory of its device.

        Args:
            parameters: address of the pointer array that is passed to `cuLaunchKernel`.
            ranges: first address, bytes, and whether the range is writable.
        """
        self.limits[parameters] = ranges

    def ranges_of(self, device: int) -> list[Range]:
        """Return the allocations of a device as writable ranges."""
        return [(start, nbytes, True) for start, nbytes in self.memory.live if self.owners.get(start) == device]

    def read(self, work: Work, device: int, address: int, nbytes: int) -> Array:
        """Return the bytes that `work` reads. Raises DeviceFault for an invalid address or a race."""
        return self._access(work, device, READ, address, nbytes)

    def write(self, work: Work, device: int, address: int, nbytes: int) -> Array:
        """Return the bytes that `work` is about to write. Raises DeviceFault for an invalid address or a race."""
        return self._access(work, device, WRITE, address, nbytes)

    def _access(self, work: Work, device: int, kind: int, address: int, nbytes: int) -> Array:
        if not nbytes:
            return np.empty(0, np.uint8)
        content = self.memory.view(address, nbytes)
        self.touch(work, device, kind, one_range(address, nbytes))
        return content

    def touch(self, work: Work, device: int, kind: int, ranges: Ranges) -> None:
        """Record accesses of `work`; each range is within one allocation.

        Raises:
            DeviceFault: the memory belongs to another device, or the access is a race.
        """
        starts = np.asarray(sorted(self.owners), np.int64)
        holders = starts[np.searchsorted(starts, ranges[:, 0], side="right") - 1]
        for holder in np.unique(holders).tolist():
            if self.owners[holder] != device:
                reason = f"{work.label} accesses '{self.memory.label_of(holder)}' of device {self.owners[holder]}"
                raise DeviceFault("address", f"{reason}, but runs on device {device} without peer access")
            if self.history:
                self.history.add(work, kind, holder, ranges[holders == holder])

    def wait(self, work: Work | None) -> None:
        """Let the host wait for `work`. Raises DeviceFault if a work item fails."""
        self.timeline.wait(work)


Found = TypeVar("Found")


class Functions:
    """Base of the groups of API functions that operate on a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine


Self = TypeVar("Self", bound=Functions)


def call(
    outputs: int = 0, *, unsafe: bool = False, sticky: bool = True
) -> Callable[[Callable[Concatenate[Self, ...], Any]], Callable[Concatenate[Self, ...], tuple[Any, ...]]]:
    """Decorate a method as a driver function in the style of cuda-bindings.

    The function returns a tuple of the result code and `outputs` values.

    Args:
        unsafe: whether the call is illegal during a capture that is not relaxed; it invalidates that capture.
        sticky: whether the call fails after a device has failed.
    """

    def decorate(function: Callable[Concatenate[Self, ...], Any]) -> Callable[Concatenate[Self, ...], tuple[Any, ...]]:
        @wraps(function)
        def wrapper(self: Self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
            machine, no_values = self.machine, (None,) * outputs
            if machine.fault and sticky:
                return result_of_fault(machine.fault.kind), *no_values
            try:
                if unsafe:
                    machine.refuse_in_capture()
                value = function(self, *args, **kwargs)
            except CallFailed as error:
                return error.result, *no_values
            except DeviceFault as fault:
                machine.fault = fault
                return result_of_fault(fault.kind), *no_values
            values = () if not outputs else value if outputs > 1 else (value,)
            return CUresult.CUDA_SUCCESS, *values

        return wrapper

    return decorate
