"""The GPU of a rank with memory, kernels, streams and events.

All of them are created before a step, so a step allocates nothing.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from meshgen.errors import Diagnostic, MissingError, RuntimeFailure
from meshgen.printable import bytes_text, distinguishable_sizes
from meshgen.runtime.cuda.api import NOT_READY, Api
from meshgen.runtime.plan import STREAMS

Array = np.ndarray[Any, Any]
CELLS = {4: ctypes.c_uint32, 8: ctypes.c_uint64}  # size of a launch parameter in bytes -> its C type
# seconds to wait for running work; after that, a device is abandoned and its memory leaks (chosen: far above a step)
GRACE_SECONDS = 5.0
# bytes of dynamic shared memory per block that every architecture grants without opt-in (CUDA C++ Programming Guide)
STATIC_SHARED_BYTES = 49_152


class ParameterBlock:
    """The parameter values of a launch, and the array of pointers to these values that `cuLaunchKernel` takes."""

    def __init__(self, values: Sequence[tuple[int, int]]) -> None:
        """`values` has the value and the size in bytes of each parameter."""
        self.values = tuple(values)
        self._cells = [CELLS[nbytes](value) for value, nbytes in values]
        self._pointers = (ctypes.c_void_p * max(1, len(values)))(*map(ctypes.addressof, self._cells))
        self.address = ctypes.addressof(self._pointers)


@dataclass(frozen=True)
class Launch:
    """A kernel that is ready to launch: function, launch configuration and parameters."""

    function: int
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int
    parameters: ParameterBlock

    @cached_property
    def head(self) -> tuple[int, ...]:
        """Return the leading arguments of `cuLaunchKernel`, which precede the stream."""
        return self.function, *self.grid, self.threads, 1, 1, self.shared_bytes


class Device:
    """The GPU of one rank. Every method first makes the device's CUDA context current."""

    def __init__(self, api: Api, ordinal: int) -> None:
        self.api, self.ordinal = api, ordinal
        self._device = api.cuda("cuDeviceGet", ordinal)
        self.context = api.cuda("cuDevicePrimaryCtxRetain", self._device)
        self._modules: dict[bytes, int] = {}
        self._allocations: list[int] = []
        self._events: dict[object, int] = {}
        self.use()
        flags = api.driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        # A lower number is a higher priority, so communication gets multiprocessors first.
        self.streams = [int(api.cuda("cuStreamCreateWithPriority", int(flags), -n)) for n in range(STREAMS)]

    def use(self) -> None:
        self.api.cuda("cuCtxSetCurrent", self.context)

    @property
    def capability(self) -> tuple[int, int]:
        """Return the major and minor number of the compute capability."""
        names, device = self.api.driver.CUdevice_attribute, self._device
        major = names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
        minor = names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
        return tuple(int(self.api.cuda("cuDeviceGetAttribute", attribute, device)) for attribute in (major, minor))  # type: ignore[return-value]

    def allocate(self, nbytes: int, name: str) -> int:
        """Allocate memory that is freed by `close`, and return its address, a multiple of 256 bytes.

        Raises RuntimeFailure MG0604 if the device is out of memory.
        """
        self.use()
        try:
            address = int(self.api.cuda("cuMemAlloc", max(nbytes, 1)))
        except RuntimeFailure as failure:
            why = failure.diagnostics[0]
            text = f"GPU {self.ordinal} cannot allocate the {name}, {bytes_text(nbytes)}: {why.message}"
            raise RuntimeFailure(Diagnostic(why.code, text, hint="split the program over more devices")) from failure
        self._allocations.append(address)
        self.api.name_memory(address, max(nbytes, 1), name)
        return address

    def upload(self, address: int, array: Array) -> None:
        """Copy an array to the device, synchronously."""
        contiguous = np.ascontiguousarray(array)
        if contiguous.nbytes:
            self.use()
            self.api.cuda("cuMemcpyHtoD", address, contiguous.ctypes.data, contiguous.nbytes)

    def download(self, address: int, array: Array) -> Array:
        """Fill a contiguous array from device memory. All work that writes this memory must have finished."""
        if array.nbytes:
            self.use()
            self.api.cuda("cuMemcpyDtoH", array.ctypes.data, address, array.nbytes)
        return array

    def function(self, image: bytes, entry: str, shared_bytes: int) -> int:
        """Load a kernel from a cubin or PTX text, and allow it `shared_bytes` of dynamic shared memory per block.

        Raises MissingError MG0602 if the GPU has less shared memory.
        """
        self.use()
        if image not in self._modules:
            self._modules[image] = int(self.api.cuda("cuModuleLoadData", image))
        function = int(self.api.cuda("cuModuleGetFunction", self._modules[image], entry.encode()))
        if shared_bytes > STATIC_SHARED_BYTES:
            self._require_shared(entry, shared_bytes)
            name = self.api.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.api.cuda("cuFuncSetAttribute", function, name, shared_bytes)
        return function

    def _require_shared(self, entry: str, nbytes: int) -> None:
        """Raise MissingError MG0602 if a block cannot have `nbytes` of shared memory on this GPU.

        The limit differs among GPUs of one major version, but a cubin for the lowest minor version runs on all of them.
        """
        attribute = self.api.driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        available_bytes = int(self.api.cuda("cuDeviceGetAttribute", attribute, self._device))
        if nbytes > available_bytes:
            needed_text, available = distinguishable_sizes(nbytes, available_bytes)
            text = f"kernel '{entry}' takes {needed_text} of shared memory per block, but GPU {self.ordinal} has {available}"
            hint = "compile again with --target cuda:sm_{}{}".format(*self.capability)
            raise MissingError(Diagnostic("MG0602", text, hint=hint))

    @cached_property
    def _launch_kernel(self) -> Callable[..., Any]:
        return self.api.driver.cuLaunchKernel

    def launch(self, launch: Launch, stream: int, *, is_current: bool = False) -> None:
        """Launch a kernel in a stream.

        `is_current` states that the device's context is current already, which saves a driver call.
        """
        if not is_current:
            self.use()
        (result,) = self._launch_kernel(*launch.head, stream, launch.parameters.address, 0)
        if result:
            raise self.api.failure("cuLaunchKernel", result)

    def event(self, key: object, *, is_timed: bool = False) -> int:
        """Return the event with this name, created on first use. Elapsed times can be measured if `is_timed`."""
        if key not in self._events:
            self.use()
            flags = 0 if is_timed else self.api.driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
            self._events[key] = int(self.api.cuda("cuEventCreate", int(flags)))
        return self._events[key]

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy bytes from one address of the device to another one."""
        self.use()
        self.api.cuda("cuMemcpyDtoDAsync", target, source, nbytes, stream)

    def clear(self, address: int, nbytes: int, stream: int) -> None:
        """Set `nbytes` bytes of device memory to zero."""
        self.use()
        self.api.cuda("cuMemsetD8Async", address, 0, nbytes, stream)

    def record(self, key: object, stream: int) -> None:
        """Record the event with this name in a stream."""
        self.use()
        self.api.cuda("cuEventRecord", self.event(key), stream)

    def close(self) -> None:
        """Wait for all work and free all resources."""
        self.use()
        for stream in self.streams:
            self.api.cuda("cuStreamSynchronize", stream)
        for name, handle in self._release_calls():
            self.api.cuda(name, handle)

    def abandon(self) -> None:
        """Free all resources after a failure. Errors are ignored, because every call to a failed device may fail.

        If work does not end within `GRACE_SECONDS`, nothing is freed, because freeing memory would wait for that work.
        """
        self.use()
        deadline = time.monotonic() + GRACE_SECONDS
        while any(map(self._is_busy, self.streams)):
            if time.monotonic() > deadline:
                return
            time.sleep(1e-3)
        for name, handle in self._release_calls():
            getattr(self.api.driver, name)(handle)

    def _is_busy(self, stream: int) -> bool:
        (result,) = self.api.driver.cuStreamQuery(stream)
        return int(result) == NOT_READY and not self.api.is_stuck

    def _release_calls(self) -> Iterator[tuple[str, Any]]:
        """Yield the driver call that frees each resource."""
        yield from (("cuStreamDestroy", stream) for stream in self.streams)
        yield from (("cuEventDestroy", event) for event in self._events.values())
        yield from (("cuModuleUnload", module) for module in self._modules.values())
        yield from (("cuMemFree", address) for address in self._allocations)
        # Otherwise, other users of CUDA in this thread, such as PyTorch, would find a destroyed context.
        yield "cuCtxSetCurrent", 0
        yield "cuDevicePrimaryCtxRelease", self._device
