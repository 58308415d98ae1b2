"""Inlining of private functions: `call` nodes become copies of their callees, also inside regions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from meshgen.budget import MAX_OPERATIONS, require_operations
from meshgen.errors import Diagnostic, Location, ProgramError, about, listed
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.limits import MAX_NESTING, too_deep
from meshgen.ir.predicates import is_call
from meshgen.ir.regions import all_nodes, nodes_with_depth


def inline_calls(graph: Graph, functions: Mapping[str, Graph]) -> Graph:
    """`graph` without `call` nodes. Inlined values keep their names, but not numbers, and their locations; without one they have the call's.

    Raises ProgramError for unknown functions, wrong arguments and recursion, all at once, and for a program that has
    more than `MAX_OPERATIONS` operations after inlining.
    """
    order, faults = _callees_first(graph, functions)
    if faults:
        raise ProgramError(*dict.fromkeys(faults))
    _refuse_too_many(graph, functions, order)
    _refuse_too_deep(graph, functions, order)
    done: dict[str, Graph] = {}
    for name in order:
        done[name] = _inlined(functions[name], done)
    return _inlined(graph, done)


def _callees_first(graph: Graph, functions: Mapping[str, Graph]) -> tuple[list[str], list[Diagnostic]]:
    """The functions that a graph needs, each after those that it calls, and the faults of calls.

    Not recursive: call chains may have any length.
    """
    order: dict[str, None] = {}
    faults: list[Diagnostic] = []
    path: dict[str, Iterator[Node]] = {"": _calls(graph)}
    while path:
        call = next(path[next(reversed(path))], None)
        if call is None:
            order[path.popitem()[0]] = None
        elif fault := _call_fault(call, functions, tuple(path)):
            faults.append(fault)
        elif (name := call.attrs["callee"]) not in order:
            path[name] = _calls(functions[name])
    order.pop("", None)
    return list(order), faults


def _calls(graph: Graph) -> Iterator[Node]:
    return (node for node in all_nodes(graph) if is_call(node))


def _refuse_too_many(graph: Graph, functions: Mapping[str, Graph], order: list[str]) -> None:
    """Refuse programs that are too large: functions that call each other twice double it at each level, so count first."""
    counts: dict[str, int] = {}
    for name in order:
        counts[name] = _inlined_node_count(functions[name], counts)
    if (total := _inlined_node_count(graph, counts)) <= MAX_OPERATIONS:
        return
    most = max(_calls(graph), key=lambda node: counts[node.attrs.callee])
    name = most.attrs.callee
    what = f"the program with its calls inlined ({about(counts[name])} operations in each @{name})"
    require_operations(total, what, most.loc, hint="write repeated calls as stablehlo.while")


def _refuse_too_deep(graph: Graph, functions: Mapping[str, Graph], order: list[str]) -> None:
    """Refuse regions that are nested too deeply after inlining of functions with regions."""
    heights: dict[str, int] = {}
    for name in order:
        heights[name] = max((height for _, height in _heights(functions[name], heights)), default=0)
    node, height = max(_heights(graph, heights), key=lambda row: row[1], default=(None, 0))
    if node is not None and height > MAX_NESTING:
        written = " after inlining" if is_call(node) else ""
        message = f"'{node.op}': regions are nested {height} deep{written}"
        raise ProgramError(too_deep(message, node.loc))


def _heights(graph: Graph, heights: Mapping[str, int]) -> Iterator[tuple[Node, int]]:
    """Nodes with the nesting depth of regions around and inside each."""
    for node, depth in nodes_with_depth(graph):
        yield node, depth + (heights[node.attrs.callee] if is_call(node) else bool(node.regions))


def _inlined_node_count(graph: Graph, counts: Mapping[str, int]) -> int:
    return sum(counts[node.attrs.callee] if is_call(node) else 1 for node in all_nodes(graph))


def _inlined(graph: Graph, done: Mapping[str, Graph]) -> Graph:
    """The graph with its calls replaced by copies of the callees in `done`."""
    result = Graph(graph.name, list(graph.inputs))
    replaced: dict[Value, Value] = {}
    for node in graph.nodes:
        node.operands = [replaced.get(value, value) for value in node.operands]
        node.regions = tuple(_inlined(region, done) for region in node.regions)
        if not is_call(node):
            result.nodes.append(node)
            continue
        first = len(result.nodes)
        outputs = copy_nodes(done[node.attrs.callee], node.operands, result)
        _locate(result.nodes[first:], node.loc)
        for old, new in zip(node.results, outputs, strict=True):
            replaced[old] = new
            if old.name and new not in node.operands and (not new.name or new.name.isdecimal()):
                new.name = old.name
    result.outputs = [replaced.get(value, value) for value in graph.outputs]
    return result


def _locate(nodes: Sequence[Node], loc: Location | None) -> None:
    """JAX locates what it writes out once for several calls by its own names only: nodes without a location get that of the call."""
    for node in nodes:
        node.loc = node.loc or loc
        for value in node.results:
            value.loc = value.loc or loc
        for region in node.regions:
            _locate(region.nodes, loc)


def _call_fault(node: Node, functions: Mapping[str, Graph], active: tuple[str, ...]) -> Diagnostic | None:
    name = node.attrs.callee
    if name not in functions:
        known = listed([f"@{each}" for each in functions])
        message = f"unknown private function '@{name}' in a call"
        return Diagnostic("MG0104", message, node.loc, hint=f"private functions: {known}")
    if name in active:
        chain = " -> ".join(f"@{each}" for each in (*active[active.index(name) :], name))
        return Diagnostic("MG0103", f"recursion is not supported: {chain}", node.loc, hint="use stablehlo.while")
    callee = functions[name]
    expected = ([value.type for value in callee.inputs], [value.type for value in callee.outputs])
    given = ([value.type for value in node.operands], [value.type for value in node.results])
    if given == expected:
        return None
    want, have = (f"({', '.join(map(str, ins))}) -> ({', '.join(map(str, outs))})" for ins, outs in (expected, given))
    return Diagnostic("MG0104", f"@{name} is {want}, but it is called as {have}", node.loc)


def copy_nodes(body: Graph, arguments: list[Value], target: Graph) -> list[Value]:
    """Append a copy of a body over other arguments to `target`; returns the values of its outputs."""
    return _copied(body, arguments, target, {})


def _copied(body: Graph, arguments: list[Value], target: Graph, values: dict[Value, Value]) -> list[Value]:
    """As `copy_nodes`; `values` maps captured values to their replacements, and gets those of the body."""
    values.update(zip(body.inputs, arguments, strict=True))
    for node in body.nodes:
        target.nodes.append(_copy_node(node, values))
    return [values.get(value, value) for value in body.outputs]


def _copy_node(node: Node, values: dict[Value, Value]) -> Node:
    """A copy of a node over the new values; its results are added to `values`."""
    operands = [values.get(value, value) for value in node.operands]
    results = [_copy_value(value) for value in node.results]
    regions = tuple(_copy_region(region, values) for region in node.regions)
    values.update(zip(node.results, results, strict=True))
    return replace(node, operands=operands, results=results, regions=regions)


def _copy_value(value: Value) -> Value:
    return Value(value.type, "" if value.name.isdecimal() else value.name, value.sharding, value.loc)


def _copy_region(region: Graph, values: dict[Value, Value]) -> Graph:
    inputs = [_copy_value(value) for value in region.inputs]
    copy = Graph(region.name, inputs)
    copy.outputs = _copied(region, inputs, copy, values)
    return copy
