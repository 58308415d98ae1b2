"""The Python interface: `compile` a program for a mesh, `lower` it to a stage, `load` a saved module.

Sizes of mesh axes (None) and of tensor dims (`?`) may stay open: `compile` then makes a module that has
specialisations for the sizes that are asked for, and `load` compiles for others.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from meshgen.errors import Diagnostic, UsageError
from meshgen.executables.executable import Executable, Rebuild
from meshgen.executables.open_sizes import AT_LOAD, OpenExecutable, closed, open_program
from meshgen.frontend.tracer import SpecLike, spec, trace
from meshgen.ir.graph import Annotation, Module, Value
from meshgen.ir.sizes import given_types, has_open_results, input_names, with_shapes
from meshgen.mesh import DEFAULT_NAME, Mesh, make_mesh
from meshgen.pipeline import Options, Progress, Timing, make_schedule, run_stages, verify_program
from meshgen.runtime import loading
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.open_module import OpenModule
from meshgen.runtime.sizes import Given, Sizes
from meshgen.spec import Sharding, fit, from_indices

if TYPE_CHECKING:
    from meshgen.answers.advice import Advice

Args: TypeAlias = Sequence[Any] | Mapping[str, Any] | None
Specs: TypeAlias = Mapping[str, SpecLike | None] | Sequence[SpecLike | None] | SpecLike | None
Meshes: TypeAlias = (
    Mesh | Mapping[str, int | None] | Mapping[str, Mesh | Mapping[str, int | None]] | Sequence[Mesh] | None
)
Shape: TypeAlias = Sequence[int | None]
__all__ = ["Executable", "LoadedModule", "OpenExecutable", "compile", "load", "lower", "read"]


def compile(graph: Any, mesh: Meshes = None, *, args: Args = None, in_specs: Specs = None,
            out_specs: Specs = None, target: str = "cuda:sm_90", arguments: str = "local",
            sizes: Sequence[Mapping[str, Any]] = (), strict: bool | Sequence[str | int] = False,
            progress: Progress | None = None) -> Executable:  # fmt: skip
    """Take a program all the way to a scheduled, buildable step.

    A program that leaves sizes open gives an `OpenExecutable`, with a step for each of `sizes`.

    Args:
        graph: a Python function; MLIR text, or the path of a `.mlir` file; `pkg.mod:function`; what
            `jax.jit(f).lower(...)` or `jax.export` returns; a Module; an xDSL module.
        mesh: the devices; may be left out where the program declares its mesh. Of several meshes each by name:
            `{"first": {"dp": 2}, "second": {"x": 4}}`, or a list of named meshes.
        args: for a Python function, the type of each parameter (`"bf16[8,512]"`, or anything with shape and
            dtype), nested in dicts, lists and tuples as the function takes them; for other programs, types or
            shapes of inputs whose sizes they leave open, in order or by name.
        in_specs: required shardings of inputs: by name (`*` matches), or one per input; None leaves it open.
        out_specs: the same for outputs (`result`, `result.0`, ...); a single sharding is that of the only output.
        target: `cuda:sm_90`, `cuda:sm_90,sm_80` (no GPU is needed), or `cpu`: no binaries.
        arguments: `local`: each rank is given its shards; `global`: the whole arrays.
        sizes: of a program with open sizes, the combinations to compile for ahead of time: each gives `mesh`, sizes of
            open mesh axes, and `args`, shapes of open inputs (or their types), as in `{"mesh": {"dp": 2}, "args": {"x": (8, 64)}}`.
        strict: refuse (MG0210) values that are gathered though no annotation asks for them whole: True, or only for
            values by name and for lines.
        progress: called as `progress(what, done, total)`.
    Raises:
        ProgramError, ShardingError, CodegenError: the program is refused, with every fault and where it is.
        UsageError: a bad option, name or path.
    """
    executable = plan(
        graph,
        mesh,
        args=args,
        in_specs=in_specs,
        out_specs=out_specs,
        target=target,
        arguments=arguments,
        sizes=sizes,
        strict=strict,
        progress=progress,
    )
    executable.build(progress)
    return executable


def plan(graph: Any, mesh: Meshes = None, *, args: Args = None, in_specs: Specs = None,
         out_specs: Specs = None, target: str = "cuda:sm_90", arguments: str = "local",
         sizes: Sequence[Mapping[str, Any]] = (), strict: bool | Sequence[str | int] = False,
         progress: Progress | None = None) -> Executable:  # fmt: skip
    """As `compile`, without building binaries."""
    options, timing = Options(target, arguments, _strict(strict)), Timing()
    with timing.of("import"):
        module, rebuild = read(graph, mesh, args=args, in_specs=in_specs, out_specs=out_specs)
    program = open_program(module, {} if rebuild else _shapes(args, input_names(module.graph)), options)
    if not program.is_open:
        return plan_module(module, options, timing, rebuild, progress)
    executable = OpenExecutable(module, program, options, timing, rebuild, plan_module)
    for each in sizes:
        executable.specialise(each.get("mesh"), _shapes(each.get("args"), input_names(module.graph)))
    return executable


def _strict(asked: bool | str | Sequence[str | int]) -> bool | tuple[str | int, ...]:
    """Where to be strict, as options have it; one name by itself is that value, not its letters."""
    return asked if isinstance(asked, bool) else (asked,) if isinstance(asked, str) else tuple(asked)


def plan_module(
    module: Module, options: Options, timing: Timing, rebuild: Rebuild = None, progress: Progress | None = None
) -> Executable:
    """From a module that was read to its schedule."""
    stages = run_stages(module, options, timing, "fuse", progress)
    if stages["fuse"].parts:
        executable = _plan_parts(stages, options, timing, rebuild)
    else:
        with timing.of("schedule"):
            schedule = make_schedule(stages["fuse"], options)
        executable = Executable(stages, schedule, options, timing, rebuild)
    if options.strict:
        from meshgen.answers.gathers import refuse_gathers

        refuse_gathers(executable, options.strict)
    return executable


def _plan_parts(stages: Mapping[str, Module], options: Options, timing: Timing, rebuild: Rebuild) -> Executable:
    """The schedules of all meshes, proven right together."""
    from meshgen.executables.on_meshes import PartsExecutable
    from meshgen.runtime.checker_parts import check_parts
    from meshgen.sharding.meshes.crossings import with_hints
    from meshgen.sharding.meshes.split import split_meshes

    entered = stages.get("import")
    split = with_hints(split_meshes(entered).parts, stages["propagate"].parts) if entered else []

    parts: list[Executable] = []
    with timing.of("schedule"):
        for number, part in enumerate(stages["fuse"].parts):
            own = {"import": split[number]} if split else {}
            own |= {stage: module.parts[number] for stage, module in stages.items() if module.parts}
            parts.append(Executable(own, make_schedule(part, options), options, Timing()))
        timeline = check_parts([part.plan for part in parts], [part.mesh for part in parts])
    return PartsExecutable(stages, parts, timeline, options, timing, rebuild)


def advise(executable: Executable) -> list[Advice]:
    """Which annotations to leave out to move less, and what that does to time and memory: each is planned anew."""
    from meshgen.answers import advice

    return advice.advise(executable, plan_module)


def lower(graph: Any, mesh: Meshes = None, *, stage: str, args: Args = None,
          in_specs: Specs = None, out_specs: Specs = None, target: str = "cuda:sm_90", arguments: str = "local") -> Module:  # fmt: skip
    """The program at `stage`: import, propagate, materialize, optimize, partition, fuse or schedule. Else as `compile`."""
    module, _ = read(graph, mesh, args=args, in_specs=in_specs, out_specs=out_specs)
    return run_stages(module, Options(target, arguments), Timing(), stage)[stage]


def read(graph: Any, mesh: Meshes = None, *, args: Args = None, in_specs: Specs = None,
         out_specs: Specs = None) -> tuple[Module, Rebuild]:  # fmt: skip
    """The program as a verified module with its annotations, and how to rebuild a traced function's result."""
    given = _meshes(mesh)
    module, rebuild = _import(graph, given, args)
    module = _on(module, given)
    shapes = {} if rebuild else _shapes(args, input_names(module.graph))
    is_known = not any(None in kind.shape for kind in given_types(module.graph, shapes))
    if is_known and (shapes or has_open_results(module)) and (module.stage != "partition" or module.mesh.is_static):
        module = with_shapes(module, shapes)
    verify_program(module)
    inputs, outputs = module.graph.inputs, module.graph.outputs
    wishes = _annotations("input", _names(inputs, "arg"), inputs, in_specs, module.mesh, module.in_annotations)
    names = ["result"] if len(outputs) == 1 else [f"result.{i}" for i in range(len(outputs))]
    results = _annotations("output", names, outputs, out_specs, module.mesh, module.out_annotations)
    return replace(module, in_annotations=wishes, out_annotations=results), rebuild


