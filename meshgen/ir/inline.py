"""Inlining of private functions: `call` nodes are replaced by copies of their callees, also inside regions."""

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
    """Return `graph` with all `call` nodes inlined.

    Inlined values keep their names (except purely numeric ones) and locations. A value without a location gets that of
    the call.

    Raises ProgramError with all unknown functions, wrong arguments and recursive calls at once, and for a program that
    would have more than `MAX_OPERATIONS` operations after inlining.
    """
    order, faults = _callees_first(graph, functions)
    if faults:
        raise ProgramError(*dict.fromkeys(faults))
    _refuse_too_many(graph, functions, order)
    _refuse_too_deep(graph, functions, order)
    inlined: dict[str, Graph] = {}
    for name in order:
        inlined[name] = _inlined(functions[name], inlined)
    return _inlined(graph, inlined)


def _callees_first(graph: Graph, functions: Mapping[str, Graph]) -> tuple[list[str], list[Diagnostic]]:
    """Return the functions that a graph calls transitively, callees first, and the faults of all calls.

    Iterative, because call chains may have any length.
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
    """Raise ProgramError if inlining would create too many operations.

    Operations are counted before inlining: a chain of functions that call the next one twice doubles at each level.
    """
    counts: dict[str, int] = {}
    for name in order:
        counts[name] = _inlined_node_count(functions[name], counts)
    if (total := _inlined_node_count(graph, counts)) <= MAX_OPERATIONS:
        return
    largest_call = max(_calls(graph), key=lambda node: counts[node.attrs.callee])
    name = largest_call.attrs.callee
    subject = f"the program with its calls inlined ({about(counts[name])} operations in each @{name})"
    require_operations(total, subject, largest_call.loc, hint="write repeated calls as stablehlo.while")


def _refuse_too_deep(graph: Graph, functions: Mapping[str, Graph], order: list[str]) -> None:
    """Raise ProgramError if regions would be nested too deeply after inlining."""
    heights: dict[str, int] = {}
    for name in order:
        heights[name] = max((height for _, height in _heights(functions[name], heights)), default=0)
    node, height = max(_heights(graph, heights), key=lambda pair: pair[1], default=(None, 0))
    if node is not None and height > MAX_NESTING:
        suffix = " after inlining" if is_call(node) else ""
        message = f"'{node.op}': regions are nested {height} deep{suffix}"
        raise ProgramError(too_deep(message, node.loc))


def _heights(graph: Graph, heights: Mapping[str, int]) -> Iterator[tuple[Node, int]]:
    """Yield each node with the depth of the deepest region nest through it after inlining.

    `heights` has the depth of region nests in each callee.
    """
    for node, depth in nodes_with_depth(graph):
        yield node, depth + (heights[node.attrs.callee] if is_call(node) else bool(node.regions))


def _inlined_node_count(graph: Graph, counts: Mapping[str, int]) -> int:
    return sum(counts[node.attrs.callee] if is_call(node) else 1 for node in all_nodes(graph))


def _inlined(graph: Graph, inlined_callees: Mapping[str, Graph]) -> Graph:
    """Return the graph with its calls replaced by copies of the callees in `inlined_callees`."""
    result = Graph(graph.name, list(graph.inputs))
    replaced: dict[Value, Value] = {}
    for node in graph.nodes:
        node.operands = [replaced.get(value, value) for value in node.operands]
        node.regions = tuple(_inlined(region, inlined_callees) for region in node.regions)
        if not is_call(node):
            result.nodes.append(node)
            continue
        first = len(result.nodes)
        outputs = copy_nodes(inlined_callees[node.attrs.callee], node.operands, result)
        _locate(result.nodes[first:], node.loc)
        for old, new in zip(node.results, outputs, strict=True):
            replaced[old] = new
            if old.name and new not in node.operands and (not new.name or new.name.isdecimal()):
                new.name = old.name
    result.outputs = [replaced.get(value, value) for value in graph.outputs]
    return result


def _locate(nodes: Sequence[Node], loc: Location | None) -> None:
    """Set the location of nodes and values that have none to `loc`, the location of the call.

    JAX omits locations in a function that it emits once for several call sites.
    """
    for node in nodes:
        node.loc = node.loc or loc
        for value in node.results:
            value.loc = value.loc or loc
        for region in node.regions:
            _locate(region.nodes, loc)


def _call_fault(node: Node, functions: Mapping[str, Graph], active: tuple[str, ...]) -> Diagnostic | None:
    name = node.attrs.callee
    if name not in functions:
        names = listed([f"@{function}" for function in functions])
        message = f"unknown private function '@{name}' in a call"
        return Diagnostic("MG0104", message, node.loc, hint=f"private functions: {names}")
    if name in active:
        chain = " -> ".join(f"@{function}" for function in (*active[active.index(name) :], name))
        return Diagnostic("MG0103", f"recursion is not supported: {chain}", node.loc, hint="use stablehlo.while")
    callee = functions[name]
    expected = ([value.type for value in callee.inputs], [value.type for value in callee.outputs])
    actual = ([value.type for value in node.operands], [value.type for value in node.results])
    if actual == expected:
        return None
    expected_text, have = (
        f"({', '.join(map(str, ins))}) -> ({', '.join(map(str, outs))})" for ins, outs in (expected, actual)
    )
    return Diagnostic("MG0104", f"@{name} is {expected_text}, but it is called as {have}", node.loc)


def copy_nodes(body: Graph, arguments: list[Value], target: Graph) -> list[Value]:
    """Append a copy of the nodes of `body` to `target`, with `arguments` for the inputs of `body`.

    Returns the copies of the outputs of `body`.
    """
    return _copied(body, arguments, target, {})


def _copied(body: Graph, arguments: list[Value], target: Graph, values: dict[Value, Value]) -> list[Value]:
    """Implement `copy_nodes`. `values` maps original values to copies; the function adds the values of `body`."""
    values.update(zip(body.inputs, arguments, strict=True))
    for node in body.nodes:
        target.nodes.append(_copy_node(node, values))
    return [values.get(value, value) for value in body.outputs]


def _copy_node(node: Node, values: dict[Value, Value]) -> Node:
    """Return a copy of a node with new results.

    `values` maps original values to copies. Operands are looked up in it, and the results are added.
    """
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
