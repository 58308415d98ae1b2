"""The Python interface: `compile` a program for a mesh, `lower` it to a stage, and `load` a saved module.

Sizes of mesh axes (None) and of tensor dims (`?`) may stay open. `compile` then makes a module with specializations for
the requested sizes, and `load` compiles it for other sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from meshgen.calls.callers import at_callers_line
from meshgen.calls.signature import Signature, signature_of
from meshgen.codegen.targets import resolve_target
from meshgen.codegen.tuning.table import loaded_table
from meshgen.compilation import Compilation
from meshgen.compiled.entries import EntriesExecutable
from meshgen.compiled.executable import Executable
from meshgen.compiled.open_sizes import OpenExecutable, closed, open_program
from meshgen.errors import Diagnostic, EntryError, UsageError
from meshgen.frontend.arguments import Args, apply_user_meshes, combinations, shapes_of, with_machine
from meshgen.frontend.donate import Donate, with_donations
from meshgen.frontend.entries import entry_programs
from meshgen.frontend.option_checks import text_option
from meshgen.frontend.pair_donations import with_next_values
from meshgen.frontend.programs import import_program
from meshgen.frontend.specs import Specs, annotated, mesh_of_specs, warn_of_other_mesh
from meshgen.gc_pace import infrequent_gc
from meshgen.ir.graph import Module
from meshgen.machine.profiles import Machine
from meshgen.machine.reading import machine_of
from meshgen.mesh import Meshes, meshes_of
from meshgen.ops.precision import with_precision
from meshgen.options import CompileOptions, with_options
from meshgen.pipeline import Options, Progress, Timing, context_of, make_schedule, run_stages, verify_program
from meshgen.runtime.open_program import AT_LOAD
from meshgen.runtime.sizes import Given, Sizes, bound
from meshgen.sizes.program import has_open_results, input_names, types_with_shapes, with_shapes

if TYPE_CHECKING:  # imported for types only: compiling a program must not import the runtime or the simulator
    from meshgen.compiled.module_reports import ModuleViews
    from meshgen.reports.annotation_changes import Advice
    from meshgen.runtime.module import LoadedModule
    from meshgen.runtime.open_module import OpenModule
    from meshgen.runtime.plan import Schedule
    from meshgen.simulator.simulation import Simulation
    from meshgen.simulator.timeline import Conditions

__all__ = ["EntriesExecutable", "Executable", "OpenExecutable", "compile", "load", "lower", "read"]


@at_callers_line
@with_options(CompileOptions)
def compile(graph: Any, mesh: Meshes, options: CompileOptions) -> Executable:
    """Compile a program to a scheduled step with built kernels.

    A program with open sizes becomes an `OpenExecutable`, with a step for each of `sizes`.

    Args:
        graph: a Python function; MLIR text, or the path of a `.mlir` file; `pkg.mod:function`; the result of
            `jax.jit(f).lower(...)`, `.trace(...)` or `jax.export`; an ONNX model, or the path of one; a Module; an xDSL
            module.
        mesh: the devices; may be omitted if the program declares a mesh. Several meshes are given by name: `{"first":
            {"dp": 2}, "second": {"x": 4}}`, or as a list of named meshes.
        {options}
    Raises:
        ProgramError, ShardingError, CodegenError: the program is invalid or unsupported; has all diagnostics with
            locations.
        UsageError: a bad option, name or path.
    """
    executable = planned(graph, mesh, options)
    executable.build(options.progress)
    return executable


@at_callers_line
@with_options(CompileOptions)
def plan(graph: Any, mesh: Meshes, options: CompileOptions) -> Executable:
    """Compile a program like `compile`, but without building binaries."""
    return planned(graph, mesh, options)


@infrequent_gc()
def planned(graph: Any, mesh: Meshes, options: CompileOptions, timing: Timing | None = None) -> Executable:
    """Compile a program like `plan`, and add the time of each stage to `timing`."""
    progress = cast("Any", options.progress)
    if progress is not None and not callable(progress):
        raise UsageError(
            Diagnostic("MG0001", f"progress must be a function of (what, done, total), got {progress!r:.60}")
        )
    timing, options = timing or Timing(), replace(options, tuning=loaded_table(options.tuning))
    if (several := entry_programs(graph, options.entry)) is not None:
        return _plan_entries(several, mesh, options, timing)
    try:
        return _plan_one(graph, mesh, replace(options, entry=text_option(options.entry, "entry")), timing)
    except EntryError as error:
        if graph == "-":
            raise  # stdin can be read only once
        return _plan_entries({name: (graph, name) for name in error.names}, mesh, options, timing)


def _plan_entries(
    programs: Mapping[str, tuple[Any, str]], mesh: Meshes, options: CompileOptions, timing: Timing
) -> EntriesExecutable:
    """Plan each entry function, and combine the results to one executable.

    Args:
        programs: maps an entry name to the program and to the name of the function in that program.
    """
    chosen = {name: options.of_entry(name, entry, programs.keys()) for name, (_, entry) in programs.items()}
    planned_entries = {name: _plan_one(programs[name][0], mesh, chosen[name], timing) for name in programs}
    return EntriesExecutable(planned_entries, "-".join(planned_entries))


def _plan_one(graph: Any, mesh: Meshes, chosen: CompileOptions, timing: Timing) -> Executable:
    """Plan a program with one entry function."""
    options, progress = chosen.for_stages(), chosen.progress
    if progress:
        progress("import", 0, 1)
    with timing.of("import"):
        module, signature = read_with(graph, mesh, chosen)
    options = replace(options, target=resolve_target(chosen.target, module.meshes or (module.mesh,)))
    if chosen.search:
        from meshgen.search.search_loop import SECONDS
        from meshgen.search.search_loop import search as best

        seconds: Any = SECONDS if chosen.search is True else chosen.search
        if not (isinstance(seconds, int | float) and seconds > 0):
            raise UsageError(Diagnostic("MG0001", f"search={chosen.search!r} is not True, nor a number of seconds"))
        searched = best(module, options, planning(signature), seconds=seconds, progress=progress)
        return cast("Executable", searched.planned)
    program = open_program(module, {} if signature.is_typed else shapes_of(chosen.args, signature), options)
    size_choices = combinations(chosen.sizes)
    sizes = [
        program.sizes(bound(program.meshes, axis_sizes), shapes_of(input_shapes, signature))
        for axis_sizes, input_shapes in size_choices
    ]
    if not program.is_open:
        return plan_module(module, options, timing, signature, progress)
    executable = OpenExecutable(module, program, options, timing, signature, plan_module)
    for requested_sizes in sizes:
        executable.specialize_for(requested_sizes)
    return executable


def planning(signature: Signature) -> Callable[[Module, Options, Timing], Executable]:
    """Return a function like `plan_module` for programs whose arguments have the structure of `signature`."""
    return lambda module, options, timing: plan_module(module, options, timing, signature)


def plan_module(module: Module, options: Options, timing: Timing, signature: Signature | None = None,
                progress: Progress | None = None) -> Executable:  # fmt: skip
    """Run all stages on an imported module, schedule it, and return the executable."""
    context = context_of(options, timing)
    stages = run_stages(module, options, timing, "fuse", progress, context)
    if stages["fuse"].parts:
        executable = _plan_parts(stages, options, timing, signature, context)
    else:
        if progress:
            progress("schedule", 0, 1)
        with timing.of("schedule"):
            schedule = make_schedule(stages["fuse"], context)
        executable = Executable(stages, schedule, options, timing, signature, context.decisions)
    if options.strict:
        from meshgen.reports.advice import best_change
        from meshgen.reports.gathers import refuse_gathers

        refuse_gathers(executable, options.strict, lambda numbers: best_change(executable, plan_module, numbers))
    return executable


def _plan_parts(
    stages: Mapping[str, Module], options: Options, timing: Timing, signature: Signature | None, context: Compilation
) -> Executable:
    """Schedule the programs of all meshes, and check the schedules together for races and deadlocks."""
    from meshgen.compiled.multi_mesh import PartsExecutable
    from meshgen.runtime.validation.multi_mesh_checker import check_parts
    from meshgen.sharding.propagate import decisions_of

    parts: list[Executable] = []
    with timing.of("schedule"):
        for index, part in enumerate(stages["fuse"].parts):
            stages_of_part = {stage: module.parts[index] for stage, module in stages.items() if module.parts}
            propagation = (
                decisions_of(stages_of_part["propagate"], context.decisions) if "propagate" in stages_of_part else None
            )
            stages_of_part = ({"import": propagation.entered} if propagation else {}) | stages_of_part
            parts.append(
                Executable(stages_of_part, make_schedule(part, context), options, timing, decisions=context.decisions)
            )
        timeline = check_parts([part.plan for part in parts], [part.mesh for part in parts])
    return PartsExecutable(stages, parts, timeline, options, timing, signature)


@at_callers_line
def advise(executable: Executable, progress: Progress | None = None) -> list[Advice]:
    """Return the annotations to drop or add that improve the step, with the change of bytes, time and memory.

    The program is planned again with each candidate change.

    Args:
        executable: the result of `compile`.
        progress: called as `progress(what, done, total)`.
    """
    if not isinstance(cast("Any", executable), Executable):
        text = f"expected an Executable, got {executable!r}"
        raise UsageError(Diagnostic("MG0001", text, hint="pass what meshgen.compile returns"))
    from meshgen.reports import advice

    return advice.advise(executable, plan_module, progress=progress)


@at_callers_line
def lower(graph: Any, mesh: Meshes = None, *, stage: str, args: Args = None,
          in_specs: Specs = None, out_specs: Specs = None, target: str | None = None, arguments: str = "local",
          entry: str = "", donate: Donate = None, machine: str | Path | Machine | None = None, precision: str = "") -> Module:  # fmt: skip
    """Return the program at `stage`: import, propagate, materialize, optimize, partition, fuse or schedule.

    The other arguments are documented at `compile`.
    """
    chosen = CompileOptions(
        args=args, in_specs=in_specs, out_specs=out_specs, target=target, arguments=arguments, entry=entry, donate=donate,
        machine=machine, precision=precision,
    )  # fmt: skip
    module, _ = read_with(graph, mesh, chosen)
    options = replace(chosen.for_stages(), target=resolve_target(target, module.meshes or (module.mesh,)))
    return run_stages(module, options, Timing(), text_option(stage, "stage"))[stage]


@with_options(CompileOptions)
def read(graph: Any, mesh: Meshes, options: CompileOptions) -> tuple[Module, Signature]:
    """Read and verify a program. Returns the module with its annotations, and the signature."""
    return read_with(graph, mesh, options)


def read_with(graph: Any, mesh: Meshes, chosen: CompileOptions) -> tuple[Module, Signature]:
    """Read and verify a program, like `read` but with an options object."""
    args, in_specs, out_specs, machine = chosen.args, chosen.in_specs, chosen.out_specs, chosen.machine
    meshes, profile = meshes_of(mesh), None if machine is None else machine_of(machine)
    module, imported_signature = import_program(graph, meshes, args, text_option(chosen.entry, "entry"))
    signature = warn_of_other_mesh(imported_signature or signature_of(input_names(module.graph)), graph, module, meshes)
    module = apply_user_meshes(module, meshes or (() if module.mesh.axes else mesh_of_specs(in_specs, out_specs)))
    module = with_machine(module, profile) if profile else module
    shapes = {} if signature.is_typed else shapes_of(args, signature)
    is_known = not any(None in input_type.shape for input_type in types_with_shapes(module.graph, shapes))
    if is_known and (shapes or has_open_results(module)) and (module.stage != "partition" or module.mesh.is_static):
        module = with_shapes(module, shapes)
    module, signature = with_next_values(with_donations(module, chosen.donate, signature), signature)
    precision = text_option(chosen.precision, "precision")
    module = with_precision(module, precision) if precision else module
    verify_program(module)
    return annotated(module, in_specs, out_specs, signature), signature


@at_callers_line
def load(path: str | Path, mesh: Given = None, *, entry: str = "", devices: int | None = None, mmap: bool = False,
         verify_key: str | Path | None = None) -> LoadedModule:  # fmt: skip
    """Load a module like `meshgen.runtime.loading.load`. An open module is compiled if it lacks a specialization for
    the sizes.

    The returned module then reports the compilation in `record()["specialised"]`. The compiler is needed only in this
    case.
    """
    if devices is not None and (isinstance(devices, bool) or not isinstance(cast("Any", devices), int)):
        raise UsageError(Diagnostic("MG0001", f"devices must be a positive integer, got {devices!r:.60}"))
    from meshgen.runtime import loading

    return loading.load(
        path, mesh, entry=entry, devices=devices, mmap=mmap, specialize=specialized, verify_key=verify_key, viewer=views
    )


@at_callers_line
def simulate(program: Executable | LoadedModule, machine: str | Path | Machine | None = None,
             conditions: Conditions | None = None, *, watch: Sequence[int] | None = None) -> Simulation:  # fmt: skip
    """Predict one step of all ranks on a machine.

    The result has the end and compute time of each rank, and all launches of a few ranks.

    Args:
        program: a compiled program or loaded module, in which the sizes of all mesh axes are set.
        machine: a profile, its name (`dgx-h100`, ...), or the path of a profile.json; default: the machine that the
            program was compiled for, else one host of the target's devices. Its profile determines the times of kernels
            and collectives.
        conditions: slow devices and links, and jitter (`meshgen.simulator.timeline.Conditions`).
        watch: ranks of which all launches are recorded, for `meshgen.simulator.trace.trace_of`; default: the first rank
            of each mesh.
    Raises:
        UsageError: MG0001 or MG0002, for an unknown machine or rank.
        ShardingError: MG0201, the size of a mesh axis is unknown.
    """
    from meshgen.simulator import simulation

    if not isinstance(program, Executable):
        program.require_sizes()
    parts = [simulation.Scheduled(part.mesh, _schedule_of(part), program.target) for part in program.parts]
    return simulation.simulate(parts, machine, conditions, watch)


def _schedule_of(part: Executable | LoadedModule) -> Schedule:
    return part.plan if isinstance(part, Executable) else part.schedule


@at_callers_line
def replan(module: LoadedModule) -> Executable:
    """Return the program of a loaded module with its saved decisions, for `explain`, `show`, `report` and `advise`.

    A module without decisions, or with decisions of another meshgen version, is planned again with the options it was
    compiled with.

    Raises:
        UsageError: MG0002 if the module does not have the text of its program.
    """
    from meshgen.compiled.restored import saved_program
    from meshgen.reports.plan_record import program_of

    if (program := saved_program(module)) is not None:
        return program
    return plan_module(*program_of(module, str(module.members.path)), Timing())


def views(module: LoadedModule) -> ModuleViews:
    """Return the reports (collectives, cost, memory, ...) of a loaded module."""
    from meshgen.compiled.module_reports import ModuleViews

    return ModuleViews(module, replan)


def specialized(module: OpenModule, sizes: Sizes) -> dict[str, bytes]:
    """Compile an open module for `sizes` and return the specialization as members of the module's file.

    Raises:
        MissingError: MG0602 if the compiler is not installed. Also raises the errors of `compile`.
    """
    program = module.program
    try:
        from meshgen.mlir.text import parse_text

        entered = parse_text(module.text, f"{module.path.name}/{program.text_member}")
        options = Options(program.target, program.arguments)
        executable = plan_module(closed(entered, program, sizes), options, Timing())
        executable.specialized = sizes.record() | {"made": AT_LOAD}
        executable.build()
        return executable.members(module.weights())
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("meshgen."):
            raise
        raise program.lacking(sizes, f"the Python package '{error.name}' is not installed") from error
