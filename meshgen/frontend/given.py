"""What a user gives beside a program: meshes, shapes of inputs, shardings of inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, TypeAlias, cast

from meshgen.errors import Diagnostic, UsageError
from meshgen.frontend.shardings import SpecLike, sharding_of
from meshgen.frontend.tracer import spec
from meshgen.ir.graph import Annotation, Module, Value
from meshgen.ir.sizes import input_names, output_names
from meshgen.mesh import DEFAULT_NAME, Mesh
from meshgen.spec import Sharding

Args: TypeAlias = Sequence[Any] | Mapping[str, Any] | None
Specs: TypeAlias = Mapping[str, SpecLike | None] | Sequence[SpecLike | None] | SpecLike | None
Shape: TypeAlias = Sequence[int | None]


def placed_on(module: Module, given: Sequence[Mesh]) -> Module:
    """The module on the meshes that the user gives: sizes of its own by name, or others in place of them."""
    if not given:
        return module
    if len(given) == 1 and len(module.meshes) < 2 and given[0].name in (DEFAULT_NAME, module.mesh.name):
        return replace(module, mesh=module.mesh.completed(given[0]))
    named, meshes = {mesh.name: mesh for mesh in given}, module.meshes or (module.mesh,)
    if faults := list(_naming_faults(module, named)):
        raise UsageError(*faults)
    meshes = tuple(replace(m.completed(named[m.name]), name=m.name) if m.name in named else m for m in meshes)
    return replace(module, mesh=meshes[0], meshes=meshes if module.meshes else ())


def _naming_faults(module: Module, named: Mapping[str, Mesh]) -> Iterator[Diagnostic]:
    """Meshes that are given, but not among the program's; and other sizes than those that its parts are made for."""
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
            yield Diagnostic("MG0001", f"the program has no mesh @{name}", hint=f"its meshes are {known}")
        elif module.parts and own[name].completed(mesh).axes != own[name].axes:
            text = f"@{name} is {own[name]} in the program's parts, not {mesh}"
            yield Diagnostic("MG0001", text, hint="enter the program as it was before propagation")


def shapes_of(args: Args, names: Sequence[str]) -> dict[str, Shape]:
    """Shapes of inputs by name, from types, arrays or shapes; None leaves one, or a size of it, as it is."""
    if args is None:
        return {}
    if not isinstance(args, Mapping) and len(args) > len(names):
        raise UsageError(Diagnostic("MG0001", f"{len(args)} args were given, but the program takes {len(names)}"))
    pairs = args.items() if isinstance(args, Mapping) else zip(names, args, strict=False)
    return {name: given if _is_shape(given) else spec(given).shape for name, given in pairs if given is not None}


def combinations(sizes: Any) -> list[tuple[Any, Any]]:
    """Pairs of mesh sizes and shapes of inputs, of `compile`'s `sizes`. Raises UsageError for anything else."""
    rows: list[Any] = list(sizes) if isinstance(sizes, (list, tuple)) else [sizes]
    for row in rows:
        if not isinstance(row, Mapping) or not {*cast("Mapping[Any, Any]", row)} <= {"mesh", "args"}:
            hint = 'sizes is a list of such as {"mesh": {"dp": 2}, "args": {"x": (8, 64)}}'
            raise UsageError(Diagnostic("MG0001", f"{row!r} are no sizes to compile for", hint=hint))
    return [(row.get("mesh"), row.get("args")) for row in rows]


def _is_shape(given: Any) -> bool:
    return isinstance(given, (tuple, list)) and all(
        size is None or isinstance(size, int) for size in cast("Sequence[Any]", given)
    )


def annotated(module: Module, in_specs: Specs, out_specs: Specs) -> Module:
    """The module with required annotations on its inputs and outputs; those that `specs` leave open stay as they are.

    Raises UsageError MG0001 for names that match no input or output, or a wrong number of specs.
    """
    inputs, outputs = module.graph.inputs, module.graph.outputs
    results = output_names(module.graph)
    if isinstance(out_specs, Mapping):  # an output may also be called by the name that its value has in the program
        known = {value.name: name for value, name in zip(outputs[::-1], results[::-1], strict=True) if value.name}
        out_specs = {name if name in results else known.get(name, name): spec for name, spec in out_specs.items()}
    wishes = _annotations("input", input_names(module.graph), inputs, in_specs, module.mesh, module.in_annotations)
    wanted = _annotations("output", results, outputs, out_specs, module.mesh, module.out_annotations)
    return replace(module, in_annotations=wishes, out_annotations=wanted)


def _annotations(word: str, names: Sequence[str], values: Sequence[Value], specs: Specs, mesh: Mesh,
                 old: Sequence[Annotation | None]) -> list[Annotation | None]:  # fmt: skip
    """The annotations of inputs or outputs: those of `specs`, else what the program said."""
    found = [*old, *[None] * (len(values) - len(old))]
    if specs is None:
        return found
    for number, wish in _matched(word, names, specs):
        if wish is not None:
            sharding = sharding_of(wish, values[number].type.rank, mesh)
            found[number] = Annotation(sharding, True, (False,) * sharding.rank, values[number].loc)
    return found


def _matched(word: str, names: Sequence[str], specs: Specs) -> list[tuple[int, SpecLike | None]]:
    """Pairs of value number and spec. Raises UsageError for names that match nothing, or a wrong number."""
    if isinstance(specs, Mapping):
        missing = [pattern for pattern in specs if not any(fnmatchcase(n, pattern) for n in names)]
        if missing:
            hint = f"the {word}s are {', '.join(names)}"
            raise UsageError(*(Diagnostic("MG0001", f"there is no {word} '{name}'", hint=hint) for name in missing))
        return [
            (i, wish) for pattern, wish in specs.items() for i, name in enumerate(names) if fnmatchcase(name, pattern)
        ]
    rows: Sequence[Any] = [specs] if isinstance(specs, (Sharding, str)) else list(specs or ())
    if len(rows) != len(names):
        raise UsageError(
            Diagnostic(
                "MG0001", f"{len(rows)} {word} specs were given, but there are {len(names)} {word}s: {', '.join(names)}"
            )
        )
    return list(enumerate(rows))
