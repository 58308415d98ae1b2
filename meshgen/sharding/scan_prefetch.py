"""Collectives of the next trip of a scan run during the trip before, where they need nothing that is carried.

    before   scan 24 (%h, row of %w) { %g = all_gather %row; %h1 = dot %h, %g; %h1 }
    after    %g0 = all_gather %w[0]
             scan 23 (%h, %g0, next row of %w) { %g1 = all_gather %row; %h1 = dot %h, %g; %h1, %g1 }
             scan 1 (the last trip) { %h1 = dot %h, %g; %h1 }

Weights that each layer gathers arrive while the layer before computes. As many collectives run as before.
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
from meshgen.ops.live import live_nodes


@module_pass("scan-prefetch", "partition", applies="if cheaper")
def scan_prefetch(module: Module, context: Compilation) -> Module:
    """Return a local program whose scans gather early what is exposed in them, each if that shortens the step; itself otherwise."""
    bodies = [region for node in module.graph.nodes if is_control(node) for region in node.regions]
    if not any(inner.op in COLLECTIVES for body in bodies for inner in all_nodes(body)):
        return module
    planner = Planner.of(context, module.mesh)
    scans = context.trial().apply(planner.flat(module), BEFORE_KERNELS)
    if not any(is_scan(node) and _early(node) for node in scans.graph.nodes):
        return module
    usual = planner.candidate(scans)
    seconds, copy = _exposed(usual), default_costs(planner.target).copy
    best, step = scans, usual.plan().step_seconds
    for node in filter(is_scan, scans.graph.nodes):
        if chosen := _worthwhile(node, seconds, copy):
            ahead = _with_prefetch(best, node, chosen)
            if (shorter := _step_seconds(ahead, planner)) < step:
                best, step = ahead, shorter
    return module if best is scans else best


def _with_prefetch(module: Module, node: Node, chosen: Sequence[Node]) -> Module:
    """Return the program in which some collectives of a scan run a trip earlier."""
    written = _Prefetch(node, chosen).written()
    nodes = [new for each in module.graph.nodes for new in (written if each is node else [each])]
    return replace(module, graph=replace(module.graph, nodes=nodes))


def _step_seconds(module: Module, planner: Planner) -> float:
    """Return the predicted step; infinity where it does not fit into memory."""
    try:
        return planner.candidate(module).plan().step_seconds
    except CodegenError:
        return math.inf


def _exposed(candidate: Candidate) -> dict[int, float]:
    """Return for how many seconds of a trip each collective in a scan is exposed, by the `id` of its results.

    The candidate is fused: its values are others than those of the program that it was made from, and have the same ids.
    """
    module, plan, found = candidate.module, candidate.plan(), dict[int, float]()
    numbers = list(module.graph.values())
    steps = {numbers[item.outputs[0]]: item.regions[0] for item in plan.items if is_scan(item) and item.outputs}
    for node in module.graph.nodes:
        if is_scan(node) and node.results and (step := steps.get(node.results[0])):
            values = list(region_module(module, node, node.regions[0], captured(node)).graph.values())
            found |= {values[n].id: e.exposed for e in step.exposures for n in step.items[e.item].outputs}
    return found


def _worthwhile(node: Node, seconds: Mapping[int, float], copy: Callable[[int], float]) -> list[Node]:
    """The collectives that may run early and are exposed for longer than it takes to hand on what they make."""
    return [
        each
        for each in _early(node)
        if seconds.get(each.results[0].id, 0.0) > sum(copy(value.type.nbytes) for value in each.results)
    ]


def _early(node: Node) -> list[Node]:
    """The collectives of a scan's body that need nothing that is carried, nor each other."""
    body = node.regions[0]
    late = set(body.inputs[: len(node.results)])
    found: list[Node] = []
    for inner in body.nodes:
        if not late.isdisjoint((*inner.operands, *captured(inner))):
            late.update(inner.results)
        elif inner.op in COLLECTIVES:
            late.update(inner.results)
            found.append(inner)
    is_awaited = any(inner.op in AWAITED for inner in body.nodes)
    return found if node.attrs.trips > 1 and not is_awaited else []


