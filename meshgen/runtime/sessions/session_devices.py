"""Creation of a session's devices by device name. `engines.py` does the same for single steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from meshgen.errors import Diagnostic, UsageError
from meshgen.runtime.cuda import api
from meshgen.runtime.cuda.devices import GpuDevices
from meshgen.runtime.emulation_options import DEFAULT_ARCH, Emulation, first_arch
from meshgen.runtime.engine_interfaces import LoadedEntry
from meshgen.runtime.engines import LAUNCHES
from meshgen.runtime.processes import bootstrap
from meshgen.runtime.sessions.devices import Devices, HostDevices


def devices_of(modules: Mapping[str, LoadedEntry], device: str | Emulation) -> Devices:
    """Return devices for all ranks of a module's entry functions.

    Raises:
        UsageError: MG0001, unknown device name, or the process was started by a multi-process launcher.
        MissingError: MG0602 or MG0603, GPUs are missing.
    """
    if world := bootstrap.world():
        text = f"a session runs all ranks in one process, but a launcher started {world.size}"
        raise UsageError(Diagnostic("MG0001", text, hint="start one process; LoadedModule.run works with one per rank"))
    name, emulation = ("emulate", device) if isinstance(device, Emulation) else (device, Emulation())
    if name in LAUNCHES:
        for module in modules.values():
            module.require_memory()
        return HostDevices(LAUNCHES[name])
    if name not in _GPUS:
        hint = f"use one of {', '.join((*LAUNCHES, *_GPUS))}"
        raise UsageError(Diagnostic("MG0001", f"unknown device '{name}'", hint=hint))
    ranks = max(module.ranks for module in modules.values())
    return GpuDevices(_GPUS[name](modules, ranks, emulation), ranks)


def _emulated(modules: Mapping[str, LoadedEntry], ranks: int, options: Emulation) -> api.Api:
    arches = (first_arch(part.manifest.kernels) for module in modules.values() for part in module.parts)
    arch = options.arch or next(filter(None, arches), DEFAULT_ARCH)
    return api.emulated(ranks, arch, seed=options.order, races=options.races, issues=options.instructions)


def _real(modules: Mapping[str, LoadedEntry], ranks: int, options: Any) -> api.Api:
    return api.real(ranks)


_GPUS: Mapping[str, Callable[[Mapping[str, LoadedEntry], int, Emulation], api.Api]] = {
    "emulate": _emulated,
    "cuda": _real,
}
