"""The stages of compilation as a table; each is timed, and its result verified: types, attributes, and that values are defined before use.

`STAGES` maps a stage to the function that makes it from the stage before. The passes are imported when they
run, so that reading this table costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, cast

from meshgen.codegen.targets import DEFAULT_TARGET, architectures_of, predicted_on, target_faults, unneeded_passes
from meshgen.codegen.tuning.table import TuningTable
from meshgen.compilation import Compilation, Timing
from meshgen.errors import Diagnostic, ProgramError, UsageError
from meshgen.gc_pace import rarely_collecting
from meshgen.ir.definitions import require_defined
from meshgen.ir.forms import Form, form_of
from meshgen.ir.graph import Graph, Module, Node
from meshgen.mesh import Mesh
from meshgen.names import nearest_names
from meshgen.runtime.plan import Schedule

Progress = Callable[[str, int, int], None]  # the stage, or stage and pass; steps done, of how many


@dataclass(frozen=True)
class Options:
    """What the user chose.

    Attributes:
        target: `cpu`, or `cuda:` and one or more architectures.
        arguments: `local`: every rank is given its shards; `global`: all are given the whole arrays and slice them.
        strict: refuse gathers that no annotation asks for: all, or those of values (by name) and lines.
        memory_limit: bytes of a device that a step may take; None: those of the machine's device, else what it takes where nothing
            overlaps.
        skip: names of passes to leave out (`meshgen/passes.py`).
        tuning: tiles that were measured, which kernels take in place of the predicted ones.
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
        """GPU architectures to build for; none for the CPU."""
        return architectures_of(self.target)

    @property
    def left_out(self) -> frozenset[str]:
        """The passes that do not run."""
        return frozenset(self.skip) | unneeded_passes(self.target)


def unknown_passes(names: Iterable[str]) -> list[Diagnostic]:
    """A fault for each unknown pass."""
    if not (asked := list(names)):
        return []
    from meshgen.passes import PASSES

    def hint(name: str) -> str:
        near = nearest_names(name, [*PASSES, *STAGES])
        return f"did you mean '{near[0]}'?" if near else "meshgen opt --list-passes lists them"

    return [Diagnostic("MG0001", f"unknown pass '{name}'", hint=hint(name)) for name in asked if name not in PASSES]


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


# Stages that a stage takes: without materialize, say, annotations would be dropped in silence.
_TAKES = {
    "optimize": ("materialize", "optimize", "partition"),
    "partition": ("materialize", "optimize"),
    "fuse": ("partition",),
    "schedule": ("fuse",),
}


def context_of(options: Options, timing: Timing | None = None) -> Compilation:
    """Return a context for a compilation with these options, which counts passes into `timing`."""
    records = (timing or Timing()).passes
    return Compilation(options.left_out, options.target, options.memory_limit, options.arguments, records=records)


def make_schedule(module: Module, context: Compilation) -> Schedule:
    """The last step, from a fused module to a plan that is proven free of races and deadlock."""
    from meshgen.codegen.planner import planned
    from meshgen.runtime.validation.checker import check

    plan = planned(module, *predicted_on(context.target, context.memory_limit, module.mesh), context)
    check(plan, module.mesh)
    return plan


def scheduled_parts(module: Module, context: Compilation) -> list[Module]:
    """The fused parts of a program on several meshes with their schedules, which are proven right together."""
    from meshgen.codegen.scheduling.schedule_stage import scheduled
    from meshgen.runtime.validation.checker_parts import check_parts

    plans = [make_schedule(part, context) for part in module.parts]
    check_parts(plans, [part.mesh for part in module.parts])
    return [scheduled(part, plan) for part, plan in zip(module.parts, plans, strict=True)]


@rarely_collecting()
def run_stages(module: Module, options: Options, timing: Timing, last: str = "fuse", progress: Progress | None = None,
               context: Compilation | None = None) -> dict[str, Module]:  # fmt: skip
    """Return the programs of all stages from the module's own to `last`, by name; the module itself is the first (optimized, if local).

    Raises UsageError if `last` comes before the module's stage, and what the passes raise.
    """
    order = ["import", *STAGES]
    if module.stage not in order or last not in order or order.index(last) < order.index(module.stage):
        text = f"a program at stage '{module.stage}' cannot be taken to stage '{last}'"
        raise UsageError(Diagnostic("MG0001", text, hint=f"the stages are {', '.join(order)}"))
    require_defined(module, module.stage)
    context = context or context_of(options, timing)
    if module.stage == "partition":  # written with collectives by the user: passes that hold on local values apply
        with timing.of("optimize"):
            module = _on_meshes("optimize", module, context)
    found = {module.stage: module}
    wanted = order[order.index(module.stage) + 1 : order.index(last) + 1]
    for number, stage in enumerate(wanted):
        if progress:
            progress(stage, number, len(wanted))
            context.tell = partial(_tell_pass, progress, stage, number, len(wanted))
        with timing.of(stage):
            module = found[stage] = run_stage(stage, module, context)
    return found


def _tell_pass(progress: Progress, stage: str, done: int, total: int, name: str) -> None:
    progress(f"{stage}: {name}", done, total)


