"""Modules, kernels and launches of the emulated driver.

The emulator cannot execute the machine code of a cubin, so `register` must have provided the PTX of the cubin.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from meshgen.emulator.cuda.capture import Operation
from meshgen.emulator.cuda.machine import STATIC_SHARED_BYTES, THREADS_PER_BLOCK, Functions, call
from meshgen.emulator.cuda.streams import Stream, Streams
from meshgen.emulator.cuda.timeline import Work
from meshgen.emulator.cuda.types import CallFailed, CUfunction_attribute, CUresult
from meshgen.emulator.cuda.work_races import READ, WRITE, Accesses
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.global_memory import Range
from meshgen.emulator.launch import Checks, Shape, launch
from meshgen.emulator.parse import parse
from meshgen.emulator.program import Entry, Parameter, Program

ELF = b"\x7fELF"
_FLAGS, _ABI_VERSION = 48, 8  # byte offsets in the header of a 64-bit ELF file
# from this ABI version on, the architecture is the second byte of the flags; in earlier versions it is the first byte
_NEWER_ABI = 8
_BODY = b"meshgen body "


@dataclass(eq=False)
class Module:
    device: int
    program: Program
    body: Body | None = None


Body = Callable[[Work, int, Sequence[int]], None]  # (work, device, values of the parameters)


@dataclass(eq=False)
class Function:
    """A kernel of a module.

    Attributes:
        dynamic_bytes: maximum dynamic shared memory of a launch.
        body: a Python implementation, which replaces the PTX; None for PTX kernels.
    """

    device: int
    entry: Entry
    dynamic_bytes: int
    body: Body | None = None

    @property
    def threads(self) -> int:
        """Return the maximum number of threads per block."""
        return self.entry.max_threads or THREADS_PER_BLOCK


def arch_of_cubin(image: bytes) -> int:
    """Return the compute capability of a cubin as a number, such as 90 for capability 9.0.

    Source: headers of cubins of CUDA 12.8 and 12.9.
    """
    flags = int.from_bytes(image[_FLAGS : _FLAGS + 4], "little")
    return flags >> 8 & 0xFF if image[_ABI_VERSION] >= _NEWER_ABI else flags & 0xFF


def fits(target: str, capability: tuple[int, int]) -> bool:
    """Whether the driver can compile PTX for `target` on a device of the given capability.

    PTX for `sm_90` also runs on later architectures; PTX for `sm_90a` does not.
    """
    target_arch, device_arch = (
        int(target.removeprefix("sm_").rstrip("abcdefghijklmnopqrstuvwxyz")),
        capability[0] * 10 + capability[1],
    )
    if target.endswith("a"):
        return target_arch == device_arch
    return (
        target_arch // 10 == capability[0] and target_arch <= device_arch
        if target.endswith("f")
        else target_arch <= device_arch
    )


class ModuleFunctions(Functions):
    """The functions `cuModule*`, `cuFunc*` and `cuLaunchKernel`."""

    streams: Streams

    def register(self, cubin: bytes, ptx: str) -> None:
        """Register the PTX from which a cubin was compiled."""
        self.machine.images[_digest(cubin)] = ptx

    def define(self, name: str, parameters: Sequence[int], body: Body) -> bytes:
        """Return the image of a module with one kernel that is implemented by a Python function.

        Args:
            parameters: size of each parameter in bytes.
            body: the Python function, which accesses device memory through `machine.read` and `machine.write`.
        """
        offsets = list(itertools.accumulate(parameters, initial=0))
        declared = tuple(Parameter(str(n), f"b{8 * size}", offsets[n], size, 1) for n, size in enumerate(parameters))
        entry = Entry(name, declared, None, False, 0, offsets[-1], (), {})
        image = _BODY + str(len(self.machine.bodies)).encode()
        self.machine.bodies[image] = (entry, body)
        return image

    @call(outputs=1, unsafe=True)
    def cuModuleLoadData(self, image: bytes | int) -> int:
        """Load a module. `image` is PTX text, a registered cubin, or the address of either."""
        content = image if isinstance(image, bytes) else image_at(int(image))
        if content in self.machine.bodies:
            entry, body = self.machine.bodies[content]
            return self.machine.handle(Module(self.machine.device, Program("sm_80", {entry.name: entry}), body))
        try:
            program = parse(self._ptx_of_cubin(content) if content.startswith(ELF) else content.rstrip(b"\0").decode())
        except UnicodeDecodeError as error:  # neither a cubin nor text
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_IMAGE) from error
        except DeviceFault as fault:
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_PTX) from fault
        if not content.startswith(ELF) and not fits(program.target, self.machine.kind.capability):
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_PTX)
        return self.machine.handle(Module(self.machine.device, program))

    def _ptx_of_cubin(self, cubin: bytes) -> str:
        major, minor = self.machine.kind.capability
        arch = arch_of_cubin(cubin)
        # a cubin runs on devices with the same major and the same or a later minor version
        if arch // 10 != major or arch % 10 > minor:
            raise CallFailed(CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU)
        if _digest(cubin) not in self.machine.images:
            raise CallFailed(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        return self.machine.images[_digest(cubin)]

    @call()
    def cuModuleUnload(self, hmod: int) -> None:
        self.machine.find(hmod, Module)
        del self.machine.objects[int(hmod)]

    @call(outputs=1)
    def cuModuleGetFunction(self, hmod: int, name: bytes) -> int:
        module = self.machine.find(hmod, Module)
        if name.decode() not in module.program.entries:
            raise CallFailed(CUresult.CUDA_ERROR_NOT_FOUND)
        entry = module.program.entries[name.decode()]
        return self.machine.handle(
            Function(module.device, entry, STATIC_SHARED_BYTES - entry.shared_bytes, module.body)
        )

    @call(outputs=1)
    def cuFuncGetAttribute(self, attrib: int, hfunc: int) -> int:
        function, names = self.machine.find(hfunc, Function), CUfunction_attribute
        attributes = {
            names.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: function.threads,
            names.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: function.entry.shared_bytes,
            names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: function.dynamic_bytes,
        }
        if int(attrib) not in attributes:
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_VALUE)
        return attributes[CUfunction_attribute(int(attrib))]

    @call()
    def cuFuncSetAttribute(self, hfunc: int, attrib: int, value: int) -> None:
        function = self.machine.find(hfunc, Function)
        limit = self.machine.kind.shared_bytes - function.entry.shared_bytes
        is_size = int(attrib) == CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        if not is_size or not 0 <= value <= limit:
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_VALUE)
        function.dynamic_bytes = value

    @call()
    def cuLaunchKernel(self, f: int, gridDimX: int, gridDimY: int, gridDimZ: int, blockDimX: int, blockDimY: int,
                       blockDimZ: int, sharedMemBytes: int, hStream: int, kernelParams: int, extra: int) -> None:  # fmt: skip
        """Launch a kernel.

        `kernelParams` is the address of an array of pointers to the parameter values, which are read during this call.
        """
        function, stream = self.machine.find(f, Function), self.streams.find(hStream)
        grid, block = (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ)
        # a launch requires that the device of the kernel is current
        if not function.device == stream.device == self.machine.device:
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_HANDLE)
        if extra or not all(0 < n < 2**31 for n in grid) or max(grid[1:]) > 65_535 or min(block) < 1:
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_VALUE)
        _require_resources(function, block, sharedMemBytes)
        parameters = _parameters(function.entry, int(kernelParams))
        if function.body:
            run = partial(_run_body, function.entry, function.body, stream.device, parameters)
        else:
            ranges = self.machine.limits.get(int(kernelParams))
            run = partial(self._run, function.entry, grid, block, sharedMemBytes, parameters, stream, ranges)
        label = f"kernel '{function.entry.name}' on device {stream.device}"
        self.streams.issue(stream, Operation("kernel", label, lambda: Work(label, run)))

    def _run(self, entry: Entry, grid: Shape, block: Shape, shared_bytes: int, parameters: bytes, stream: Stream,
             ranges: Sequence[Range] | None, work: Work) -> None:  # fmt: skip
        machine, accesses = self.machine, Accesses()
        races = machine.history is not None
        allowed = machine.ranges_of(stream.device) if ranges is None else ranges
        checks = Checks(races, allowed, accesses.add if races else None, machine.issues)
        launch(entry, grid, block, shared_bytes, parameters, machine.memory, checks=checks)
        for kind in (READ, WRITE):
            machine.touch(work, stream.device, kind, accesses.ranges(kind))


def _run_body(entry: Entry, body: Body, device: int, parameters: bytes, work: Work) -> None:
    values = [
        int.from_bytes(parameters[parameter.offset : parameter.offset + parameter.size], "little")
        for parameter in entry.parameters
    ]
    body(work, device, values)


def _require_resources(function: Function, block: Shape, shared_bytes: int) -> None:
    """Raise CallFailed if the block size or the shared memory exceeds what the kernel was compiled for."""
    threads = block[0] * block[1] * block[2]
    is_wrong_size = function.entry.exact_threads and threads != function.threads
    if threads > THREADS_PER_BLOCK or is_wrong_size or shared_bytes > function.dynamic_bytes:
        raise CallFailed(CUresult.CUDA_ERROR_INVALID_VALUE)
    if threads > function.threads:
        raise CallFailed(CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)


def _parameters(entry: Entry, pointers: int) -> bytes:
    """Return the parameter block of a launch as bytes. Raises CallFailed if the kernel has parameters and `pointers` is
    null.
    """
    if not entry.parameters:
        return b""
    if not pointers:
        raise CallFailed(CUresult.CUDA_ERROR_INVALID_VALUE)
    block = bytearray(entry.parameter_bytes)
    table = ctypes.cast(pointers, ctypes.POINTER(ctypes.c_void_p))
    for index, parameter in enumerate(entry.parameters):
        block[parameter.offset : parameter.offset + parameter.size] = ctypes.string_at(
            table[index] or 0, parameter.size
        )
    return bytes(block)


def image_at(address: int) -> bytes:
    """Return the PTX text or the cubin at a host address. PTX ends with a zero byte; the size of a cubin is in its
    header.
    """
    if ctypes.string_at(address, 4) != ELF:
        return ctypes.string_at(address)
    header = ctypes.string_at(address, 64)
    sections, entry_bytes, count = (int.from_bytes(header[a:b], "little") for a, b in ((40, 48), (58, 60), (60, 62)))
    programs, program_bytes, programs_count = (
        int.from_bytes(header[a:b], "little") for a, b in ((32, 40), (54, 56), (56, 58))
    )
    end = max(sections + entry_bytes * count, programs + program_bytes * programs_count)
    return ctypes.string_at(address, end)


def _digest(image: bytes) -> bytes:
    return hashlib.sha256(image).digest()
