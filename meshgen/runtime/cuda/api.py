"""The CUDA driver and NCCL, real or emulated, behind one interface for the executor.

    real()                    NVIDIA's `cuda.bindings.driver`, and libnccl
    emulated(devices, ...)    Python objects with the same functions

A function is called by name; its outputs besides the result code are returned, and a code other than success is an error.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from meshgen.ccl.world import World
from meshgen.emulator.cuda.driver import EmulatedDriver
from meshgen.emulator.cuda.machine import DEVICE_KINDS, Machine
from meshgen.emulator.cuda.nccl import EmulatedNccl
from meshgen.emulator.global_memory import Range
from meshgen.errors import Diagnostic, MissingError, RuntimeFailure, UsageError
from meshgen.packages import install
from meshgen.runtime.cuda.nccl import load_nccl
from meshgen.runtime.cuda.retired import begin_call, end_call
from meshgen.runtime.emulate import KernelSource

LAUNCH_ORDER = "NCCL_LAUNCH_ORDER_IMPLICIT"  # since NCCL 2.26; from CUDA 12.3 on what has begun may overlap
NOT_READY = 600  # CUDA_ERROR_NOT_READY
OLDEST_DRIVER = 12_000  # of CUDA 12.0: cubins are made by ptxas 12.8, which all later drivers of CUDA 12 accept
_EMULATED = "--device emulate (of bench collectives: --engine emulated) needs no GPU"


class Api:
    """The two libraries.

    Attributes:
        driver: has the functions, enumerations and structures of `cuda.bindings.driver`.
        machine: the emulated machine; None for real GPUs.
        sources: Triton source of kernels by their entry, for faults of emulated devices.
    """

    def __init__(self, driver: Any, machine: Machine | None = None, nccl: Any = None) -> None:
        self.driver, self.machine, self._nccl = driver, machine, nccl
        self.sources: dict[str, KernelSource] = {}

    @cached_property
    def nccl(self) -> Any:
        """NCCL; the real one is loaded when it is first needed. Raises MissingError MG0602."""
        return load_nccl() if self._nccl is None else self._nccl

    def cuda(self, name: str, *args: Any) -> Any:
        """Call a function of the driver.

        Raises:
            RuntimeFailure: MG0604 with CUDA's number and text; MG0608, a fault of an emulated device.
        """
        result, *values = getattr(self.driver, name)(*args)
        if result:
            raise self.failure(name, result)
        return values[0] if len(values) == 1 else tuple(values)

    def failure(self, name: str, result: Any) -> RuntimeFailure:
        """The failure of a call of the driver whose result is not 0."""
        return self._failure(name, int(result), self._text_of(result))

    def handle(self, kind: str, number: int) -> Any:
        """A handle of the driver as its own type, such as CUstream, which calls that are made very often take in half the time."""
        return getattr(self.driver, kind, int)(number)

    def comm(self, name: str, *args: Any) -> Any:
        """Call a function of NCCL. Raises as `cuda`."""
        result, *values = getattr(self.nccl, name)(*args)
        if result:
            last = self.nccl.ncclGetLastError()
            text = self.nccl.ncclGetErrorString(int(result)) + (f"; {last.strip()}" if last else "")
            raise self._failure(name, int(result), text)
        return values[0] if values else None

    def is_idle(self, stream: int) -> bool:
        """Whether all work in a stream is done. Raises as `cuda`."""
        (result,) = self.driver.cuStreamQuery(stream)
        if result and int(result) != NOT_READY:
            raise self.failure("cuStreamQuery", result)
        return not result

    @contextmanager
    def kept_context(self) -> Generator[None]:
        """The context that is current in this thread before is so afterwards: other users of CUDA, as PyTorch, rely on it.

        What is not used any more is not freed before the end.
        """
        begin_call()
        try:
            before = self.cuda("cuCtxGetCurrent")
            try:
                yield
            finally:
                self.driver.cuCtxSetCurrent(before)
        finally:
            end_call()

    @property
    def is_stuck(self) -> bool:
        """Whether emulated devices are deadlocked."""
        return self.machine is not None and self.machine.timeline.is_stuck

    def order_collectives(self) -> None:
        """Let collectives of a device begin in the order of issue though they are in several streams, as on all other devices.

        Else two that wait for each other's multiprocessors could deadlock. NCCL reads the variable when it is first used.
        """
        if self.machine:
            self.machine.orders_launches = True
        else:
            os.environ[LAUNCH_ORDER] = "1"

    def name_memory(self, address: int, nbytes: int, text: str) -> None:
        """Set the name of these bytes in messages of an emulated device."""
        if self.machine:
            self.machine.name(address, nbytes, text)

    def limit_launch(self, parameters: int, ranges: Sequence[Range]) -> None:
        """Declare the memory that a launch with these parameters may touch (see `Machine.limit`), for emulated devices."""
        if self.machine:
            self.machine.limit(parameters, ranges)

    def _failure(self, name: str, number: int, text: str) -> RuntimeFailure:
        if self.machine and (fault := self.machine.fault):
            source = self.sources.get(fault.kernel)
            return source.told(fault) if source else fault
        return RuntimeFailure(Diagnostic("MG0604", f"{name} failed with {number}: {text}"))

    def _text_of(self, result: Any) -> str:
        _, name = self.driver.cuGetErrorName(result)
        _, text = self.driver.cuGetErrorString(result)
        return f"{(name or b'unknown').decode()}, {(text or b'unknown').decode()}"


class HasApi(Protocol):
    api: Api


Self = TypeVar("Self", bound=HasApi)
Given = ParamSpec("Given")
Result = TypeVar("Result")


def keeps_context(
    method: Callable[Concatenate[Self, Given], Result],
) -> Callable[Concatenate[Self, Given], Result]:
    """A method that leaves this thread's current context as it is (see `Api.kept_context`)."""

    @wraps(method)
    def wrapper(self: Self, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        with self.api.kept_context():
            return method(self, *args, **kwargs)

    return wrapper


def emulated(devices: int, arch: str, *, seed: int = 0, races: bool = False, issues: int = 0,
             world: World | None = None) -> Api:  # fmt: skip
    """Emulated GPUs.

    Args:
        arch: of the GPUs, as `sm_90`. Raises MissingError MG0602 for an unknown one.
        seed: of the random order in which work runs.
        races: check that accesses to the same bytes are ordered.
        issues: instructions that a wave of blocks may issue; 0: the default.
        world: the ranks, one of which is this process's; None: all are.
    """
    if arch not in DEVICE_KINDS:
        hint = f"known architectures are {', '.join(DEVICE_KINDS)}"
        raise MissingError(Diagnostic("MG0602", f"unknown architecture '{arch}' of an emulated GPU", hint=hint))
    machine = Machine(devices, DEVICE_KINDS[arch], seed=seed, races=races, issues=issues)
    driver = EmulatedDriver(machine)
    api = Api(driver, machine, EmulatedNccl(driver, world))
    api.cuda("cuInit", 0)
    return api


def real(devices: int) -> Api:
    """The GPUs of this machine; `devices` are needed.

    Raises:
        MissingError: MG0602, cuda-bindings or the driver is missing, the driver is too old, or there are too few GPUs (MG0603).
    """
    return _with_gpus(devices, f"the module needs {devices} GPUs")


def real_of(world: World) -> Api:
    """The same for this process's rank, whose GPU has the local rank as ordinal.

    Raises:
        UsageError: MG0611, the launcher has set no local rank.
        MissingError: as `real`.
    """
    if world.local_rank is None:
        hint = "set LOCAL_RANK, as torchrun, mpiexec and srun do for their processes"
        raise UsageError(Diagnostic("MG0611", f"the GPU of rank {world.rank} is unknown", hint=hint))
    return _with_gpus(world.local_rank + 1, f"rank {world.rank} needs GPU {world.local_rank} of its machine")


def _with_gpus(devices: int, need: str) -> Api:
    try:
        driver = importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        hint = f"{install('cuda12')}; {_EMULATED}"
        raise MissingError(Diagnostic("MG0602", "the package cuda-bindings is not installed", hint=hint)) from error
    api = Api(driver)
    require_driver(api)
    count = int(api.cuda("cuDeviceGetCount"))
    if count < devices:
        raise MissingError(Diagnostic("MG0603", f"{need}, but there are {count}", hint=_EMULATED))
    return api


def require_driver(api: Api) -> None:
    """Raise MissingError MG0602 if NVIDIA's driver is missing, does not work or is too old."""
    hint = f"install NVIDIA's driver 525 or later; {_EMULATED}"
    try:
        api.cuda("cuInit", 0)
        version = int(api.cuda("cuDriverGetVersion"))
    except RuntimeError as error:  # of cuda-bindings: it finds no libcuda
        raise MissingError(Diagnostic("MG0602", f"NVIDIA's driver is missing: {error}", hint=hint)) from error
    except RuntimeFailure as failure:  # of the driver: no device, or it does not fit the kernel module
        raise MissingError(Diagnostic("MG0602", failure.diagnostics[0].message, hint=hint)) from failure
    if version < OLDEST_DRIVER:
        release = f"{version // 1000}.{version % 1000 // 10}"
        raise MissingError(Diagnostic("MG0602", f"NVIDIA's driver is too old: it supports CUDA {release}", hint=hint))