def _meshes(given: Meshes) -> tuple[Mesh, ...]:
    """One mesh, several by name, or none that is given. Raises UsageError for what is neither."""
    if given is None or isinstance(given, Mesh):
        return () if given is None else (given,)
    if not isinstance(given, Mapping):
        return tuple(given)
    sizes = cast("Mapping[str, Any]", given)
    if not any(isinstance(each, (Mesh, Mapping)) for each in sizes.values()):
        return (make_mesh(sizes),)
    return tuple(
        replace(each, name=name) if isinstance(each, Mesh) else make_mesh(each, name) for name, each in sizes.items()
    )


def _on(module: Module, given: Sequence[Mesh]) -> Module:
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


def _import(graph: Any, given: tuple[Mesh, ...], args: Args) -> tuple[Module, Rebuild]:
    from meshgen.frontend.jax import from_jax, is_jax

    if isinstance(graph, Module):
        return graph, None
    if isinstance(graph, (str, Path)):
        return _from_text(graph, given, args)
    if is_jax(graph):
        return from_jax(graph), None
    if type(graph).__module__.startswith("xdsl."):
        return _read_mlir(str(graph), given), None
    if not callable(graph):
        raise UsageError(
            Diagnostic("MG0001", f"a {type(graph).__name__} is no program", hint="pass a function, MLIR text or a path")
        )
    if args is None:
        raise UsageError(Diagnostic("MG0001", "a Python function needs args=[...], the type of each parameter"))
    traced = trace(graph, args, given[0] if given else None, given if len(given) > 1 else ())
    return traced.module, traced.rebuild


