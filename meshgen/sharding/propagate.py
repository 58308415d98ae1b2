"""Propagation: from a few annotations to a sharding of every value and an option of every operation.

Mesh axes are solved one after the other, twice round, so that each sees what the others split (`axes`), from several
starts. Along one axis `reach` finds where the annotations can take it, and `choices` picks among these, by variable elimination, what
moves the fewest bytes and repeats the least work: required annotations are kept, hints may lose. The result
depends on no order of traversal and not on the order of the program's ops: they are taken in canonical order
(`ir/canonical.py`), which decides between equal costs. The order of several axes on one dim comes from the
annotations, by `order`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from meshgen.errors import Diagnostic, ShardingError
from meshgen.ir.axis_parts import AxisParts, merge
from meshgen.ir.graph import Graph, Module, Node, NodeSharding, Value
from meshgen.ir.manual import is_open
from meshgen.ir.op_names import CONTROL
from meshgen.mesh import Mesh, split_ref
from meshgen.ops.manual_tiles import manual_faults
from meshgen.sharding.propagation.axes import USUAL, Axes, Decision, Start, view_of
from meshgen.sharding.propagation.axis_cuts import axis_cuts
from meshgen.sharding.propagation.control import MANUAL_ENDS, flatten
from meshgen.sharding.propagation.groups import of_members
from meshgen.sharding.propagation.kept import unkept, unreadable
from meshgen.sharding.propagation.labels import Label
from meshgen.sharding.propagation.order import Orders, axis_orders
from meshgen.sharding.propagation.sites import Site, sites_of, wish_of
from meshgen.sharding.propagation.tiles import free_part, joined
from meshgen.sharding.rewrites.alternatives import alternatives
from meshgen.sharding.rewrites.bodies import everywhere
from meshgen.sharding.rewrites.common_values import merge_common_values
from meshgen.sharding.rewrites.compare import CHOOSING, Seconds, planned_seconds
from meshgen.sharding.rewrites.frame_rewrite import in_one_frame
from meshgen.sharding.rewrites.idle_moves import without_idle_moves
from meshgen.sharding.rewrites.own_rows import own_rows
from meshgen.sharding.rewrites.places_at_zero import places_at_zero
from meshgen.sharding.rewrites.sums_of_pads import sums_of_pads
from meshgen.sharding.unknown import at_nominal_sizes
from meshgen.spec import Sharding

FRAMED = 2  # at most so often is the program seen in frames, and what comes out again


@at_nominal_sizes
def propagate(module: Module) -> Module:
    """The module with `sharding` on every node and shardings of its inputs and outputs.

    Required annotations and options are kept exactly (law 2), or refused (MG0206). Of equal programs (`alternatives`) the cheapest is taken.
    Raises ShardingError with all faults of the annotations, ProgramError for an op without a rule.
    """
    return annotated(solve(module))


@dataclass(frozen=True)
class Solved:
    """A program, or one that is equal to it, and the decision along each part of each axis."""

    axes: Axes
    start: Start  # from where they were decided
    decisions: dict[str, Decision]

    @property
    def module(self) -> Module:
        return self.axes.module

    @property
    def sites(self) -> list[Site]:
        return self.axes.sites

    @property
    def labels(self) -> dict[str, tuple[Label, ...]]:
        """The label of every site along each axis."""
        return {axis: decision.solution.labels for axis, decision in self.decisions.items()}

    @cached_property
    def orders(self) -> Orders:
        """Per site and factor the axes that split it, major to minor."""
        chosen = {site: {axis: labels[i] for axis, labels in self.labels.items()} for i, site in enumerate(self.sites)}
        return axis_orders(self.sites, chosen, self.start.in_order(self.axes.names))

    def parts_of(self, value: Value, dim: int) -> int:
        """Into how many parts annotations may split a dim: the most along one axis."""
        reached = (axis for axis, decision in self.decisions.items() if dim in decision.origins.get(value, {}))
        return max((self.module.mesh.axis_size(axis) for axis in reached), default=1)

    @cached_property
    def seconds(self) -> Seconds:
        """Time on links of the planned program, and of the work of one device."""
        view = view_of(self.sites, self.decisions, self.module)
        work = {site: view.work(site) for site in self.sites if site.node.op not in CHOOSING}
        dots = sum(seconds for site, seconds in work.items() if site.node.op == "dot_general")
        return Seconds(planned_seconds(annotated(self)), dots, sum(work.values()) - dots)


def _cheapest(solved: Sequence[Solved]) -> Solved:
    """The first, or the cheapest of the others that keep what is required if it is worth leaving the user's program."""
    solved = [solved[0], *(other for other in solved[1:] if not _faults(other))]
    if len(solved) == 1:
        return solved[0]
    first, *others = [each.seconds for each in solved]
    worth = [other for other in others if other.is_worth(first)]
    return solved[1 + others.index(min(worth))] if worth else solved[0]


