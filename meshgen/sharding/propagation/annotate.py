"""Write the decisions along the mesh axes onto the program: shardings of values, the option of every node, and why.

Example, on x=4 with `%a : f32[64,32]{x}` annotated and loops a, b, c of `dot_general`:

    decision along x   %h = dot_general %a, %w -> f32[64,96]: loop a (64) is split
    written            %h: [{x}, {}]   loops [[x], [], []]   "x splits loop a (64) from required annotation [{x}, {}] of input %a"
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from meshgen.ir.axis_parts import AxisParts
from meshgen.ir.graph import Graph, Module, Node, NodeSharding, Value
from meshgen.ir.manual import is_open
from meshgen.ir.predicates import is_control, is_loop, is_manual, is_optimization_barrier, is_sharding_group
from meshgen.ir.regions import all_nodes
from meshgen.mesh import Mesh
from meshgen.sharding.propagation.axes import Decision
from meshgen.sharding.propagation.donated import tied_outputs, untied_outputs
from meshgen.sharding.propagation.groups import of_members
from meshgen.sharding.propagation.labels import Label
from meshgen.sharding.propagation.pseudo_ops import MANUAL_ENDS, is_barrier_value, is_input, is_manual_result, is_output
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.solve import Solved
from meshgen.sharding.propagation.splats import splat_shardings
from meshgen.sharding.propagation.tiles import free_part, joined
from meshgen.sharding.reasons import split_reason
from meshgen.spec import Sharding


def annotated(solved: Solved) -> Module:
    """The decisions written onto a copy of the graph's nodes (values are shared with the solved module)."""
    module, sites, decisions, parts = solved.module, solved.sites, solved.decisions, solved.axes.parts
    chosen = {site: {axis: d.solution.labels[i] for axis, d in decisions.items()} for i, site in enumerate(sites)}
    found: dict[Node, NodeSharding] = {}
    known: dict[Any, NodeSharding] = {}  # without reasons, shared by sites that are alike
    for number, site in enumerate(sites):
        labels, order = chosen[site], solved.orders[site]
        key = site.like, *map(id, labels.values()), *order.items()
        if (decided := known.get(key)) is None:
            decided = known[key] = _decided(site, labels, order, parts)
        operands, results, option = decided.operands, decided.results, decided.option
        why = tuple(_reason(site, axis, decisions[axis], number) for axis in labels if _uses(labels[axis]))
        if is_manual_result(site.node):
            results = (joined(site.node.attrs.manual, *results),)
        found[site.node] = NodeSharding(operands, results, option, why)
        if is_sharding_group(site.node):
            found |= of_members(site.node, found[site.node])
    found |= _of_barriers(module.graph, found)
    found |= splat_shardings(module.graph, found, module.mesh)
    made = {
        value: s for node, sharding in found.items() for value, s in zip(node.results, sharding.results, strict=True)
    }
    graph = _with_shardings(module.graph, found, made, module.mesh)
    inputs = [found[s.node].results[0] for s in sites if is_input(s.node)]
    ends = dict(
        zip(untied_outputs(module), (found[s.node].operands[0] for s in sites if is_output(s.node)), strict=True)
    )
    ends |= {output: inputs[number] for number, output in tied_outputs(module).items()}
    outputs = [ends[number] for number in sorted(ends)]
    return replace(
        module,
        graph=graph,
        stage="propagate",
        in_shardings=inputs,
        out_shardings=outputs,
    )


def _of_barriers(graph: Graph, found: dict[Node, NodeSharding]) -> dict[Node, NodeSharding]:
    """The shardings of optimization barriers, from the sites of their pairs of an operand and a result."""
    pairs = {node.result: sharding for node, sharding in found.items() if is_barrier_value(node)}
    barriers = [node for node in all_nodes(graph) if is_optimization_barrier(node)] if pairs else []
    joined_pairs: dict[Node, NodeSharding] = {}
    for node in barriers:
        if all(value in pairs for value in node.results):
            own = [pairs[value] for value in node.results]
            operands, results = tuple(s for p in own for s in p.operands), tuple(s for p in own for s in p.results)
            why = tuple(dict.fromkeys(line for p in own for line in p.why))
            joined_pairs[node] = NodeSharding(operands, results, (), why)
    return joined_pairs


