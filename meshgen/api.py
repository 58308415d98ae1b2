"""The Python interface: `compile` a program for a mesh, `lower` it to a stage, `load` a saved module."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeAlias, cast

from meshgen.errors import Diagnostic, UsageError
from meshgen.executable import Executable
from meshgen.frontend.tracer import SpecLike, spec, trace
from meshgen.ir.graph import Annotation, Module, Value
from meshgen.ir.sizes import has_open_results, input_names, with_shapes
from meshgen.mesh import Mesh, make_mesh
from meshgen.pipeline import Options, Progress, Timing, make_schedule, run_stages, verify_program
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module import load as load
from meshgen.spec import Sharding, fit, from_indices

Args: TypeAlias = Sequence[Any] | Mapping[str, Any] | None
Specs: TypeAlias = Mapping[str, SpecLike | None] | Sequence[SpecLike | None] | SpecLike | None
Rebuild: TypeAlias = Callable[[Sequence[Any]], Any] | None
__all__ = ["Executable", "LoadedModule", "compile", "load", "lower", "read"]


def compile(graph: Any, mesh: Mesh | Mapping[str, int] | None = None, *, args: Args = None, in_specs: Specs = None,
            out_specs: Specs = None, target: str = "cuda:sm_90", arguments: str = "local",
            progress: Progress | None = None) -> Executable:  # fmt: skip
    """Take a program all the way to a scheduled, buildable step.

    Args:
        graph: a Python function; MLIR text, or the path of a `.mlir` file; `pkg.mod:function`; what
            `jax.jit(f).lower(...)` or `jax.export` returns; a Module; an xDSL module.
        mesh: the devices; may be left out where the program declares its mesh.
        args: for a Python function, the type of each parameter (`"bf16[8,512]"`, or anything with shape and
            dtype), nested in dicts, lists and tuples as the function takes them; for other programs, types or
            shapes of inputs whose sizes they leave open, in order or by name.
        in_specs: required shardings of inputs: by name (`*` matches), or one per input; None leaves it open.
        out_specs: the same for outputs (`result`, `result.0`, ...); a single sharding is that of the only output.
        target: `cuda:sm_90`, `cuda:sm_90,sm_80` (no GPU is needed), or `cpu`: no binaries.
        arguments: `local`: each rank is given its shards; `global`: the whole arrays.
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
        progress=progress,
    )
    executable.build(progress)
    return executable


def plan(graph: Any, mesh: Mesh | Mapping[str, int] | None = None, *, args: Args = None, in_specs: Specs = None,
         out_specs: Specs = None, target: str = "cuda:sm_90", arguments: str = "local",
         progress: Progress | None = None) -> Executable:  # fmt: skip
    """As `compile`, without building binaries."""
    options, timing = Options(target, arguments), Timing()
    with timing.of("import"):
        module, rebuild = read(graph, mesh, args=args, in_specs=in_specs, out_specs=out_specs)
    return plan_module(module, options, timing, rebuild, progress)


def plan_module(
    module: Module, options: Options, timing: Timing, rebuild: Rebuild = None, progress: Progress | None = None
) -> Executable:
    """From a module that was read to its schedule."""
    stages = run_stages(module, options, timing, "fuse", progress)
    with timing.of("schedule"):
        schedule = make_schedule(stages["fuse"], options)
    return Executable(stages, schedule, options, timing, rebuild)


def lower(graph: Any, mesh: Mesh | Mapping[str, int] | None = None, *, stage: str, args: Args = None,
          in_specs: Specs = None, out_specs: Specs = None, target: str = "cuda:sm_90", arguments: str = "local") -> Module:  # fmt: skip
    """The program at `stage`: import, propagate, materialize, optimize, partition, fuse or schedule. Else as `compile`."""
    module, _ = read(graph, mesh, args=args, in_specs=in_specs, out_specs=out_specs)
    return run_stages(module, Options(target, arguments), Timing(), stage)[stage]


def read(graph: Any, mesh: Mesh | Mapping[str, int] | None = None, *, args: Args = None, in_specs: Specs = None,
         out_specs: Specs = None) -> tuple[Module, Rebuild]:  # fmt: skip
    """The program as a verified module with its annotations, and how to rebuild a traced function's result."""
    mesh = mesh if mesh is None or isinstance(mesh, Mesh) else make_mesh(mesh)
    module, rebuild = _import(graph, mesh, args)
    if mesh is not None:
        module = replace(module, mesh=module.mesh.completed(mesh))
    if rebuild is None and args is not None:
        module = with_shapes(module, _shapes(args, input_names(module.graph)))
    elif has_open_results(module):
        module = with_shapes(module, {})
    verify_program(module)
    inputs, outputs = module.graph.inputs, module.graph.outputs
    wishes = _annotations("input", _names(inputs, "arg"), inputs, in_specs, module.mesh, module.in_annotations)
    names = ["result"] if len(outputs) == 1 else [f"result.{i}" for i in range(len(outputs))]
    results = _annotations("output", names, outputs, out_specs, module.mesh, module.out_annotations)
    return replace(module, in_annotations=wishes, out_annotations=results), rebuild


def _import(graph: Any, mesh: Mesh | None, args: Args) -> tuple[Module, Rebuild]:
    from meshgen.frontend.jax import from_jax, is_jax

    if isinstance(graph, Module):
        return graph, None
    if isinstance(graph, (str, Path)):
        return _from_text(graph, mesh, args)
    if is_jax(graph):
        return from_jax(graph), None
    if type(graph).__module__.startswith("xdsl."):
        return _read_mlir(str(graph), mesh), None
    if not callable(graph):
        raise UsageError(
            Diagnostic("MG0001", f"a {type(graph).__name__} is no program", hint="pass a function, MLIR text or a path")
        )
    if args is None:
        raise UsageError(Diagnostic("MG0001", "a Python function needs args=[...], the type of each parameter"))
    traced = trace(graph, args, mesh)
    return traced.module, traced.rebuild


def _from_text(graph: str | Path, mesh: Mesh | None, args: Args) -> tuple[Module, Rebuild]:
    text = str(graph)
    if isinstance(graph, str) and (text == "-" or "\n" in text or "{" in text):
        return _read_mlir(text, mesh), None
    if isinstance(graph, str) and ":" in text and not Path(text).exists() and Path(text).suffix != ".mlir":
        return _import(_function(text), mesh, args)
    return _read_mlir(Path(text), mesh), None


def _read_mlir(source: str | Path, mesh: Mesh | None) -> Module:
    from meshgen.frontend.mlir import read_mlir

    return read_mlir(source, mesh)


def _shapes(args: Sequence[Any] | Mapping[str, Any], names: Sequence[str]) -> dict[str, Sequence[int]]:
    """Shapes of inputs by name, from types, arrays or shapes; None leaves one as it is."""
    if not isinstance(args, Mapping) and len(args) > len(names):
        raise UsageError(Diagnostic("MG0001", f"{len(args)} args were given, but the program takes {len(names)}"))
    pairs = args.items() if isinstance(args, Mapping) else zip(names, args, strict=False)
    return {name: given if _is_shape(given) else spec(given).sizes for name, given in pairs if given is not None}


def _is_shape(given: Any) -> bool:
    return isinstance(given, (tuple, list)) and all(isinstance(size, int) for size in cast("Sequence[Any]", given))


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
