"""Inlining of private functions: `call` nodes become copies of what they call, also inside regions."""

from __future__ import annotations

from collections.abc import Mapping

from meshgen.errors import Diagnostic, ProgramError
from meshgen.ir.graph import Graph, Node, Value


def inline_calls(graph: Graph, functions: Mapping[str, Graph]) -> Graph:
    """`graph` without `call` nodes. Inlined values keep their names, but not numbers, and their locations.

    Raises ProgramError for unknown functions, wrong arguments and recursion, all at once.
    """
    faults: list[Diagnostic] = []
    found = _inlined(graph, functions, {}, (), faults)
    if faults:
        raise ProgramError(*dict.fromkeys(faults))
    return found


def _inlined(graph: Graph, functions: Mapping[str, Graph], done: dict[str, Graph], active: tuple[str, ...],
             faults: list[Diagnostic]) -> Graph:  # fmt: skip
    """The graph with its calls replaced; `done` holds functions that are inlined already, `active` those at work."""
    result = Graph(graph.name, list(graph.inputs))
    replaced: dict[Value, Value] = {}
    for node in graph.nodes:
        node.operands = [replaced.get(value, value) for value in node.operands]
        node.regions = tuple(_inlined(region, functions, done, active, faults) for region in node.regions)
        body = _callee(node, functions, done, active, faults) if node.op == "call" else None
        if body is None:
            result.nodes.append(node)
        else:
            outputs = copy_nodes(body, node.operands, result)
            for old, new in zip(node.results, outputs, strict=True):
                replaced[old] = new
                if old.name and new not in node.operands and (not new.name or new.name.isdecimal()):
                    new.name = old.name
    result.outputs = [replaced.get(value, value) for value in graph.outputs]
    return result


def _callee(node: Node, functions: Mapping[str, Graph], done: dict[str, Graph], active: tuple[str, ...],
            faults: list[Diagnostic]) -> Graph | None:  # fmt: skip
    """The function that a node calls, itself inlined; None with a fault where that cannot be."""
    name = node.attrs["callee"]
    if fault := _call_fault(node, functions, active):
        faults.append(fault)
        return None
    if name not in done:
        done[name] = _inlined(functions[name], functions, done, (*active, name), faults)
    return done[name]


def _call_fault(node: Node, functions: Mapping[str, Graph], active: tuple[str, ...]) -> Diagnostic | None:
    name = node.attrs["callee"]
    if name not in functions:
        known = ", ".join(f"@{each}" for each in functions) or "none"
        message = f"@{name} is called, but not defined as a private function"
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
    """Append a copy of a body over other arguments to `target`; returns what stands for its outputs."""
    values = dict(zip(body.inputs, arguments, strict=True))
    for node in body.nodes:
        target.nodes.append(_copy_node(node, values))
    return [values[value] for value in body.outputs]


def _copy_node(node: Node, values: dict[Value, Value]) -> Node:
    """A copy of a node over the new values; its results are added to `values`."""
    operands = [values[value] for value in node.operands]
    results = [_copy_value(value) for value in node.results]
    values.update(zip(node.results, results, strict=True))
    regions = tuple(_copy_region(region) for region in node.regions)
    return Node(node.op, operands, results, dict(node.attrs), node.loc, node.sharding, regions)


def _copy_value(value: Value) -> Value:
    return Value(value.type, "" if value.name.isdecimal() else value.name, value.sharding, value.loc)


def _copy_region(region: Graph) -> Graph:
    inputs = [_copy_value(value) for value in region.inputs]
    copy = Graph(region.name, inputs)
    copy.outputs = copy_nodes(region, inputs, copy)
    return copy
