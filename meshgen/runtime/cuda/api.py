"""The executor's interface to the CUDA driver and NCCL, real or emulated.

    real()                    NVIDIA's `cuda.bindings.driver`, and libnccl
    emulated(devices, ...)    Python objects with the same functions

Functions are called by name. The wrapper returns their outputs without the result code and raises an error for any
code except success.
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
from meshgen.runtime.cuda.deferred_free import begin_call, end_call
from meshgen.runtime.cuda.nccl import load_nccl
from meshgen.runtime.emulate import KernelSource

# environment variable of NCCL 2.26 and later; from CUDA 12.3 on, ordered collectives may still overlap
LAUNCH_ORDER = "NCCL_LAUNCH_ORDER_IMPLICIT"
NOT_READY = 600  # the driver's code CUDA_ERROR_NOT_READY
OLDEST_DRIVER = 12_000  # CUDA 12.0: ptxas 12.8 assembles the cubins, which every driver of CUDA 12.0 or later accepts
_EMULATED = "--device emulate (of bench collectives: --engine emulated) needs no GPU"


class Api:
    """The CUDA driver and NCCL.

    Attributes:
        driver: has the functions, enumerations and structures of `cuda.bindings.driver`.
        machine: the emulated machine, or None for real GPUs.
        sources: Triton sources of kernels by entry point, which error messages of emulated devices quote.
    """

    def __init__(self, driver: Any, machine: Machine | None = None, nccl: Any = None) -> None:
        self.driver, self.machine, self._nccl = driver, machine, nccl
        self.sources: dict[str, KernelSource] = {}

    @cached_property
    def nccl(self) -> Any:
        """Return the NCCL library, which is loaded at the first use. Raises MissingError MG0602."""
        return load_nccl() if self._nccl is None else self._nccl

    def cuda(self, name: str, *args: Any) -> Any:
        """Call a function of the driver.

        Raises:
            RuntimeFailure: MG0604 with CUDA's error number and text; MG0608, an emulated device found a fault.
        """
        result, *values = getattr(self.driver, name)(*args)
        if result:
            raise self.failure(name, result)
        return values[0] if len(values) == 1 else tuple(values)

    def failure(self, name: str, result: Any) -> RuntimeFailure:
        """Return the error for a driver call whose result code is not 0."""
        return self._failure(name, int(result), self._text_of(result))

    def handle(self, type_name: str, value: int) -> Any:
        """Return a handle as the driver binding's own type, such as CUstream.

        Calls with this type are twice as fast as with int.
        """
        return getattr(self.driver, type_name, int)(value)

    def comm(self, name: str, *args: Any) -> Any:
        """Call a function of NCCL. Raises the same errors as `cuda`."""
        result, *values = getattr(self.nccl, name)(*args)
        if result:
            last = self.nccl.ncclGetLastError()
            text = self.nccl.ncclGetErrorString(int(result)) + (f"; {last.strip()}" if last else "")
            raise self._failure(name, int(result), text)
        return values[0] if values else None

    def is_idle(self, stream: int) -> bool:
        """Whether all work in a stream has finished. Raises the same errors as `cuda`."""
        (result,) = self.driver.cuStreamQuery(stream)
        if result and int(result) != NOT_READY:
            raise self.failure("cuStreamQuery", result)
        return not result

    @contextmanager
    def preserved_context(self) -> Generator[None]:
        """Return a context manager that restores this thread's current CUDA context when it exits.

        Other users of CUDA in the thread, such as PyTorch, rely on it.

        Until it exits, no unused executor or session is freed (`deferred_free.py`).
        """
        begin_call()
        try:
            previous = self.cuda("cuCtxGetCurrent")
            try:
                yield
            finally:
                self.driver.cuCtxSetCurrent(previous)
        finally:
            end_call()

    @property
    def is_stuck(self) -> bool:
        """Whether emulated devices are deadlocked."""
        return self.machine is not None and self.machine.timeline.is_stuck

    def order_collectives(self) -> None:
        """Make all collectives of a device start in the order in which they are issued, even on different streams.

        The order is then equal on all devices.

        Otherwise two collectives that wait for each other's multiprocessors could deadlock. NCCL reads the environment
        variable at its first use.
        """
        if self.machine:
            self.machine.orders_launches = True
        else:
            os.environ[LAUNCH_ORDER] = "1"

    def name_memory(self, address: int, nbytes: int, text: str) -> None:
        """Set the name of a memory range in error messages of an emulated device."""
        if self.machine:
            self.machine.name(address, nbytes, text)

    def limit_launch(self, parameters: int, ranges: Sequence[Range]) -> None:
        """Declare the memory that a launch may access, for emulated devices (see `Machine.limit`).

        `parameters` is the address of the launch's parameter block.
        """
        if self.machine:
            self.machine.limit(parameters, ranges)

    def _failure(self, name: str, code: int, text: str) -> RuntimeFailure:
        if self.machine and (fault := self.machine.fault):
            source = self.sources.get(fault.kernel)
            return source.told(fault) if source else fault
        return RuntimeFailure(Diagnostic("MG0604", f"{name} failed with {code}: {text}"))

    def _text_of(self, result: Any) -> str:
        _, name = self.driver.cuGetErrorName(result)
        _, text = self.driver.cuGetErrorString(result)
        return f"{(name or b'unknown').decode()}, {(text or b'unknown').decode()}"


class HasApi(Protocol):
    api: Api


Self = TypeVar("Self", bound=HasApi)
Params = ParamSpec("Params")
Result = TypeVar("Result")


def preserves_context(
    method: Callable[Concatenate[Self, Params], Result],
) -> Callable[Concatenate[Self, Params], Result]:
    """Wrap a method so that it restores this thread's current CUDA context when it returns (see `Api.preserved_context`)."""

    @wraps(method)
    def wrapper(self: Self, *args: Params.args, **kwargs: Params.kwargs) -> Result:
        with self.api.preserved_context():
            return method(self, *args, **kwargs)

    return wrapper


