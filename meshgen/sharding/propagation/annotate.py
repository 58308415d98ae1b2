"""Write the decisions along the mesh axes into the program: shardings of values, mesh axes of loops, and reasons.

Example, on x=4 with `%a : f32[64,32]{x}` annotated and loops a, b, c of `dot_general`:

    decision along x   %h = dot_general %a, %w -> f32[64,96]: loop a (64) is split
    written            %h: [{x}, {}]   loops [[x], [], []]   "x splits loop a (64) from required annotation [{x}, {}] of
    input %a"
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from meshgen.ir.axis_parts import AxisParts
from meshgen.ir.flatten_manual import is_open
from meshgen.ir.graph import Graph, Module, Node, NodeSharding, Value
from meshgen.ir.predicates import is_control, is_loop, is_manual, is_optimization_barrier, is_sharding_group
from meshgen.ir.regions import all_nodes
from meshgen.mesh import Mesh
from meshgen.sharding.collective_reasons import split_reason
from meshgen.sharding.propagation.axes import Decision
from meshgen.sharding.propagation.donated import tied_outputs, untied_outputs
from meshgen.sharding.propagation.groups import of_members
from meshgen.sharding.propagation.labels import Label
from meshgen.sharding.propagation.manual_bodies import free_part, joined
from meshgen.sharding.propagation.pseudo_ops import MANUAL_ENDS, is_barrier_value, is_input, is_manual_result, is_output
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.solve import Solved
from meshgen.sharding.propagation.splats import splat_shardings
from meshgen.spec import Sharding


def annotated(solved: Solved) -> Module:
    """Return a copy of the module with the decided shardings on its nodes. The copy has the same values as the solved
    module.
    """
    module, sites, decisions, parts = solved.module, solved.sites, solved.decisions, solved.axes.parts
    site_labels = {site: {axis: d.solution.labels[i] for axis, d in decisions.items()} for i, site in enumerate(sites)}
    node_shardings: dict[Node, NodeSharding] = {}
    cached: dict[Any, NodeSharding] = {}  # shardings without reasons, shared by sites of equal structure
    for index, site in enumerate(sites):
        labels, order = site_labels[site], solved.orders[site]
        key = site.like, *map(id, labels.values()), *order.items()
        if (decided := cached.get(key)) is None:
            decided = cached[key] = _decided(site, labels, order, parts)
        operands, results, option = decided.operands, decided.results, decided.option
        reasons = tuple(_reason(site, axis, decisions[axis], index) for axis in labels if _uses(labels[axis]))
        if is_manual_result(site.node):
            results = (joined(site.node.attrs.manual, *results),)
        node_shardings[site.node] = NodeSharding(operands, results, option, reasons)
        if is_sharding_group(site.node):
            node_shardings |= of_members(site.node, node_shardings[site.node])
    node_shardings |= _barrier_shardings(module.graph, node_shardings)
    node_shardings |= splat_shardings(module.graph, node_shardings, module.mesh)
    value_shardings = {
        value: s
        for node, sharding in node_shardings.items()
        for value, s in zip(node.results, sharding.results, strict=True)
    }
    graph = _with_shardings(module.graph, node_shardings, value_shardings, module.mesh)
    inputs = [node_shardings[s.node].results[0] for s in sites if is_input(s.node)]
    output_shardings = dict(
        zip(
            untied_outputs(module),
            (node_shardings[s.node].operands[0] for s in sites if is_output(s.node)),
            strict=True,
        )
    )
    output_shardings |= {output: inputs[index] for index, output in tied_outputs(module).items()}
    outputs = [output_shardings[index] for index in sorted(output_shardings)]
    return replace(
        module,
        graph=graph,
        stage="propagate",
        in_shardings=inputs,
        out_shardings=outputs,
    )


def _barrier_shardings(graph: Graph, node_shardings: dict[Node, NodeSharding]) -> dict[Node, NodeSharding]:
    """Combine the shardings of (operand, result) pairs into one sharding per optimization barrier."""
    pairs = {node.result: sharding for node, sharding in node_shardings.items() if is_barrier_value(node)}
    barriers = [node for node in all_nodes(graph) if is_optimization_barrier(node)] if pairs else []
    barrier_shardings: dict[Node, NodeSharding] = {}
    for node in barriers:
        if all(value in pairs for value in node.results):
            barrier_pairs = [pairs[value] for value in node.results]
            operands, results = (
                tuple(s for p in barrier_pairs for s in p.operands),
                tuple(s for p in barrier_pairs for s in p.results),
            )
            why = tuple(dict.fromkeys(line for p in barrier_pairs for line in p.why))
            barrier_shardings[node] = NodeSharding(operands, results, (), why)
    return barrier_shardings


def _decided(site: Site, labels: dict[str, Label], order: dict[int, tuple[str, ...]], parts: AxisParts) -> NodeSharding:
    """Return the shardings of a site's operands and results, and the mesh axes of its loops."""
    operands, results = (
        tuple(
            _with_user_spelling(site, _sharding_from_labels(site, labels, order, i, side, parts), parts)
            for i in range(len(values))
        )
        for side, values in (("operands", site.node.operands), ("results", site.node.results))
    )
    if site.node.op in MANUAL_ENDS:  # Axes of size 1 that the user wrote are manual as well.
        results = tuple(free_part(result, site.manual) for result in results)
    return NodeSharding(operands, results, tuple(parts.merge(order.get(f, ())) for f in range(len(site.rule.factors))))