def _decided(site: Site, labels: dict[str, Label], order: dict[int, tuple[str, ...]], parts: AxisParts) -> NodeSharding:
    """The shardings of a site's operands and results, and the axes of its loops."""
    operands, results = (
        tuple(
            _as_asked(site, _sharding_from_labels(site, labels, order, i, side, parts), parts)
            for i in range(len(values))
        )
        for side, values in (("operands", site.node.operands), ("results", site.node.results))
    )
    if site.node.op in MANUAL_ENDS:  # axes of size 1 that the user wrote are manual, too
        results = tuple(free_part(result, site.manual) for result in results)
    return NodeSharding(operands, results, tuple(parts.merge(order.get(f, ())) for f in range(len(site.rule.factors))))


def _with_shardings(graph: Graph, found: dict[Node, NodeSharding], made: dict[Value, Sharding], mesh: Mesh) -> Graph:
    """A copy of the graph and its regions with `sharding` on every node.

    A loop has one sharding per carried value: its region's inputs and outputs have those of the op's results. A branch's
    inputs have those of the op's operands, its outputs those of the op's results.
    """
    nodes: list[Node] = []
    for node in graph.nodes:
        sharding = found.get(node)
        if is_control(node):
            results = tuple(made[value] for value in node.results)
            arguments = (Sharding(()), *(made[value] for value in node.regions[0].inputs))
            sharding = NodeSharding(results if is_loop(node) else arguments, results)
        if is_manual(node):
            sharding = NodeSharding(
                _taken(node, made), tuple(made[value] for value in node.results), (), _manual_why(node, mesh)
            )
        regions = node.regions
        if is_control(node) or is_open(node):
            regions = tuple(_with_shardings(region, found, made, mesh) for region in regions)
        nodes.append(replace(node, sharding=sharding, regions=regions))
    return Graph(graph.name, graph.inputs, nodes, graph.outputs)


def _taken(node: Node, made: dict[Value, Sharding]) -> tuple[Sharding, ...]:
    """The shardings of a manual computation's operands: as it declares, and split over free axes as in its body."""
    if not is_open(node):
        return node.attrs.in_shardings
    return tuple(joined(s, made[v]) for s, v in zip(node.attrs.in_shardings, node.regions[0].inputs, strict=True))


def _manual_why(node: Node, mesh: Mesh) -> tuple[str, ...]:
    """A line per axis: along manual axes the program gives the shardings of operands, along the others they are whole."""
    free = "free here: the body decides" if is_open(node) else "not manual here: the body's values are whole along it"
    return tuple(f"{axis} is {'manual here' if axis in node.attrs.axes else free}" for axis in mesh.names)


def _as_asked(site: Site, sharding: Sharding, parts: AxisParts) -> Sharding:
    """The part of an annotation that was kept, as the user wrote it: with axes of size 1, halo and offsets."""
    asked = site.asked
    if (
        asked is None or asked.rank != sharding.rank
    ):  # the second result of a transfer is its token, which has no annotation
        return sharding
    if site.misfits:
        is_kept = site.annotation is not None and site.annotation.required and site.node.op not in MANUAL_ENDS
        return asked if is_kept else sharding

    def plain(refs: Sequence[str]) -> list[str]:
        return [part for part in parts.refine(refs) if parts.mesh.axis_size(part) != 1]

    pairs = zip(asked.dims, sharding.dims, strict=True)
    dims = tuple(wanted if plain(wanted) == plain(found) else found for wanted, found in pairs)
    kinds, found_kinds = (parts.normal(each).partial for each in (asked, sharding))
    partial = asked.partial if kinds == found_kinds else sharding.partial
    is_kept = (dims, partial) == (asked.dims, asked.partial) or (
        site.annotation is not None and site.annotation.required
    )
    return Sharding(dims, partial, asked.halo if is_kept else (), asked.offsets if is_kept else ())


def _sharding_from_labels(
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
    """Why a node is split over the axis."""
    label = decision.solution.labels[number]
    pairs = [*zip(site.node.operands, label.operands, strict=True), *zip(site.node.results, label.results, strict=True)]
    origin = next((o for v, s in pairs if s is not None and (o := decision.origins.get(v, {}).get(s))), "")
    loop = None if label.factor is None else site.rule.factors[label.factor]
    partial = next((state for _, state in pairs if isinstance(state, str)), "")
    return split_reason(axis, loop, partial, origin, len(decision.problem.labels[number]) - 2)
