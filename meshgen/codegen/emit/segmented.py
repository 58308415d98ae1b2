"""One kernel for many parts of unequal shapes: each is a range of programs, with the tile that it would have alone.

    block = tl.program_id(0)
    if (block >= 0) & (block < 64):     a segment of 64 programs
        ...
    block = tl.program_id(0) - 64
    if (block >= 0) & (block < 96):     three equal segments of 32 programs each
        segment = block // 32
        p_at = p0_ptr / p1_ptr / p2_ptr
        ...

Segments that are equal but for what they read and write share their source, which chooses between their pointers. A few products of
which some warps copy the operands, and others multiply, share a main loop instead (`segmented_dots.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.matmul_tiles import side_by_side_tiles
from meshgen.codegen.emit.plan import KernelPlan, Template
from meshgen.codegen.emit.segmented_dots import emit_in_one_loop
from meshgen.codegen.fusion.accumulators import side_by_side_products
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.index_code import Branch, Let, all_of, integer, program_id
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph, Node, Value
from meshgen.kernels.matmul import Tile
from meshgen.ops.duplicates import structure
from meshgen.ops.segments import segments

_BRANCH = "a branch"  # stands for the lines that open one until its programs are counted


class Alike(NamedTuple):
    """Segments that are equal up to their values, and the plan of the first."""

    bodies: tuple[Graph, ...]
    plan: KernelPlan


class Segments(NamedTuple):
    """A candidate: the classes of segments, and the tile of all products; None where nothing is multiplied."""

    classes: tuple[Alike, ...]
    tile: Tile | None = None


def segmented(joining: Callable[[], Sequence[Template]]) -> Template:
    """The template of several segments, each of which one of the templates that join can generate: all of them GEMMs, or none."""

    def match(body: Graph, device: Device) -> KernelPlan | None:
        if len(parts := segments(body)) == 1:
            return None
        dots = side_by_side_products(body)
        templates = [each for each in joining() if (each.form is KernelForm.GEMM) == bool(dots)]
        candidates = _candidates(parts, dots, templates, device)
        return KernelPlan(template, candidates=candidates) if candidates else None

    template = Template("segmented", match, _emit, KernelForm.SEGMENTED)
    return template


def _candidates(
    parts: Sequence[Graph], dots: Sequence[Node], templates: Sequence[Template], device: Device
) -> tuple[Segments, ...]:
    """The classes of equal segments with their plans, for each tile that suits the products of all; empty if a segment has no plan."""
    classes: dict[Any, list[Graph]] = {}
    for part in parts:
        classes.setdefault(structure(part), []).append(part)
    found: list[Alike] = []
    for alike in classes.values():
        plan = next((plan for each in templates if (plan := each.match(alike[0], device))), None)
        if plan is None:
            return ()
        found.append(Alike(tuple(alike), plan))
    return _with_tiles(found, dots, device) if dots else (Segments(tuple(found)),)


def _with_tiles(found: Sequence[Alike], dots: Sequence[Node], device: Device) -> tuple[Segments, ...]:
    """The segments with each tile that suits the products of all, and the parts of rows that some reduce."""
    bodies = [body for alike in found for body in alike.bodies]
    columns = {alike.plan.space.columns for alike in found if alike.plan.space} - {0}
    tiles = side_by_side_tiles(bodies, dots, device, columns)
    return tuple(Segments(tuple(_with_tile(alike, tile) for alike in found), tile) for tile in tiles)


def _with_tile(alike: Alike, tile: Tile) -> Alike:
    return alike._replace(plan=replace(alike.plan, candidates=(tile,)))


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch | None:
    """A branch for each class of segments."""
    pointers = dict(evaluator.pointer_of) | dict(zip(body.outputs, evaluator.results, strict=True))
    launches, programs = list[Launch](), 0
    segmented: Segments = plan.candidates[0]
    if segmented.tile and segmented.tile.is_specialized:
        bodies = [each for alike in segmented.classes for each in alike.bodies]
        return emit_in_one_loop(evaluator, bodies, pointers, segmented.tile, device)
    for alike in segmented.classes:
        evaluator.branch(_BRANCH)
        launch = _emit_alike(evaluator, alike, pointers, device)
        if launch is None:
            return None
        evaluator.close()
        count = launch.grid[0] * len(alike.bodies)
        _write_head(evaluator, programs, count, len(alike.bodies))
        launches.append(launch)
        programs += count
    warps, stages = (max(getattr(each, name) for each in launches) for name in ("num_warps", "num_stages"))
    return Launch((programs, 1, 1), evaluator.constants, warps, max(2, stages))


def _write_head(evaluator: Evaluator, first: int, count: int, segments: int) -> None:
    """Write the lines that open the branch of programs from `first` on, in place of the line that stands for them."""
    block, each = integer("block"), count // segments
    number = program_id() - first if first else program_id()
    test = all_of([block.compared(">=", 0), block.below(count)])
    lines, inside = [f"block = {number}", f"if {test}:"], list[Let]()
    if segments > 1:
        inside = [Let("segment", block // each), Let("block", block % each)]
        lines += [f"    segment = {inside[0].value}  # of {segments}", f"    block = {inside[1].value}"]
    at = evaluator.lines.index(f"    if {_BRANCH}:")
    evaluator.lines[at : at + 1] = [f"    {line}" for line in lines]
    branch = evaluator.code.pop()
    assert isinstance(branch, Branch)
    evaluator.code += [Let("block", number), Branch(test, [*inside, *branch.body], branch.otherwise)]


def _emit_alike(evaluator: Evaluator, alike: Alike, pointers: Mapping[Value, str], device: Device) -> Launch | None:
    """Source for all of them, in programs `block`; the launch of one."""
    rows = [[pointers[value] for value in (*part.inputs, *part.outputs)] for part in alike.bodies]
    names = _pointers_of_segment(evaluator, list(zip(*rows, strict=True)))
    first, count = alike.bodies[0], len(alike.bodies[0].inputs)
    with evaluator.part(first, integer("block"), dict(zip(first.inputs, names, strict=False)), names[count:]):
        return alike.plan.template.emit(evaluator, first, alike.plan, device)


def _pointers_of_segment(evaluator: Evaluator, columns: Sequence[tuple[str, ...]]) -> list[str]:
    """Names of pointers that are those of the segment at hand; `columns` has, for each, that of every segment."""
    names = [
        column[0] if len(set(column)) == 1 else evaluator.names.fresh(f"{column[0].removesuffix('_ptr')}_at")
        for column in columns
    ]
    varying = [(name, column) for name, column in zip(names, columns, strict=True) if name != column[0]]
    if varying:
        _choose(evaluator, varying, 0, len(columns[0]))
    return names


def _choose(evaluator: Evaluator, varying: Sequence[tuple[str, tuple[str, ...]]], low: int, high: int) -> None:
    """Choose between segments low .. high - 1, by halves."""
    if high - low == 1:
        for name, column in varying:
            evaluator.let(name, integer(column[low]))
        return
    middle = (low + high) // 2
    evaluator.branch(integer("segment").below(middle))
    _choose(evaluator, varying, low, middle)
    evaluator.close()
    evaluator.otherwise()
    _choose(evaluator, varying, middle, high)
    evaluator.close()