def emulated(devices: int, arch: str, *, seed: int = 0, races: bool = False, issues: int = 0,
             world: World | None = None) -> Api:  # fmt: skip
    """Return the interface to emulated GPUs.

    Args:
        arch: architecture of the GPUs, such as `sm_90`. Raises MissingError MG0602 if it is unknown.
        seed: seed of the random order in which work runs.
        races: whether to check that accesses to the same bytes are ordered.
        issues: limit on the instructions that a wave of blocks may issue, or 0 for the default limit.
        world: the ranks if this process runs one of them, or None if it runs all ranks.
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
    """Return the interface to the GPUs of this machine, of which the module needs `devices`.

    Raises:
        MissingError: MG0602, cuda-bindings or the driver is missing, or the driver is too old; MG0603, too few GPUs.
    """
    return _with_gpus(devices, f"the module needs {devices} GPUs")


def real_of(world: World) -> Api:
    """Return the interface to the GPU of this process's rank, whose ordinal is the local rank.

    Raises:
        UsageError: MG0611, the launcher has set no local rank.
        MissingError: the same errors as `real`.
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
    except RuntimeError as error:  # raised by cuda-bindings if libcuda is missing
        raise MissingError(Diagnostic("MG0602", f"NVIDIA's driver is missing: {error}", hint=hint)) from error
    except (
        RuntimeFailure
    ) as failure:  # The driver reports this if it finds no device or does not match its kernel module.
        raise MissingError(Diagnostic("MG0602", failure.diagnostics[0].message, hint=hint)) from failure
    if version < OLDEST_DRIVER:
        release = f"{version // 1000}.{version % 1000 // 10}"
        raise MissingError(Diagnostic("MG0602", f"NVIDIA's driver is too old: it supports CUDA {release}", hint=hint))