def _from_text(graph: str | Path, given: tuple[Mesh, ...], args: Args) -> tuple[Module, Rebuild]:
    text = str(graph)
    if isinstance(graph, str) and (text == "-" or "\n" in text or "{" in text):
        return _read_mlir(text, given), None
    if isinstance(graph, str) and ":" in text and not Path(text).exists() and Path(text).suffix != ".mlir":
        return _import(_function(text), given, args)
    return _read_mlir(Path(text), given), None


def _read_mlir(source: str | Path, meshes: Sequence[Mesh]) -> Module:
    from meshgen.frontend.mlir import read_mlir

    return read_mlir(source, meshes)


def load(path: str | Path, mesh: Given = None, *, devices: int | None = None) -> LoadedModule:
    """As `meshgen.runtime.module.load`; an open module is compiled for sizes for which it was not ahead of time.

    The module says so in its report (`report["specialised"]`). Needs no compiler unless that happens.
    """
    return loading.load(path, mesh, devices=devices, specialise=specialised)


def specialised(module: OpenModule, sizes: Sizes) -> dict[str, bytes]:
    """The members of an open module's specialisation, made now.

    Raises MissingError MG0602 where the compiler is not installed, and what `compile` raises.
    """
    program = module.program
    try:
        from meshgen.ir.text import parse_text

        entered = parse_text(module.text, f"{module.path.name}/{program.text_member}")
        options = Options(program.target, program.arguments)
        executable = plan_module(closed(entered, program, sizes), options, Timing())
        executable.specialised = sizes.record() | {"made": AT_LOAD}
        executable.build()
        return executable.members(module.weights())
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("meshgen."):
            raise
        raise program.lacking(sizes, f"the Python package '{error.name}' is not installed") from error


def _shapes(args: Args, names: Sequence[str]) -> dict[str, Shape]:
    """Shapes of inputs by name, from types, arrays or shapes; None leaves one, or a size of it, as it is."""
    if args is None:
        return {}
    if not isinstance(args, Mapping) and len(args) > len(names):
        raise UsageError(Diagnostic("MG0001", f"{len(args)} args were given, but the program takes {len(names)}"))
    pairs = args.items() if isinstance(args, Mapping) else zip(names, args, strict=False)
    return {name: given if _is_shape(given) else spec(given).shape for name, given in pairs if given is not None}


def _is_shape(given: Any) -> bool:
    return isinstance(given, (tuple, list)) and all(
        size is None or isinstance(size, int) for size in cast("Sequence[Any]", given)
    )


def _function(reference: str) -> Any:
    """What `pkg.mod:function` names, looked up from the working directory too. Raises UsageError."""
    module_name, _, name = reference.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            Diagnostic(
                "MG0002",
                f"'{reference}' cannot be imported: {error}",
                hint="write pkg.mod:function or the path of a .mlir file",
            )
        ) from error
    finally:
        sys.path.pop(0)


def _names(values: Sequence[Value], word: str) -> list[str]:
    return [value.name or f"{word}{number}" for number, value in enumerate(values)]


def _annotations(word: str, names: Sequence[str], values: Sequence[Value], specs: Specs, mesh: Mesh,
                 old: Sequence[Annotation | None]) -> list[Annotation | None]:  # fmt: skip
    """The annotations of inputs or outputs: those of `specs`, else what the program said."""
    found = [*old, *[None] * (len(values) - len(old))]
    if specs is None:
        return found
    for number, wish in _matched(word, names, specs):
        if wish is not None:
            sharding = _sharding(wish, values[number], mesh)
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
    rows: Sequence[Any] = [specs] if isinstance(specs, Sharding) else list(specs or ())
    if len(rows) != len(names):
        raise UsageError(
            Diagnostic(
                "MG0001", f"{len(rows)} {word} specs were given, but there are {len(names)} {word}s: {', '.join(names)}"
            )
        )
    return list(enumerate(rows))


def _sharding(spec: SpecLike, value: Value, mesh: Mesh) -> Sharding:
    if isinstance(spec, Sharding):
        return fit(spec, value.type.rank)
    rows = [[mesh.names.index(a) if isinstance(a, str) and a in mesh.names else a for a in axes] for axes in spec]
    if all(isinstance(a, int) for axes in rows for a in axes):
        return from_indices([[a for a in axes if isinstance(a, int)] for axes in rows], mesh, value.type.rank)
    return fit(Sharding(tuple(tuple(str(a) for a in axes) for axes in rows)), value.type.rank)
