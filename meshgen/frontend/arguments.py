"""Check and apply the meshes and the input shapes that a user gives with a program. Shardings are in `specs.py`."""

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


def apply_user_meshes(module: Module, user_meshes: Sequence[Mesh]) -> Module:
    """Return the module with the user's meshes applied, each to the program's mesh of the same name.

    A user's mesh with some of the axes sets the sizes of these axes. Any other mesh replaces the program's mesh.

    Raises:
        UsageError: MG0001, the program has no mesh of that name, or was already divided into parts for other mesh
            sizes.
    """
    if not user_meshes:
        return module
    if len(user_meshes) == 1 and len(module.meshes) < 2 and user_meshes[0].name in (DEFAULT_NAME, module.mesh.name):
        return replace(module, mesh=module.mesh.completed(user_meshes[0]))
    named, meshes = {mesh.name: mesh for mesh in user_meshes}, module.meshes or (module.mesh,)
    if faults := list(_naming_faults(module, named)):
        raise UsageError(*faults)
    meshes = tuple(
        replace(program_mesh.completed(named[program_mesh.name]), name=program_mesh.name)
        if program_mesh.name in named
        else program_mesh
        for program_mesh in meshes
    )
    return replace(module, mesh=meshes[0], meshes=meshes if module.meshes else ())


def with_machine(module: Module, machine: Machine) -> Module:
    """Return the module with `machine` (device type and network) as the hardware of all meshes of the module.

    Raises:
        UsageError: MG0001, the module is already divided into parts, one for each of several meshes.
    """
    if module.parts:
        hint = "enter the program as it was before propagation"
        text = "the machine of a program that is divided into its meshes cannot be set"
        raise UsageError(Diagnostic("MG0001", text, hint=hint))
    meshes = tuple(replace(mesh, machine=machine) for mesh in module.meshes)
    return replace(module, mesh=replace(module.mesh, machine=machine), meshes=meshes)


def _naming_faults(module: Module, named: Mapping[str, Mesh]) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each mesh in `named` that the program does not have.

    In a module that is already divided into parts, also yield one for each mesh whose axis sizes differ from the parts.
    """
    program_meshes = {mesh.name: mesh for mesh in module.meshes or (module.mesh,)}
    for name, mesh in named.items():
        if name == DEFAULT_NAME and len(program_meshes) > 1 and name not in program_meshes:
            first, sizes = (
                next(iter(program_meshes)),
                str(mesh).removeprefix("Mesh(").removesuffix(")").replace(" ", ""),
            )
            text = f"{mesh} has no name, but the program is on {len(program_meshes)} meshes: {', '.join('@' + mesh_name for mesh_name in program_meshes)}"
            hint = f'name it: --mesh {first}:{sizes}, in Python {{"{first}": {{...}}}}'
            yield Diagnostic("MG0001", text, hint=hint)
        elif name not in program_meshes:
            known_names = (
                ", ".join(f"@{mesh_name}" for mesh_name, mesh in program_meshes.items() if mesh.axes) or "none"
            )
            yield Diagnostic("MG0001", f"unknown mesh '@{name}'", hint=f"known meshes are {known_names}")
        elif module.parts and program_meshes[name].completed(mesh).axes != program_meshes[name].axes:
            text = f"@{name} is {program_meshes[name]} in the program's parts, not {mesh}"
            yield Diagnostic("MG0001", text, hint="enter the program as it was before propagation")


def shapes_of(args: Args, signature: Signature) -> dict[str, Shape]:
    """Map input names to the shapes that the user's `args` give them.

    `args` is a list in the order of the inputs, a dict by name, or nested like the program's arguments. An entry is a
    type, an array or a shape. An entry None keeps the input's shape in the program; None in place of a size keeps that
    size.

    Raises:
        UsageError: MG0001, `args` has another form.
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
    return {name: value if _is_shape(value) else spec(value).shape for name, value in pairs if value is not None}


def _by_name(args: Mapping[str, Any], signature: Signature, faults: list[str]) -> list[tuple[str, Any]]:
    return list(signature.named(args, faults).items())


def _pairs_in_order(args: Sequence[Any], signature: Signature, faults: list[str]) -> list[tuple[str, Any]]:
    """Pair input names with the values of the list `args`.

    `args` has either one entry per parameter, nested like the parameter, or one entry per input array.
    """
    values = list(args)
    is_by_parameter = len(values) == len(signature.nodes) < len(signature.slots)
    if is_by_parameter or any(isinstance(row, Mapping) for row in values):
        return _by_name(dict(zip(signature.nodes, values, strict=False)), signature, faults)
    if len(values) > len(signature.slots):
        count = sum(slot.number is not None for slot in signature.slots)
        faults.append(f"{len(values)} args were given, but the program takes {count}")
    pairs = zip(signature.slots, values, strict=False)
    return [(slot.name, value) for slot, value in pairs if slot.number is not None]


def combinations(sizes: Any) -> list[tuple[Any, Any]]:
    """Return (mesh sizes, input shapes) for each dict in `sizes`, the option of `compile`, which may be a single dict.

    Example: `[{"mesh": {"dp": 2}, "args": {"x": (8, 64)}}]`. Raises UsageError MG0001 if `sizes` has another form.
    """
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


def _is_shape(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and all(
        size is None or isinstance(size, int) for size in cast("Sequence[Any]", value)
    )
