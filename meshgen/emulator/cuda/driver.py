"""The emulated CUDA driver: the functions of `cuda.bindings.driver` that the runtime needs, on emulated GPUs.

As in cuda-bindings, a function returns a tuple of the result code and the output values. A handle may be any object
that `int()` accepts.
"""

from __future__ import annotations

from meshgen.emulator.cuda import types as cuda_types
from meshgen.emulator.cuda.devices import DeviceFunctions
from meshgen.emulator.cuda.graphs import GraphFunctions
from meshgen.emulator.cuda.machine import Machine
from meshgen.emulator.cuda.memory_functions import MemoryFunctions
from meshgen.emulator.cuda.modules import ModuleFunctions
from meshgen.emulator.cuda.streams import StreamFunctions, Streams


class EmulatedDriver(DeviceFunctions, MemoryFunctions, ModuleFunctions, StreamFunctions, GraphFunctions):
    """Emulated replacement of the module `cuda.bindings.driver`."""

    CUresult = cuda_types.CUresult
    CUdevice_attribute = cuda_types.CUdevice_attribute
    CUfunction_attribute = cuda_types.CUfunction_attribute
    CUmemorytype = cuda_types.CUmemorytype
    CUstream_flags = cuda_types.CUstream_flags
    CUevent_flags = cuda_types.CUevent_flags
    CUstreamCaptureMode = cuda_types.CUstreamCaptureMode
    CUstreamCaptureStatus = cuda_types.CUstreamCaptureStatus
    CUgraphExecUpdateResult = cuda_types.CUgraphExecUpdateResult
    CUDA_MEMCPY3D = cuda_types.CUDA_MEMCPY3D

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.streams = Streams(machine)
