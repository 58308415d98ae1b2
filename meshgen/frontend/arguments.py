"""Meshes and shapes of inputs that a user gives with a program. Shardings are in `specs.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

from meshgen.calls.signature import Signature
from meshgen.errors import Diagnostic, UsageError
from meshgen.ir.graph import Module
from meshgen.machine.profiles import Machine
from meshgen.mesh import DEFAULT_NAME, Mesh

Args: TypeAlias = Sequence[Any] | Mapping[str, Any] | None
Shape: TypeAlias = Sequence[int | None]


def placed_on(module: Module, given: Sequence[Mesh]) -> Module:
    """The module on the user's meshes: they give sizes of its own meshes by name, or replace them."""
    if not given:
        return module
    if len(given) == 1 and len(module.meshes) < 2 and given[0].name in (DEFAULT_NAME, module.mesh.name):
        return replace(module, mesh=module.mesh.completed(given[0]))
    named, meshes = {mesh.name: mesh for mesh in given}, module.meshes or (module.mesh,)
    if faults := list(_naming_faults(module, named)):
        raise UsageError(*faults)
    meshes = tuple(replace(m.completed(named[m.name]), name=m.name) if m.name in named else m for m in meshes)
    return replace(module, mesh=meshes[0], meshes=meshes if module.meshes else ())


def on_machine(module: Module, machine: Machine) -> Module:
    """The module with all its meshes on a machine. Raises UsageError MG0001 for one that is divided into parts of several meshes."""
    if module.parts:
        hint = "enter the program as it was before propagation"
        text = "the machine of a program that is divided into its meshes cannot be set"
        raise UsageError(Diagnostic("MG0001", text, hint=hint))
    meshes = tuple(replace(mesh, machine=machine) for mesh in module.meshes)
    return replace(module, mesh=replace(module.mesh, machine=machine), meshes=meshes)


def _naming_faults(module: Module, named: Mapping[str, Mesh]) -> Iterator[Diagnostic]:
    """Faults of meshes that the program does not have, or whose sizes differ from those of its parts."""
    own = {mesh.name: mesh for mesh in module.meshes or (module.mesh,)}
    for name, mesh in named.items():
        if name == DEFAULT_NAME and len(own) > 1 and name not in own:
            first, sizes = next(iter(own)), str(mesh).removeprefix("Mesh(").removesuffix(")").replace(" ", "")
            text = (
                f"{mesh} has no name, but the program is on {len(own)} meshes: {', '.join('@' + each for each in own)}"
            )
            hint = f'name it: --mesh {first}:{sizes}, in Python {{"{first}": {{...}}}}'
            yield Diagnostic("MG0001", text, hint=hint)
        elif name not in own:
            known = ", ".join(f"@{each}" for each, mesh in own.items() if mesh.axes) or "none"
            yield Diagnostic("MG0001", f"unknown mesh '@{name}'", hint=f"known meshes are {known}")
        elif module.parts and own[name].completed(mesh).axes != own[name].axes:
            text = f"@{name} is {own[name]} in the program's parts, not {mesh}"
            yield Diagnostic("MG0001", text, hint="enter the program as it was before propagation")


def shapes_of(args: Args, signature: Signature) -> dict[str, Shape]:
    """Shapes of inputs by name, from types, arrays or shapes; None keeps a shape, or a size of it.

    Given in order, by name, or in the structure of the arguments. Raises UsageError MG0001 for anything else.
    """
    if args is None:
        return {}
    from meshgen.frontend.tracer import spec

    if not isinstance(cast("Any", args), (Mapping, list, tuple)):
        hint = "give a list in the order of the inputs, or a dict by name"
        raise UsageError(Diagnostic("MG0001", f"args must be a list or a dict of types, got {args!r:.60}", hint=hint))
    faults: list[str] = []
    pairs = _by_name(args, signature, faults) if isinstance(args, Mapping) else _pairs_in_order(args, signature, faults)
    if faults:
        raise UsageError(*(Diagnostic("MG0001", text) for text in faults))
    return {name: given if _is_shape(given) else spec(given).shape for name, given in pairs if given is not None}


def _by_name(args: Mapping[str, Any], signature: Signature, faults: list[str]) -> list[tuple[str, Any]]:
    return list(signature.named(args, faults).items())


def _pairs_in_order(args: Sequence[Any], signature: Signature, faults: list[str]) -> list[tuple[str, Any]]:
    """Pairs of input and what is given: for each parameter in its structure, else for each leaf."""
    rows = list(args)
    is_by_parameter = len(rows) == len(signature.nodes) < len(signature.slots)
    if is_by_parameter or any(isinstance(row, Mapping) for row in rows):
        return _by_name(dict(zip(signature.nodes, rows, strict=False)), signature, faults)
    if len(rows) > len(signature.slots):
        count = sum(slot.number is not None for slot in signature.slots)
        faults.append(f"{len(rows)} args were given, but the program takes {count}")
    pairs = zip(signature.slots, rows, strict=False)
    return [(slot.name, given) for slot, given in pairs if slot.number is not None]


def combinations(sizes: Any) -> list[tuple[Any, Any]]:
    """Pairs of mesh sizes and shapes of inputs, of `compile`'s `sizes`. Raises UsageError for anything else."""
    rows: list[Any] = list(sizes) if isinstance(sizes, (list, tuple)) else [sizes]
    for row in rows:
        if not isinstance(row, Mapping) or not {*cast("Mapping[Any, Any]", row)} <= {"mesh", "args"}:
            hint = 'write for example [{"mesh": {"dp": 2}, "args": {"x": (8, 64)}}]'
            raise UsageError(
                Diagnostic(
                    "MG0001", f"sizes to compile for must be a dict with 'mesh' or 'args', got {row!r}", hint=hint
                )
            )
    return [(row.get("mesh"), row.get("args")) for row in rows]


def _is_shape(given: Any) -> bool:
    return isinstance(given, (tuple, list)) and all(
        size is None or isinstance(size, int) for size in cast("Sequence[Any]", given)
    )
