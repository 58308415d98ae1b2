"""The stages of compilation as a table.

Each stage is timed and its result verified: types, attributes, and definition before use.

`STAGES` maps a stage to the function that computes it from the previous stage. Passes are imported when they run, so
that importing this table is cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, cast

from meshgen.codegen.targets import DEFAULT_TARGET, architectures_of, passes_to_skip, predicted_on, target_faults
from meshgen.codegen.tuning.table import TuningTable
from meshgen.compilation import Compilation, Timing
from meshgen.errors import Diagnostic, ProgramError, UsageError
from meshgen.gc_pace import infrequent_gc
from meshgen.ir.definitions import require_defined
from meshgen.ir.graph import Graph, Module, Node
from meshgen.ir.node_keys import Form, form_of
from meshgen.mesh import Mesh
from meshgen.names import nearest_names
from meshgen.runtime.plan import Schedule

# called with the stage, or the stage and the pass; the number of finished steps; the number of all steps
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Options:
    """The user's options for the stages.

    Attributes:
        target: `cpu`, or `cuda:` and one or more architectures.
        arguments: `local`: every rank gets its shards; `global`: all get the entire arrays and slice them.
        strict: refuse gathers that no annotation requires: True for all, or the names or source lines of values.
        memory_limit: bytes per device that a step may use. None stands for the memory of the machine's device or,
            without a machine, for the memory that the step needs without overlap.
        skip: names of passes to skip (`meshgen/passes.py`).
        tuning: measured tiles that kernels use instead of the predicted ones.
    """

    target: str = DEFAULT_TARGET
    arguments: str = "local"
    strict: bool | tuple[str | int, ...] = False
    memory_limit: int | None = None
    skip: tuple[str, ...] = ()
    tuning: TuningTable | None = None

    def __post_init__(self) -> None:
        faults = target_faults(self.target)
        if self.arguments not in ("local", "global"):
            faults.append(Diagnostic("MG0001", f"arguments are 'local' or 'global', not '{self.arguments}'"))
        limit = cast("Any", self.memory_limit)
        if limit is not None and (type(limit) is not int or limit < 0):
            faults.append(Diagnostic("MG0001", f"memory_limit={limit!r:.60} is not a number of bytes"))
        faults += unknown_passes(self.skip)
        if faults:
            raise UsageError(*faults)

    @property
    def architectures(self) -> tuple[str, ...]:
        """Return the GPU architectures for which kernels are built, or an empty tuple for the CPU."""
        return architectures_of(self.target)

    @property
    def left_out(self) -> frozenset[str]:
        """Return the names of all passes that are skipped because of these options."""
        return frozenset(self.skip) | passes_to_skip(self.target)


def unknown_passes(names: Iterable[str]) -> list[Diagnostic]:
    """Return a diagnostic for each name that is not a pass."""
    if not (requested := list(names)):
        return []
    from meshgen.passes import PASSES

    def hint(name: str) -> str:
        similar_names = nearest_names(name, [*PASSES, *STAGES])
        return f"did you mean '{similar_names[0]}'?" if similar_names else "meshgen opt --list-passes lists them"

    return [Diagnostic("MG0001", f"unknown pass '{name}'", hint=hint(name)) for name in requested if name not in PASSES]


def _propagate(module: Module, context: Compilation) -> Module:
    from meshgen.sharding.propagate import propagate

    return propagate(module, context)


def _materialize(module: Module, context: Compilation) -> Module:
    from meshgen.sharding.stages import materialized

    return materialized(module, context)


def _optimize(module: Module, context: Compilation) -> Module:
    from meshgen.sharding.overlap import overlapped
    from meshgen.sharding.stages import optimized

    return overlapped(optimized(module, context), context)


def _partition(module: Module, context: Compilation) -> Module:
    from meshgen.sharding.overlap import overlapped
    from meshgen.sharding.stages import partitioned

    return overlapped(partitioned(module, context.arguments, context), context)


def _fuse(module: Module, context: Compilation) -> Module:
    from meshgen.codegen.planner import fused

    return fused(module, context)


def _schedule(module: Module, context: Compilation) -> Module:
    from meshgen.codegen.scheduling.schedule_stage import scheduled

    return scheduled(module, make_schedule(module, context))


STAGES: Mapping[str, Callable[[Module, Compilation], Module]] = {
    "propagate": _propagate,
    "materialize": _materialize,
    "optimize": _optimize,
    "partition": _partition,
    "fuse": _fuse,
    "schedule": _schedule,
}


# The stages from which a stage can continue. Skipping `materialize`, for example, would silently drop annotations.
_ACCEPTED_STAGES = {
    "optimize": ("materialize", "optimize", "partition"),
    "partition": ("materialize", "optimize"),
    "fuse": ("partition",),
    "schedule": ("fuse",),
}


def context_of(options: Options, timing: Timing | None = None) -> Compilation:
    """Return a context for a compilation with these options, which stores pass statistics in `timing`."""
    records = (timing or Timing()).passes
    return Compilation(options.left_out, options.target, options.memory_limit, options.arguments, records=records)


def make_schedule(module: Module, context: Compilation) -> Schedule:
    """Schedule a fused module, and check the schedule for races and deadlocks."""
    from meshgen.codegen.planner import planned
    from meshgen.runtime.validation.checker import check

    plan = planned(module, *predicted_on(context.target, context.memory_limit, module.mesh), context)
    check(plan, module.mesh)
    return plan


def scheduled_parts(module: Module, context: Compilation) -> list[Module]:
    """Schedule the fused program of each mesh, and check all schedules together for races and deadlocks."""
    from meshgen.codegen.scheduling.schedule_stage import scheduled
    from meshgen.runtime.validation.multi_mesh_checker import check_parts

    plans = [make_schedule(part, context) for part in module.parts]
    check_parts(plans, [part.mesh for part in module.parts])
    return [scheduled(part, plan) for part, plan in zip(module.parts, plans, strict=True)]


@infrequent_gc()
def run_stages(module: Module, options: Options, timing: Timing, last: str = "fuse", progress: Progress | None = None,
               context: Compilation | None = None) -> dict[str, Module]:  # fmt: skip
    """Run the stages up to `last`, and return the program of each stage by name.

    The first entry is the module itself, or its optimized form if the user wrote it per device.

    Raises:
        UsageError: `last` comes before the module's stage. Also raises the errors of the passes.
    """
    order = ["import", *STAGES]
    if module.stage not in order or last not in order or order.index(last) < order.index(module.stage):
        text = f"a program at stage '{module.stage}' cannot be taken to stage '{last}'"
        raise UsageError(Diagnostic("MG0001", text, hint=f"the stages are {', '.join(order)}"))
    require_defined(module, module.stage)
    context = context or context_of(options, timing)
    # The user wrote the collectives, so only the passes that are valid on local values run.
    if module.stage == "partition":
        with timing.of("optimize"):
            module = _on_meshes("optimize", module, context)
    programs = {module.stage: module}
    remaining = order[order.index(module.stage) + 1 : order.index(last) + 1]
    for done, stage in enumerate(remaining):
        if progress:
            progress(stage, done, len(remaining))
            context.tell = partial(_tell_pass, progress, stage, done, len(remaining))
        with timing.of(stage):
            module = programs[stage] = run_stage(stage, module, context)
    return programs


def _tell_pass(progress: Progress, stage: str, done: int, total: int, name: str) -> None:
    progress(f"{stage}: {name}", done, total)


def run_stage(stage: str, module: Module, context: Compilation) -> Module:
    """Run one stage on a program, and verify the result.

    Raises:
        UsageError: the stage is unknown, or is before the stage of the program.
    """
    if stage not in STAGES:
        raise UsageError(Diagnostic("MG0001", f"unknown stage '{stage}'", hint=f"stages are {', '.join(STAGES)}"))
    order = ["import", *STAGES]
    if stage == module.stage and stage not in ("propagate", "optimize"):  # the program is already at this stage
        return module
    # run only the passes that are valid on per-device programs
    is_local = module.stage == "partition" and stage == "optimize"
    if module.stage in order and order.index(stage) < order.index(module.stage) and not is_local:
        hint = f"stages after it are {', '.join(order[order.index(module.stage) + 1 :]) or 'none'}"
        message = f"the program is at stage '{module.stage}', which comes after '{stage}'"
        raise UsageError(Diagnostic("MG0001", message, hint=hint))
    if module.stage in order and module.stage not in _ACCEPTED_STAGES.get(stage, order):
        message = (
            f"'{stage}' takes a program at stage {' or '.join(_ACCEPTED_STAGES[stage])}, not at stage '{module.stage}'"
        )
        before = ", ".join(order[order.index(module.stage) + 1 : order.index(stage)])
        raise UsageError(Diagnostic("MG0001", message, hint=f"the stages before it are {before}"))
    result = _on_meshes(stage, module, context)
    require_sound(result, stage, module)
    return result


def run_pass(name: str, module: Module, context: Compilation) -> Module:
    """Run one pass by itself, without comparing costs, and verify the result.

    Raises:
        UsageError: the pass does not accept a program at this stage.
    """
    from meshgen.ir.multi_mesh import joined
    from meshgen.passes import PASSES
    from meshgen.sharding.unknown_axes import at_nominal_sizes

    selected = PASSES[name]
    if module.stage not in selected.stages:
        message = f"'{name}' takes a program at stage {' or '.join(selected.stages)}, not at stage '{module.stage}'"
        raise UsageError(Diagnostic("MG0001", message))
    if len(module.meshes) > 1 and not module.parts:
        raise UsageError(Diagnostic("MG0001", f"'{name}' takes a program on one mesh until it is propagated"))
    run = at_nominal_sizes(lambda part: context.apply(part, (selected,)))
    result = joined(module, [run(part) for part in module.parts]) if module.parts else run(module)
    require_sound(result, name, module)
    return result


def require_sound(module: Module, made_by: str, made_from: Module) -> None:
    """Check a program that the stage or pass `made_by` returned. A malformed program is an internal error (exit code
    70).

    Nodes that are shared with the program `made_from` are not checked again.
    """
    require_defined(module, made_by)
    faults = node_faults(module) if not _is_sound(module, {*made_from.graph.nodes}) else ()
    assert not faults, f"{made_by} made a malformed program: {faults[0]}"


def _is_sound(module: Module, checked: set[Node]) -> bool:
    """Whether all nodes outside `checked` are well-formed. Of nodes that differ only in value names, one is checked."""
    if module.parts:
        return all(_is_sound(part, checked) for part in module.parts)
    graphs: list[Graph] = [module.graph, *module.kernels.values()]
    return all(_is_sound_node(node) for graph in graphs for node in graph.nodes if node not in checked)


def _is_sound_node(node: Node) -> bool:
    from meshgen.ops.types.inference import verify_node

    form = form_of(node)
    return _is_sound_form(form) if form else not verify_node(node)


@lru_cache(maxsize=1 << 14)
def _is_sound_form(form: Form) -> bool:
    from meshgen.ops.types.inference import form_faults

    return not form_faults(form)


def _on_meshes(stage: str, module: Module, context: Compilation) -> Module:
    """Run a stage on a program. If the program is on several meshes, the stage runs on the part of each mesh."""
    from meshgen.sharding.multi_mesh.split import split_meshes

    run = STAGES[stage]
    module = split_meshes(module)
    if not module.parts:
        return run(module, context)
    from meshgen.ir.multi_mesh import joined
    from meshgen.sharding.multi_mesh.transfer_shardings import propagate_parts, settle

    parts = settle(module.parts) if stage == "materialize" else module.parts
    if stage == "propagate":
        parts = propagate_parts(parts, lambda part: run(part, context))
    elif stage == "schedule":
        parts = scheduled_parts(module, context)
    else:
        parts = [run(part, context) for part in parts]
    return joined(module, parts)


def node_faults(module: Module, mesh: Mesh | None = None) -> list[Diagnostic]:
    """Return diagnostics for all malformed nodes of a module's graph and kernels.

    With a mesh, sizes per device are checked, too.
    """
    from meshgen.ops.types.inference import graph_faults

    if module.parts:
        return [fault for part in module.parts for fault in node_faults(part)]
    graphs: list[Graph] = [module.graph, *module.kernels.values()]
    return [fault for graph in graphs for fault in graph_faults(graph, mesh)]


def program_faults(module: Module) -> list[Diagnostic]:
    """Return diagnostics for all faults of a user's program: malformed nodes, annotations and donations."""
    if module.parts:
        return [fault for part in module.parts for fault in program_faults(part)]
    from meshgen.ir import limits
    from meshgen.ir.donation import donation_faults

    if faults := limits.program_faults(module) or donation_faults(module):
        return faults
    is_local = module.stage == "partition" and module.mesh.is_static
    return node_faults(module, module.mesh if is_local else None)


def verify_program(module: Module) -> None:
    """Check a user's program.

    Raises:
        ProgramError: one diagnostic for each fault.
    """
    if faults := program_faults(module):
        raise ProgramError(*faults)
