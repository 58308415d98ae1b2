"""Run collectives of a scan one iteration early, if they do not depend on a carried value.

    before   scan 24 (%h, row of %w) { %g = all_gather %row; %h1 = dot %h, %g; %h1 }
    after    %g0 = all_gather %w[0]
             scan 23 (%h, %g0, next row of %w) { %g1 = all_gather %row; %h1 = dot %h, %g; %h1, %g1 }
             scan 1 (the last iteration) { %h1 = dot %h, %g; %h1 }

The weights of a layer then arrive while the previous layer computes. The number of collectives does not change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from meshgen.codegen.fuse import BEFORE_KERNELS
from meshgen.codegen.planner import Candidate, Planner
from meshgen.codegen.scheduling.costs import default_costs
from meshgen.codegen.scheduling.region_modules import region_module
from meshgen.compilation import Compilation, module_pass
from meshgen.errors import CodegenError
from meshgen.ir.attributes.control import Scan
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.inline import copy_nodes
from meshgen.ir.predicates import is_control, is_scan
from meshgen.ir.regions import all_nodes, captured, used_by
from meshgen.ops.classes import AWAITED, COLLECTIVES
from meshgen.ops.dead_code import live_nodes


@module_pass("scan-prefetch", "partition", applies="if cheaper")
def scan_prefetch(module: Module, context: Compilation) -> Module:
    """Return a local program in which scans start exposed collectives early, each if that shortens the predicted step.

    Returns the module itself if no change shortens the step.
    """
    bodies = [region for node in module.graph.nodes if is_control(node) for region in node.regions]
    if not any(inner.op in COLLECTIVES for body in bodies for inner in all_nodes(body)):
        return module
    planner = Planner.of(context, module.mesh)
    scans = context.trial().apply(planner.flat(module), BEFORE_KERNELS)
    if not any(is_scan(node) and _independent_collectives(node) for node in scans.graph.nodes):
        return module
    baseline = planner.candidate(scans)
    seconds, copy = _exposed(baseline), default_costs(planner.target).copy
    best, step = scans, baseline.plan().step_seconds
    for node in filter(is_scan, scans.graph.nodes):
        if prefetched := _profitable(node, seconds, copy):
            candidate = _with_prefetch(best, node, prefetched)
            if (shorter := _step_seconds(candidate, planner)) < step:
                best, step = candidate, shorter
    return module if best is scans else best


def _with_prefetch(module: Module, node: Node, chosen: Sequence[Node]) -> Module:
    """Return the program in which the `chosen` collectives of a scan run one iteration early."""
    written = _Prefetch(node, chosen).written()
    nodes = [new for old in module.graph.nodes for new in (written if old is node else [old])]
    return replace(module, graph=replace(module.graph, nodes=nodes))


def _step_seconds(module: Module, planner: Planner) -> float:
    """Return the predicted time of a step, or infinity if the program does not fit into memory."""
    try:
        return planner.candidate(module).plan().step_seconds
    except CodegenError:
        return math.inf


def _exposed(candidate: Candidate) -> dict[int, float]:
    """Return for each collective in a scan the seconds per iteration that computation does not hide, by the `id` of its
    results.

    The candidate is fused, so its values differ from those of the original program, but they have the same ids.
    """
    module, plan, seconds = candidate.module, candidate.plan(), dict[int, float]()
    numbers = list(module.graph.values())
    steps = {numbers[item.outputs[0]]: item.regions[0] for item in plan.items if is_scan(item) and item.outputs}
    for node in module.graph.nodes:
        if is_scan(node) and node.results and (step := steps.get(node.results[0])):
            values = list(region_module(module, node, node.regions[0], captured(node)).graph.values())
            seconds |= {values[n].id: e.exposed for e in step.exposures for n in step.items[e.item].outputs}
    return seconds


def _profitable(node: Node, seconds: Mapping[int, float], copy_seconds: Callable[[int], float]) -> list[Node]:
    """Return the collectives that can run early and are exposed for longer than a copy of their results takes."""
    return [
        collective
        for collective in _independent_collectives(node)
        if seconds.get(collective.results[0].id, 0.0)
        > sum(copy_seconds(value.type.nbytes) for value in collective.results)
    ]


def _independent_collectives(node: Node) -> list[Node]:
    """Return the collectives of a scan's body that depend neither on a carried value nor on each other."""
    body = node.regions[0]
    late = set(body.inputs[: len(node.results)])
    collectives: list[Node] = []
    for inner in body.nodes:
        if not late.isdisjoint((*inner.operands, *captured(inner))):
            late.update(inner.results)
        elif inner.op in COLLECTIVES:
            late.update(inner.results)
            collectives.append(inner)
    is_awaited = any(inner.op in AWAITED for inner in body.nodes)
    return collectives if node.attrs.trips > 1 and not is_awaited else []