def solve(module: Module) -> Solved:
    """The cheapest program with its decisions; all sizes must be known. Raises as `propagate` does."""
    graph = module.graph
    if wrong := list(manual_faults(graph, module.meshes or (module.mesh,))):
        raise ShardingError(*wrong)
    for rewrite in (without_idle_moves, sums_of_pads, own_rows, places_at_zero):
        graph = everywhere(rewrite)(graph) or graph
    module = merge_common_values(replace(module, graph=graph))
    best = _solve(module)
    if faults := _faults(
        best
    ):  # uneven tiles of parts of an axis do not nest: those that options name are not cut for annotations
        best = _solve(module, only_options=True)
        if _faults(best):
            raise ShardingError(*faults)
    best = _cheapest([best, *map(_solve, alternatives(module))])
    for _ in range(FRAMED):  # what is written in frames may take annotations to values that they did not reach
        framed = in_one_frame(best.module.graph, best.parts_of)
        found = _cheapest([best, _solve(replace(best.module, graph=framed))]) if framed else best
        if found is best:
            break
        best = found
    origins = {axis: decision.origins for axis, decision in best.decisions.items()}
    if cuts := axis_cuts(best.sites, origins, module.mesh):
        cut = _from_best_start(_solve(best.module, cuts))
        if _cheapest([best, cut]) is cut:
            return cut
    return _from_best_start(best)


def _faults(solved: Solved) -> list[Diagnostic]:
    return [*unkept(solved.sites, solved.labels), *unreadable(solved.sites)]


def _solve(module: Module, cuts: Sequence[str] = (), *, only_options: bool = False) -> Solved:
    parts = AxisParts.of(module.mesh, [*_named_axes(module, only_options=only_options), *cuts])
    axes = Axes(module, sites_of(module, parts), parts, is_cut=bool(cuts))
    return Solved(axes, USUAL, axes.decide(USUAL))


def _from_best_start(solved: Solved) -> Solved:
    """What the axes come to from the start that makes the shortest step, of those that are worth it and move no more than this one."""
    found = [solved]
    for start in solved.axes.starts(solved.start, solved.decisions):
        other = Solved(solved.axes, start, solved.axes.decide(start))
        is_new = all(other.labels != known.labels or other.orders != known.orders for known in found)
        if is_new and not _faults(other):
            found.append(other)
    if len(found) == 1:
        return solved
    usual, *others = [each.seconds for each in found]
    worth = [other for other in others if other.links <= usual.links and other.is_worth(usual)]
    return found[1 + others.index(min(worth))] if worth else solved


