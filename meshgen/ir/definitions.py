"""Verification of SSA dominance: each value is defined once, before its uses, in its user's graph or an enclosing
graph.

Every pass must preserve this property. The check is one walk over all nodes, including the nodes in regions.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.errors import Diagnostic, Location
from meshgen.ir.graph import Graph, Module, Node, Value


def definition_faults(graph: Graph) -> list[Diagnostic]:
    """Return a diagnostic for each operand or output that is not defined, and for each value that is defined twice."""
    faults: list[Diagnostic] = []
    _walk(graph, set(), faults)
    return faults


def module_definition_faults(module: Module) -> list[Diagnostic]:
    """Return the SSA dominance faults of a module's graph and kernels. For a module with `parts`, check the parts
    instead.
    """
    if module.parts:
        return [fault for part in module.parts for fault in module_definition_faults(part)]
    return [fault for graph in (module.graph, *module.kernels.values()) for fault in definition_faults(graph)]


def require_defined(module: Module, made_by: str) -> None:
    """Raise AssertionError if the module violates SSA dominance, which is a bug of meshgen.

    The message contains the name of the pass (`made_by`), the value and its location.
    """
    faults = module_definition_faults(module)
    assert not faults, f"{made_by} made a malformed program: {faults[0]}"


def _walk(graph: Graph, defined: set[Value], faults: list[Diagnostic]) -> None:
    """Append the faults of a graph to `faults`. `defined` holds the values that are visible in the graph.

    `defined` has the same content on return as on entry.
    """
    local = set[Value]()
    _define(graph.inputs, f"an input of '{graph.name}'", None, defined, local, faults)
    for node in graph.nodes:
        if not defined.issuperset(node.operands):
            faults += [
                _undefined_operand(node, index) for index, value in enumerate(node.operands) if value not in defined
            ]
        for region in node.regions:
            _walk(region, defined, faults)
        results = node.results
        if defined.isdisjoint(results) and (len(results) == 1 or len(set(results)) == len(results)):
            defined.update(results)
            local.update(results)
        else:
            _define(results, f"a result of '{node.op}'", node.loc, defined, local, faults)
    for index, value in enumerate(graph.outputs):
        if value not in defined:
            message = f"output {index} of '{graph.name}' is {_typed_name(value)}, which has no definition"
            faults.append(Diagnostic("MG0104", message, value.loc))
    defined -= local


def _define(values: Sequence[Value], role: str, loc: Location | None, defined: set[Value], local: set[Value],
          faults: list[Diagnostic]) -> None:  # fmt: skip
    for value in values:
        if value in defined:
            faults.append(Diagnostic("MG0104", f"{_typed_name(value)}, {role}, is defined twice", loc or value.loc))
        else:
            defined.add(value)
            local.add(value)


def _undefined_operand(node: Node, index: int) -> Diagnostic:
    message = f"'{node.op}' reads {_typed_name(node.operands[index])} (operand {index}), which is not defined before it"
    return Diagnostic("MG0104", message, node.loc)


def _typed_name(value: Value) -> str:
    return f"%{value.name} : {value.type}" if value.name else f"a value of type {value.type}"