_Argument = tuple[Value, Value, tuple[int, int] | None]
"""An operand of a scan, the body's input, and of rows the first and the step."""


class _Prefetch:
    """A scan whose `chosen` collectives run a trip earlier."""

    def __init__(self, node: Node, chosen: Sequence[Node]) -> None:
        body, attrs = node.regions[0], node.attrs
        self._node, self._body, self._count = node, body, len(node.results)
        self._steps = attrs.steps
        self._early = [value for each in chosen for value in each.results]
        self._fetch = replace(body, nodes=live_nodes(replace(body, outputs=self._early)), outputs=self._early)
        rest = replace(body, nodes=[each for each in body.nodes if each not in chosen])
        self._rest = replace(rest, inputs=[*body.inputs, *self._early], nodes=live_nodes(rest))

    def written(self) -> list[Node]:
        """The first collectives, the scan of all trips but the last, and the last trip."""
        before, count = Graph(""), self._count
        rows = [self._first_rows(n, before) for n in range(len(self._body.inputs))]
        most = self._most(copy_nodes(self._fetch, rows, before))
        body, inputs = Graph(self._body.name), list(map(_like, self._body.inputs))
        outputs = copy_nodes(self._rest, [*inputs, *most.results[count:]], body)
        operands = [*most.results[:count], *self._node.operands[count:]]
        last = self._scan(self._arguments(operands, inputs, self._node.attrs.trips - 1), body, outputs, 1)
        last.results = self._node.results
        return [*before.nodes, most, last]

    def _most(self, fetched: Sequence[Value]) -> Node:
        """All trips but the last: each has what the one before fetched, and fetches from rows that are a step further."""
        body, count, trips = Graph(self._body.name), self._count, self._node.attrs.trips
        inputs, held = list(map(_like, self._body.inputs)), list(map(_like, self._early))
        further = [value if n < count or n not in self._steps else _like(value) for n, value in enumerate(inputs)]
        ahead = copy_nodes(self._fetch, further, body)
        outputs = copy_nodes(self._rest, [*inputs, *held], body)
        own = self._arguments(self._node.operands, inputs, 0)
        carried: list[_Argument] = [(value, inner, None) for value, inner in zip(fetched, held, strict=True)]
        more = self._arguments(self._node.operands, further, 1)[count:]
        rest = list(dict.fromkeys([*own[count:], *(each for each in more if each[2])]))
        return self._scan([*own[:count], *carried, *rest], body, [*outputs, *ahead], trips - 1)

    def _arguments(self, operands: Sequence[Value], inputs: Sequence[Value], trip: int) -> list[_Argument]:
        """The operands of a scan that begins at a trip of this one."""
        steps = {n: (first + step * trip, step) for n, (first, step) in self._steps.items()}
        return [(value, inner, steps.get(n)) for n, (value, inner) in enumerate(zip(operands, inputs, strict=True))]

    def _scan(self, arguments: Sequence[_Argument], body: Graph, outputs: list[Value], trips: int) -> Node:
        used = {*outputs, *(value for node in body.nodes for value in used_by(node))}
        kept = [each for n, each in enumerate(arguments) if n < len(outputs) or each[1] in used]
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
        """What the body has of an operand at its first trip."""
        operand, rows = self._node.operands[number], self._body.inputs[number].type
        if number < self._count or number not in self._steps:
            return operand
        start = (self._steps[number][0], *[0] * (rows.rank - 1))
        limit = (start[0] + rows.sizes[0], *rows.sizes[1:])
        attrs = {"start": start, "limit": limit, "stride": (1,) * rows.rank}
        return into.add("slice", [operand], [rows], attrs, loc=operand.loc).result


def _like(value: Value) -> Value:
    return Value(value.type, value.name, loc=value.loc, id=value.id)
