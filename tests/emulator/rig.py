"""An emulated machine for tests: its driver and NCCL, wrappers for calls that must succeed, and an example kernel."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from meshgen.emulator.cuda.driver import EmulatedDriver
from meshgen.emulator.cuda.machine import DEVICE_KINDS, Machine
from meshgen.emulator.cuda.nccl import EmulatedNccl

Array = np.ndarray[Any, Any]

# y[i] = x[i] + 1 for i < 32, in one block of 32 threads, f32
ADD_ONE = """
.version 8.7
.target sm_80
.address_size 64
.visible .entry add_one(.param .u64 add_one_x, .param .u64 add_one_y) .reqntid 32
{
  .reg .b32 %r<4>; .reg .f32 %f<3>; .reg .b64 %rd<8>;
  ld.param.b64 %rd1, [add_one_x];
  ld.param.b64 %rd2, [add_one_y];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.b32 %r2, [%rd4];
  mov.b32 %f1, %r2;
  add.f32 %f2, %f1, 0f3F800000;
  mov.b32 %r3, %f2;
  st.global.b32 [%rd5], %r3;
  ret;
}
"""
COUNT = 32  # elements that the kernel processes
NBYTES = 4 * COUNT


def ok(outcome: tuple[Any, ...]) -> Any:
    """Check that a driver call succeeded, and return its value, or a tuple if it has several values."""
    result, *values = outcome
    assert int(result) == 0, result
    return values[0] if len(values) == 1 else tuple(values)


class Rig:
    """Emulated GPUs. Functions of `driver` return error codes; methods of this class check them and return values."""

    def __init__(self, devices: int = 1, seed: int = 0, races: bool = False, arch: str = "sm_80") -> None:
        self.machine = Machine(devices, DEVICE_KINDS[arch], seed=seed, races=races)
        self.driver, self.devices = EmulatedDriver(self.machine), devices
        self.nccl = EmulatedNccl(self.driver)
        self._kept: list[Any] = []
        ok(self.driver.cuInit(0))
        self.use(0)

    def use(self, device: int) -> None:
        """Make a device current."""
        ok(self.driver.cuCtxSetCurrent(ok(self.driver.cuDevicePrimaryCtxRetain(device))))

    def stream(self) -> int:
        return ok(self.driver.cuStreamCreateWithPriority(1, 0))

    def event(self) -> int:
        return ok(self.driver.cuEventCreate(2))

    def array(self, values: Array) -> int:
        """Copy values to the current device and return their address."""
        address = ok(self.driver.cuMemAlloc(max(values.nbytes, 1)))
        ok(self.driver.cuMemcpyHtoD(address, values.ctypes.data, values.nbytes))
        return address

    def room(self, nbytes: int = NBYTES) -> int:
        return ok(self.driver.cuMemAlloc(nbytes))

    def read(self, address: int, count: int = COUNT, dtype: Any = np.float32) -> Array:
        values = np.empty(count, dtype)
        ok(self.driver.cuMemcpyDtoH(values.ctypes.data, address, values.nbytes))
        return values

    def function(self, text: str = ADD_ONE, name: str = "add_one") -> int:
        module = ok(self.driver.cuModuleLoadData(text.encode()))
        return ok(self.driver.cuModuleGetFunction(module, name.encode()))

    def parameters(self, *values: int) -> int:
        """Return the address of an array of pointers to 64-bit values, which cuLaunchKernel expects."""
        cells = [ctypes.c_uint64(value) for value in values]
        table = (ctypes.c_void_p * len(cells))(*[ctypes.addressof(cell) for cell in cells])
        self._kept += [cells, table]
        return ctypes.addressof(table)

    def launch(self, function: int, x: int, y: int, stream: int, threads: int = 32, shared: int = 0) -> tuple[Any, ...]:
        """Launch `add_one` with one block."""
        return self.driver.cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, shared, stream, self.parameters(x, y), 0)

    def add_one(self, function: int, x: int, y: int, stream: int) -> None:
        ok(self.launch(function, x, y, stream))

    def order(self, before: int, after: int) -> None:
        """Let stream `after` wait for the work in stream `before`."""
        event = self.event()
        ok(self.driver.cuEventRecord(event, before))
        ok(self.driver.cuStreamWaitEvent(after, event, 0))