_Argument = tuple[Value, Value, tuple[int, int] | None]
"""An operand of a scan, the matching input of the body, and, if the body gets rows of the operand, the first row and
the stride.
"""


class _Prefetch:
    """Rewrites a scan so that the `chosen` collectives run one iteration early."""

    def __init__(self, node: Node, chosen: Sequence[Node]) -> None:
        body, attrs = node.regions[0], node.attrs
        self._node, self._body, self._count = node, body, len(node.results)
        self._steps = attrs.steps
        self._prefetched = [value for collective in chosen for value in collective.results]
        self._fetch = replace(body, nodes=live_nodes(replace(body, outputs=self._prefetched)), outputs=self._prefetched)
        rest = replace(body, nodes=[inner for inner in body.nodes if inner not in chosen])
        self._rest = replace(rest, inputs=[*body.inputs, *self._prefetched], nodes=live_nodes(rest))

    def written(self) -> list[Node]:
        """Return the nodes that replace the scan: collectives, a scan without the last iteration, and the last one."""
        before, count = Graph(""), self._count
        rows = [self._first_rows(n, before) for n in range(len(self._body.inputs))]
        main_scan = self._most(copy_nodes(self._fetch, rows, before))
        body, inputs = Graph(self._body.name), list(map(_like, self._body.inputs))
        outputs = copy_nodes(self._rest, [*inputs, *main_scan.results[count:]], body)
        operands = [*main_scan.results[:count], *self._node.operands[count:]]
        last = self._scan(self._arguments(operands, inputs, self._node.attrs.trips - 1), body, outputs, 1)
        last.results = self._node.results
        return [*before.nodes, main_scan, last]

    def _most(self, fetched: Sequence[Value]) -> Node:
        """Return the scan of all iterations but the last, with prefetched values as additional carried values.

        Each iteration uses the values that the previous one fetched, and fetches from the rows of the next iteration.
        """
        body, count, trips = Graph(self._body.name), self._count, self._node.attrs.trips
        inputs, prefetched = list(map(_like, self._body.inputs)), list(map(_like, self._prefetched))
        next_inputs = [value if n < count or n not in self._steps else _like(value) for n, value in enumerate(inputs)]
        fetched_next = copy_nodes(self._fetch, next_inputs, body)
        outputs = copy_nodes(self._rest, [*inputs, *prefetched], body)
        arguments = self._arguments(self._node.operands, inputs, 0)
        carried: list[_Argument] = [(value, inner, None) for value, inner in zip(fetched, prefetched, strict=True)]
        next_arguments = self._arguments(self._node.operands, next_inputs, 1)[count:]
        rest = list(dict.fromkeys([*arguments[count:], *(argument for argument in next_arguments if argument[2])]))
        return self._scan([*arguments[:count], *carried, *rest], body, [*outputs, *fetched_next], trips - 1)

    def _arguments(self, operands: Sequence[Value], inputs: Sequence[Value], first_iteration: int) -> list[_Argument]:
        """Return the arguments of a scan that starts at iteration `first_iteration` of the original scan."""
        steps = {n: (first + step * first_iteration, step) for n, (first, step) in self._steps.items()}
        return [(value, inner, steps.get(n)) for n, (value, inner) in enumerate(zip(operands, inputs, strict=True))]

    def _scan(self, arguments: Sequence[_Argument], body: Graph, outputs: list[Value], trips: int) -> Node:
        used = {*outputs, *(value for node in body.nodes for value in used_by(node))}
        kept = [argument for n, argument in enumerate(arguments) if n < len(outputs) or argument[1] in used]
        rows = {n: row for n, (_, _, row) in enumerate(kept) if row}
        attrs = Scan(
            trips=trips,
            sliced=tuple(rows),
            offsets=tuple(first for first, _ in rows.values()),
            strides=tuple(step for _, step in rows.values()),
        )
        body = replace(body, inputs=[inner for _, inner, _ in kept], outputs=outputs)
        operands, results = [value for value, _, _ in kept], [_like(value) for value, _, _ in kept[: len(outputs)]]
        return replace(self._node, operands=operands, results=results, attrs=attrs, regions=(body,))

    def _first_rows(self, number: int, into: Graph) -> Value:
        """Return the value of body input `number` in the first iteration: the operand, or its first rows."""
        operand, rows = self._node.operands[number], self._body.inputs[number].type
        if number < self._count or number not in self._steps:
            return operand
        start = (self._steps[number][0], *[0] * (rows.rank - 1))
        limit = (start[0] + rows.sizes[0], *rows.sizes[1:])
        attrs = {"start": start, "limit": limit, "stride": (1,) * rows.rank}
        return into.add("slice", [operand], [rows], attrs, loc=operand.loc).result


def _like(value: Value) -> Value:
    return Value(value.type, value.name, loc=value.loc, id=value.id)