def run_stage(stage: str, module: Module, context: Compilation) -> Module:
    """One stage, with the result verified. Raises UsageError for an unknown stage, or one that the program has passed."""
    if stage not in STAGES:
        raise UsageError(Diagnostic("MG0001", f"unknown stage '{stage}'", hint=f"stages are {', '.join(STAGES)}"))
    order = ["import", *STAGES]
    if stage == module.stage and stage not in ("propagate", "optimize"):  # what was written so is there already
        return module
    is_local = module.stage == "partition" and stage == "optimize"  # its passes that hold on local values apply
    if module.stage in order and order.index(stage) < order.index(module.stage) and not is_local:
        hint = f"stages after it are {', '.join(order[order.index(module.stage) + 1 :]) or 'none'}"
        message = f"the program is at stage '{module.stage}', which comes after '{stage}'"
        raise UsageError(Diagnostic("MG0001", message, hint=hint))
    if module.stage in order and module.stage not in _TAKES.get(stage, order):
        message = f"'{stage}' takes a program at stage {' or '.join(_TAKES[stage])}, not at stage '{module.stage}'"
        before = ", ".join(order[order.index(module.stage) + 1 : order.index(stage)])
        raise UsageError(Diagnostic("MG0001", message, hint=f"the stages before it are {before}"))
    result = _on_meshes(stage, module, context)
    require_sound(result, stage, module)
    return result


def run_pass(name: str, module: Module, context: Compilation) -> Module:
    """One pass by itself, whatever it costs, with the result verified. Raises UsageError for a program at another stage."""
    from meshgen.ir.parts import joined
    from meshgen.passes import PASSES
    from meshgen.sharding.unknown import at_nominal_sizes

    each = PASSES[name]
    if module.stage not in each.stages:
        message = f"'{name}' takes a program at stage {' or '.join(each.stages)}, not at stage '{module.stage}'"
        raise UsageError(Diagnostic("MG0001", message))
    if len(module.meshes) > 1 and not module.parts:
        raise UsageError(Diagnostic("MG0001", f"'{name}' takes a program on one mesh until it is propagated"))
    run = at_nominal_sizes(lambda part: context.apply(part, (each,)))
    result = joined(module, [run(part) for part in module.parts]) if module.parts else run(module)
    require_sound(result, name, module)
    return result


def require_sound(module: Module, made_by: str, made_from: Module) -> None:
    """Fail (exit code 70) for a malformed program that a stage or a pass made; nodes that it took over are known."""
    require_defined(module, made_by)
    faults = node_faults(module) if not _is_sound(module, {*made_from.graph.nodes}) else ()
    assert not faults, f"{made_by} made a malformed program: {faults[0]}"


def _is_sound(module: Module, known: set[Node]) -> bool:
    """Whether nothing is malformed in what a pass made; each form of node is looked at once, and none that is known."""
    if module.parts:
        return all(_is_sound(part, known) for part in module.parts)
    graphs: list[Graph] = [module.graph, *module.kernels.values()]
    return all(_is_sound_node(node) for graph in graphs for node in graph.nodes if node not in known)


def _is_sound_node(node: Node) -> bool:
    from meshgen.ops.types.inference import verify_node

    form = form_of(node)
    return _is_sound_form(form) if form else not verify_node(node)


@lru_cache(maxsize=1 << 14)
def _is_sound_form(form: Form) -> bool:
    from meshgen.ops.types.inference import form_faults

    return not form_faults(form)


def _on_meshes(stage: str, module: Module, context: Compilation) -> Module:
    """One pass on a program: on each of its parts, where it is on several meshes."""
    from meshgen.sharding.multi_mesh.split import split_meshes

    run = STAGES[stage]
    module = split_meshes(module)
    if not module.parts:
        return run(module, context)
    from meshgen.ir.parts import joined
    from meshgen.sharding.multi_mesh.crossings import propagate_parts, settle

    parts = settle(module.parts) if stage == "materialize" else module.parts
    if stage == "propagate":
        parts = propagate_parts(parts, lambda part: run(part, context))
    elif stage == "schedule":
        parts = scheduled_parts(module, context)
    else:
        parts = [run(part, context) for part in parts]
    return joined(module, parts)


def node_faults(module: Module, mesh: Mesh | None = None) -> list[Diagnostic]:
    """Everything that is malformed in a module's graph and kernels; with a mesh, sizes of local tensors are checked too."""
    from meshgen.ops.types.inference import graph_faults

    if module.parts:
        return [fault for part in module.parts for fault in node_faults(part)]
    graphs: list[Graph] = [module.graph, *module.kernels.values()]
    return [fault for graph in graphs for fault in graph_faults(graph, mesh)]


def program_faults(module: Module) -> list[Diagnostic]:
    """Everything that is malformed in a program that a user wrote."""
    if module.parts:
        return [fault for part in module.parts for fault in program_faults(part)]
    from meshgen.ir import limits
    from meshgen.ir.donation import donation_faults

    if faults := limits.program_faults(module) or donation_faults(module):
        return faults
    is_local = module.stage == "partition" and module.mesh.is_static
    return node_faults(module, module.mesh if is_local else None)


def verify_program(module: Module) -> None:
    """Refuse a program that a user wrote. Raises ProgramError with all faults at once."""
    if faults := program_faults(module):
        raise ProgramError(*faults)