def _named_axes(module: Module, *, only_options: bool) -> list[str]:
    """The axes that the user names, and parts of them, those first that the program should be solved over.

    That matters where parts do not nest: options must be kept as they are, then what most annotations name goes first.
    """
    nodes = [node for node, *_ in flatten(module.graph, 1.0)]
    lists = [tuple(axes) for node in nodes for axes in node.option or ()]
    options = Counter(axis for axes in lists for axis in merge(axes, module.mesh))
    wishes = [wish for wish in [*module.in_annotations, *module.out_annotations, *map(wish_of, nodes)] if wish]
    required, hinted = Counter[str](), Counter[str]()
    for wish in wishes:
        lies = wish.sharding
        kinds = {kind for _, kind in lies.partial}  # parts of an axis that are partial with different kinds stay parts
        by_kind = [[axis for axis, kind in lies.partial if kind == each] for each in sorted(kinds)]
        by_place = [sorted(axes, key=lambda axis: split_ref(axis)[:2]) for axes in by_kind]
        named = [axis for axes in (*lies.dims, *by_place) for axis in merge(axes, module.mesh)]
        hinted.update(named)
        required.update(named if wish.required else ())

    def rank(axis: str) -> tuple[int, int, int, str]:
        return -options[axis], -required[axis], -hinted[axis], axis

    return sorted(options if only_options else {**options, **hinted}, key=rank)


def annotated(solved: Solved) -> Module:
    """The decisions written onto a copy of the graph's nodes (values are shared with the solved module)."""
    module, sites, decisions, parts = solved.module, solved.sites, solved.decisions, solved.axes.parts
    chosen = {site: {axis: d.solution.labels[i] for axis, d in decisions.items()} for i, site in enumerate(sites)}
    found: dict[Node, NodeSharding] = {}
    for number, site in enumerate(sites):
        labels = chosen[site]
        operands = tuple(
            _sharding(site, labels, solved.orders[site], i, "operands", parts) for i in range(len(site.node.operands))
        )
        results = tuple(
            _sharding(site, labels, solved.orders[site], i, "results", parts) for i in range(len(site.node.results))
        )
        option = tuple(parts.merge(solved.orders[site].get(f, ())) for f in range(len(site.rule.factors)))
        why = tuple(_reason(site, axis, decisions[axis], number) for axis in labels if _uses(labels[axis]))
        operands, results = (tuple(_as_wished(site, s, parts) for s in side) for side in (operands, results))
        if site.node.op in MANUAL_ENDS:  # axes of size 1 that the user wrote are manual, too
            results = tuple(free_part(result, site.manual) for result in results)
        if site.node.op == "manual_result":
            results = (joined(site.node.attrs["manual"], *results),)
        found[site.node] = NodeSharding(operands, results, option, why)
        if site.node.op == "sharding_group":
            found |= of_members(site.node, found[site.node])
    made = {value: s for node, lies in found.items() for value, s in zip(node.results, lies.results, strict=True)}
    graph = _with_shardings(module.graph, found, made, module.mesh)
    inputs = [found[s.node].results[0] for s in sites if s.node.op == "input"]
    outputs = [found[s.node].operands[0] for s in sites if s.node.op == "output"]
    return replace(
        module,
        graph=graph,
        stage="propagate",
        in_shardings=inputs,
        out_shardings=outputs,
    )


def _with_shardings(graph: Graph, found: dict[Node, NodeSharding], made: dict[Value, Sharding], mesh: Mesh) -> Graph:
    """A copy of the graph and its regions with `sharding` on every node.

    Loops and branches carry how their values lie; a region's inputs and outputs lie like the op's results
    (a loop's) or like its operands and results (a branch's).
    """
    nodes: list[Node] = []
    for node in graph.nodes:
        lies = found.get(node)
        if node.op in CONTROL:
            results = tuple(made[value] for value in node.results)
            arguments = (Sharding(()), *(made[value] for value in node.regions[0].inputs))
            lies = NodeSharding(results if node.op == "while" else arguments, results)
        if node.op == "manual":
            lies = NodeSharding(
                _taken(node, made), tuple(made[value] for value in node.results), (), _manual_why(node, mesh)
            )
        regions = node.regions
        if node.op in CONTROL or is_open(node):
            regions = tuple(_with_shardings(region, found, made, mesh) for region in regions)
        nodes.append(replace(node, sharding=lies, regions=regions))
    return Graph(graph.name, graph.inputs, nodes, graph.outputs)


