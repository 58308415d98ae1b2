"""Compilation targets: `cpu`, or `cuda:` followed by GPU architectures, such as `cuda:sm_90,sm_80`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from meshgen.codegen.roofline.kernel_time import device_of
from meshgen.compilation import DEFAULT_TARGET
from meshgen.errors import Diagnostic, UsageError
from meshgen.kernels.architectures import ARCHITECTURES
from meshgen.machine.profiles import DEFAULT_MACHINE, MACHINES, Machine
from meshgen.mesh import Mesh
from meshgen.names import nearest_names

_HINT = f"write cpu, cuda:sm_90 or cuda:sm_90,sm_80; the architectures are {', '.join(ARCHITECTURES)}"


def target_faults(target: Any) -> list[Diagnostic]:
    """Return diagnostics for an invalid target."""
    if not isinstance(target, str) or not (target == "cpu" or target.startswith("cuda:")):
        near = nearest_names(str(target).lower(), ["cpu", *(f"cuda:{a}" for a in ARCHITECTURES)], 1)
        return [_target_fault(f"unknown target {target!r:.80}", near)]
    if target == "cpu":
        return []
    names = architectures_of(target)
    faults = [
        fault for name in dict.fromkeys(names) for fault in architecture_faults(name, f" in target {target!r:.80}")
    ]
    repeated = [name for name in ARCHITECTURES if names.count(name) > 1]
    return faults + [
        _target_fault(f"architecture '{name}' is named twice in target {target!r:.80}", []) for name in repeated
    ]


def architectures_of(target: str) -> tuple[str, ...]:
    """Return the GPU architectures of a target. Returns an empty tuple for the CPU."""
    _, colon, names = target.partition(":")
    return tuple(names.split(",")) if colon else ()


def passes_to_skip(target: str) -> frozenset[str]:
    """Return the passes that the target does not need. CPU kernels run in NumPy, which supports complex numbers."""
    return frozenset() if architectures_of(target) else frozenset(("expand-complex",))


def predicted_on(target: str, memory_limit: int | None, mesh: Mesh) -> tuple[str, int | None]:
    """Return the target whose times the cost model predicts, and the device memory in bytes that a step may use."""
    machine = predicted_machine(target, mesh.machine)
    return f"cuda:{machine.device}", machine.memory_bytes if memory_limit is None else memory_limit


def predicted_machine(target: str, machine: Machine | None) -> Machine:
    """Return the machine whose times the cost model predicts, with its device filled in.

    Args:
        target: if the machine names no device, the device is the first architecture of this target. For `cpu`, it is
            `DEFAULT_TARGET`.
        machine: default: `DEFAULT_MACHINE`.
    """
    machine = machine or MACHINES[DEFAULT_MACHINE]
    first = next(iter(architectures_of(target)), "") or DEFAULT_TARGET
    return replace(machine, device=machine.device or device_of(first).name)


def machine_title(machine: Machine) -> str:
    """Return the names of a machine and of its devices, such as `dgx-h100 (H100)`."""
    return f"{machine.name} ({device_of(machine.device).product})" if machine.device else machine.name


def resolve_target(target: str | None, meshes: Iterable[Mesh]) -> str:
    """Return the target that the user named or, if the user named none, the architecture of the machine's device.

    Raises:
        UsageError: MG0001, the machine's device has another architecture than the first of the user's target.
    """
    machines = dict.fromkeys(mesh.machine for mesh in meshes)
    devices = {machine.device: machine for machine in machines if machine and machine.device}
    for device, machine in devices.items():
        arch = device_of(device).architecture
        architectures = architectures_of(target or f"cuda:{arch}")
        if architectures and architectures[0] != arch:
            text = f"the devices of machine '{machine}' are {arch}, but the target is {target}"
            raise UsageError(Diagnostic("MG0001", text, hint=f"leave the target out, or name {arch} first in it"))
        target = target or f"cuda:{arch}"
    return target or DEFAULT_TARGET


def architecture_faults(name: str, where: str = "") -> list[Diagnostic]:
    """Return diagnostics for an invalid name of a GPU architecture. `where` is appended to the message."""
    if name in ARCHITECTURES:
        return []
    if not name:
        return [_target_fault(f"an architecture is missing{where}", [])]
    return [_target_fault(f"unknown GPU architecture {name!r:.80}{where}", nearest_names(name, ARCHITECTURES, 1))]


def _target_fault(text: str, near: list[str]) -> Diagnostic:
    meant = f"did you mean '{near[0]}'? " if near else ""
    return Diagnostic("MG0001", text, hint=meant + _HINT)