def _with_shardings(
    graph: Graph, node_shardings: dict[Node, NodeSharding], value_shardings: dict[Value, Sharding], mesh: Mesh
) -> Graph:
    """Return a copy of the graph and its regions with `sharding` on every node.

    A loop has one sharding per carried value: its region's inputs and outputs have the shardings of the op's results. A
    branch's inputs have the shardings of the op's operands, its outputs the shardings of the op's results.
    """
    nodes: list[Node] = []
    for node in graph.nodes:
        sharding = node_shardings.get(node)
        if is_control(node):
            results = tuple(value_shardings[value] for value in node.results)
            arguments = (Sharding(()), *(value_shardings[value] for value in node.regions[0].inputs))
            sharding = NodeSharding(results if is_loop(node) else arguments, results)
        if is_manual(node):
            sharding = NodeSharding(
                _manual_operand_shardings(node, value_shardings),
                tuple(value_shardings[value] for value in node.results),
                (),
                _manual_why(node, mesh),
            )
        regions = node.regions
        if is_control(node) or is_open(node):
            regions = tuple(_with_shardings(region, node_shardings, value_shardings, mesh) for region in regions)
        nodes.append(replace(node, sharding=sharding, regions=regions))
    return Graph(graph.name, graph.inputs, nodes, graph.outputs)


def _manual_operand_shardings(node: Node, value_shardings: dict[Value, Sharding]) -> tuple[Sharding, ...]:
    """Return the operand shardings of a manual computation: the declared axes, followed by free axes that its body
    uses.
    """
    if not is_open(node):
        return node.attrs.in_shardings
    return tuple(
        joined(s, value_shardings[v]) for s, v in zip(node.attrs.in_shardings, node.regions[0].inputs, strict=True)
    )


def _manual_why(node: Node, mesh: Mesh) -> tuple[str, ...]:
    """Return a reason per axis: manual axes are fixed by the program, free axes by the body, others are replicated."""
    free = (
        "free here: the body decides" if is_open(node) else "not manual here: the body's values are replicated along it"
    )
    return tuple(f"{axis} is {'manual here' if axis in node.attrs.axes else free}" for axis in mesh.names)


def _with_user_spelling(site: Site, sharding: Sharding, parts: AxisParts) -> Sharding:
    """Restore the user's spelling of an annotation that propagation followed: axes of size 1, halo and offsets."""
    annotated_sharding = site.user_sharding
    # The second result of a transfer is its token, which has no annotation.
    if annotated_sharding is None or annotated_sharding.rank != sharding.rank:
        return sharding
    if site.misfits:
        is_kept = site.annotation is not None and site.annotation.required and site.node.op not in MANUAL_ENDS
        return annotated_sharding if is_kept else sharding

    def plain(refs: Sequence[str]) -> list[str]:
        return [part for part in parts.refine(refs) if parts.mesh.axis_size(part) != 1]

    pairs = zip(annotated_sharding.dims, sharding.dims, strict=True)
    dims = tuple(
        annotated_axes if plain(annotated_axes) == plain(chosen_axes) else chosen_axes
        for annotated_axes, chosen_axes in pairs
    )
    kinds, chosen_kinds = (parts.normal(candidate).partial for candidate in (annotated_sharding, sharding))
    partial = annotated_sharding.partial if kinds == chosen_kinds else sharding.partial
    is_kept = (dims, partial) == (annotated_sharding.dims, annotated_sharding.partial) or (
        site.annotation is not None and site.annotation.required
    )
    return Sharding(
        dims, partial, annotated_sharding.halo if is_kept else (), annotated_sharding.offsets if is_kept else ()
    )


def _sharding_from_labels(
    site: Site, labels: dict[str, Label], order: dict[int, tuple[str, ...]], number: int, side: str, parts: AxisParts
) -> Sharding:
    """Return the sharding of operand or result `number`, combined from the labels along all axes."""
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
    """Return the text that explains why a node is split over the axis."""
    label = decision.solution.labels[number]
    pairs = [*zip(site.node.operands, label.operands, strict=True), *zip(site.node.results, label.results, strict=True)]
    origin = next((o for v, s in pairs if s is not None and (o := decision.origins.get(v, {}).get(s))), "")
    loop = None if label.factor is None else site.rule.factors[label.factor]
    partial = next((state for _, state in pairs if isinstance(state, str)), "")
    return split_reason(axis, loop, partial, origin, len(decision.problem.labels[number]) - 2)