def _taken(node: Node, made: dict[Value, Sharding]) -> tuple[Sharding, ...]:
    """How a manual computation takes its operands: as it declares, and split over free axes as its body is."""
    if not is_open(node):
        return node.attrs["in_shardings"]
    return tuple(joined(s, made[v]) for s, v in zip(node.attrs["in_shardings"], node.regions[0].inputs, strict=True))


def _manual_why(node: Node, mesh: Mesh) -> tuple[str, ...]:
    """A line per axis: the program says how operands lie along manual axes, along the others they are whole."""
    free = "free here: the body decides" if is_open(node) else "not manual here: what the body uses is whole along it"
    return tuple(f"{axis} is {'manual here' if axis in node.attrs['axes'] else free}" for axis in mesh.names)


def _as_wished(site: Site, sharding: Sharding, parts: AxisParts) -> Sharding:
    """What was kept of a wish in the user's own words: with axes of size 1, halo and offsets."""
    asked = site.asked
    if asked is None or asked.rank != sharding.rank:  # the turn beside what is received is not what was asked for
        return sharding
    if site.misfits:
        is_kept = site.wish is not None and site.wish.required and site.node.op not in MANUAL_ENDS
        return asked if is_kept else sharding

    def plain(refs: Sequence[str]) -> list[str]:
        return [part for part in parts.refine(refs) if parts.mesh.axis_size(part) != 1]

    pairs = zip(asked.dims, sharding.dims, strict=True)
    dims = tuple(wanted if plain(wanted) == plain(found) else found for wanted, found in pairs)
    kinds, found_kinds = (parts.normal(each).partial for each in (asked, sharding))
    partial = asked.partial if kinds == found_kinds else sharding.partial
    is_kept = (dims, partial) == (asked.dims, asked.partial) or (site.wish is not None and site.wish.required)
    return Sharding(dims, partial, asked.halo if is_kept else (), asked.offsets if is_kept else ())


def _sharding(
    site: Site, labels: dict[str, Label], order: dict[int, tuple[str, ...]], number: int, side: str, parts: AxisParts
) -> Sharding:
    """The sharding of one operand or result from the labels of all axes."""
    maps = site.rule.operands if side == "operands" else site.rule.results
    split = {axis for axis, label in labels.items() if isinstance(getattr(label, side)[number], int)}
    dims = [parts.merge([a for f in factors for a in order.get(f, ()) if a in split]) for factors in maps[number]]
    partial = tuple(
        (axis, state) for axis, label in labels.items() if isinstance(state := getattr(label, side)[number], str)
    )
    merged = parts.merge([axis for axis, _ in partial])
    kinds = dict(partial)
    pairs = (
        tuple((a, kinds.get(a) or kinds[parts.refine((a,))[0]]) for a in merged)
        if len(set(kinds.values())) == 1
        else partial
    )
    return Sharding(tuple(dims), pairs)


def _uses(label: Label) -> bool:
    return (
        label.factor is not None
        or label.way is not None
        or any(s is not None for s in (*label.operands, *label.results))
    )


def _reason(site: Site, axis: str, decision: Decision, number: int) -> str:
    """Who put the axis there: the loop or partial value, the annotation, and how many other choices lost."""
    label = decision.solution.labels[number]
    lost = decision.problem.sizes[number] - 2
    tail = f"; {lost} other choice{'s' if lost > 1 else ''} would move more" if lost > 0 else ""
    pairs = [*zip(site.node.operands, label.operands, strict=True), *zip(site.node.results, label.results, strict=True)]
    origin = next((o for v, s in pairs if s is not None and (o := decision.origins.get(v, {}).get(s))), "")
    source = f" from {origin}" if origin else ""
    if label.factor is not None:
        loop = site.rule.factors[label.factor]
        what = f"splits loop {loop.name} ({loop.size}{', summed' if loop.kind == 'reduce' else ''})"
    else:
        kinds = [s for s in (*label.operands, *label.results) if isinstance(s, str)]
        what = f"stays partial ({kinds[0]})" if kinds else "is used"
    return f"{axis} {what}{source}{tail}"
