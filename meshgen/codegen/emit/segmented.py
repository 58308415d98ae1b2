"""One kernel for several independent bodies (segments). Each segment has a range of programs, and the tile that it
would have in a separate kernel.

    block = tl.program_id(0)
    if (block >= 0) & (block < 64):     a segment of 64 programs
        ...
    block = tl.program_id(0) - 64
    if (block >= 0) & (block < 96):     three equal segments of 32 programs each
        segment = block // 32
        p_at = p0_ptr / p1_ptr / p2_ptr
        ...

Segments that differ only in their inputs and outputs share their source, which selects the pointers of the current
segment. A few matmuls that can be warp-specialized share a main loop instead (`segmented_dots.py`).
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
from meshgen.ops.common_subexpressions import structure
from meshgen.ops.segments import segments

# placeholder for the lines that open a branch, until the number of programs of the branch is known
_BRANCH = "a branch"


class EqualSegments(NamedTuple):
    """Segments with the same computation on different values, and the plan of the first of them."""

    bodies: tuple[Graph, ...]
    plan: KernelPlan


class Segments(NamedTuple):
    """A candidate of the segmented template: the classes of equal segments, and the tile of all matmuls (None without
    matmuls).
    """

    classes: tuple[EqualSegments, ...]
    tile: Tile | None = None


def segmented(joining: Callable[[], Sequence[Template]]) -> Template:
    """Return the template for several segments, each of which a template of `joining` can generate.

    Either all segments are GEMMs, or none is.
    """

    def match(body: Graph, device: Device) -> KernelPlan | None:
        if len(bodies := segments(body)) == 1:
            return None
        dots = side_by_side_products(body)
        templates = [candidate for candidate in joining() if (candidate.form is KernelForm.GEMM) == bool(dots)]
        candidates = _candidates(bodies, dots, templates, device)
        return KernelPlan(template, candidates=candidates) if candidates else None

    template = Template("segmented", match, _emit, KernelForm.SEGMENTED)
    return template


def _candidates(
    bodies: Sequence[Graph], dots: Sequence[Node], templates: Sequence[Template], device: Device
) -> tuple[Segments, ...]:
    """Return the classes of equal segments with their plans, one candidate for each tile that suits all matmuls.

    Returns no candidates if some segment has no plan.
    """
    classes: dict[Any, list[Graph]] = {}
    for body in bodies:
        classes.setdefault(structure(body), []).append(body)
    planned: list[EqualSegments] = []
    for alike in classes.values():
        plan = next((plan for template in templates if (plan := template.match(alike[0], device))), None)
        if plan is None:
            return ()
        planned.append(EqualSegments(tuple(alike), plan))
    return _with_tiles(planned, dots, device) if dots else (Segments(tuple(planned)),)


def _with_tiles(planned: Sequence[EqualSegments], dots: Sequence[Node], device: Device) -> tuple[Segments, ...]:
    """Return one candidate per tile that suits the matmuls of all segments and the columns that their epilogues reduce."""
    bodies = [body for alike in planned for body in alike.bodies]
    columns = {alike.plan.space.columns for alike in planned if alike.plan.space} - {0}
    tiles = side_by_side_tiles(bodies, dots, device, columns)
    return tuple(Segments(tuple(_with_tile(alike, tile) for alike in planned), tile) for tile in tiles)


def _with_tile(alike: EqualSegments, tile: Tile) -> EqualSegments:
    return alike._replace(plan=replace(alike.plan, candidates=(tile,)))


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch | None:
    """Write a branch for each class of equal segments."""
    pointers = dict(evaluator.pointer_of) | dict(zip(body.outputs, evaluator.results, strict=True))
    launches, programs = list[Launch](), 0
    segmented: Segments = plan.candidates[0]
    if segmented.tile and segmented.tile.is_specialized:
        bodies = [body for alike in segmented.classes for body in alike.bodies]
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
    warps, stages = (max(getattr(launch, name) for launch in launches) for name in ("num_warps", "num_stages"))
    return Launch((programs, 1, 1), evaluator.constants, warps, max(2, stages))


def _write_head(evaluator: Evaluator, first: int, count: int, segments: int) -> None:
    """Replace the placeholder of a branch with the lines that open a branch for programs `first` to `first + count -
    1`.
    """
    block, segment_programs = integer("block"), count // segments
    position = program_id() - first if first else program_id()
    test = all_of([block.compared(">=", 0), block.below(count)])
    lines, inside = [f"block = {position}", f"if {test}:"], list[Let]()
    if segments > 1:
        inside = [Let("segment", block // segment_programs), Let("block", block % segment_programs)]
        lines += [f"    segment = {inside[0].value}  # of {segments}", f"    block = {inside[1].value}"]
    line_index = evaluator.lines.index(f"    if {_BRANCH}:")
    evaluator.lines[line_index : line_index + 1] = [f"    {line}" for line in lines]
    branch = evaluator.code.pop()
    assert isinstance(branch, Branch)
    evaluator.code += [Let("block", position), Branch(test, [*inside, *branch.body], branch.otherwise)]


def _emit_alike(
    evaluator: Evaluator, alike: EqualSegments, pointers: Mapping[Value, str], device: Device
) -> Launch | None:
    """Write the source of a class of equal segments, whose programs are numbered by the variable `block`.

    Returns the launch parameters of one segment.
    """
    rows = [[pointers[value] for value in (*part.inputs, *part.outputs)] for part in alike.bodies]
    names = _pointers_of_segment(evaluator, list(zip(*rows, strict=True)))
    first, count = alike.bodies[0], len(alike.bodies[0].inputs)
    with evaluator.part(first, integer("block"), dict(zip(first.inputs, names, strict=False)), names[count:]):
        return alike.plan.template.emit(evaluator, first, alike.plan, device)


def _pointers_of_segment(evaluator: Evaluator, columns: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the pointer variables of the current segment. Each entry of `columns` lists one pointer's name in each
    segment.
    """
    names = [
        column[0] if len(set(column)) == 1 else evaluator.names.fresh(f"{column[0].removesuffix('_ptr')}_at")
        for column in columns
    ]
    varying = [(name, column) for name, column in zip(names, columns, strict=True) if name != column[0]]
    if varying:
        _choose(evaluator, varying, 0, len(columns[0]))
    return names


def _choose(evaluator: Evaluator, varying: Sequence[tuple[str, tuple[str, ...]]], low: int, high: int) -> None:
    """Write a binary selection among the pointers of segments `low` to `high - 1`."""
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
