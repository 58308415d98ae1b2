"""SSA dominance: each value is defined exactly once, before its uses, in the graph of the user or an enclosing one.

Every pass must keep this. One walk over the nodes, those of regions included.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.errors import Diagnostic, Location
from meshgen.ir.graph import Graph, Module, Node, Value


def definition_faults(graph: Graph) -> list[Diagnostic]:
    """Uses before or without a definition, values defined twice, and outputs without a definition."""
    faults: list[Diagnostic] = []
    _walk(graph, set(), faults)
    return faults


def undefined_in(module: Module) -> list[Diagnostic]:
    """The faults of a program's graph, of its kernels, and of its parts on several meshes."""
    if module.parts:
        return [fault for part in module.parts for fault in undefined_in(part)]
    return [fault for graph in (module.graph, *module.kernels.values()) for fault in definition_faults(graph)]


def require_defined(module: Module, made_by: str) -> None:
    """Raise AssertionError with the pass that made the program, the value and its location: a bug of meshgen."""
    faults = undefined_in(module)
    assert not faults, f"{made_by} made a malformed program: {faults[0]}"


def _walk(graph: Graph, made: set[Value], faults: list[Diagnostic]) -> None:
    """`made` are the values of enclosing graphs; it is unchanged on return, because values of a region do not escape."""
    own = set[Value]()
    _make(graph.inputs, f"an input of '{graph.name}'", None, made, own, faults)
    for node in graph.nodes:
        if not made.issuperset(node.operands):
            faults += [_unmade(node, number) for number, value in enumerate(node.operands) if value not in made]
        for region in node.regions:
            _walk(region, made, faults)
        results = node.results
        if made.isdisjoint(results) and (len(results) == 1 or len(set(results)) == len(results)):
            made.update(results)
            own.update(results)
        else:
            _make(results, f"a result of '{node.op}'", node.loc, made, own, faults)
    for number, value in enumerate(graph.outputs):
        if value not in made:
            message = f"output {number} of '{graph.name}' is {_typed_name(value)}, which has no definition"
            faults.append(Diagnostic("MG0104", message, value.loc))
    made -= own


def _make(values: Sequence[Value], what: str, loc: Location | None, made: set[Value], own: set[Value],
          faults: list[Diagnostic]) -> None:  # fmt: skip
    for value in values:
        if value in made:
            faults.append(Diagnostic("MG0104", f"{_typed_name(value)}, {what}, is defined twice", loc or value.loc))
        else:
            made.add(value)
            own.add(value)


def _unmade(node: Node, number: int) -> Diagnostic:
    message = (
        f"'{node.op}' reads {_typed_name(node.operands[number])} (operand {number}), which is not defined before it"
    )
    return Diagnostic("MG0104", message, node.loc)


def _typed_name(value: Value) -> str:
    return f"%{value.name} : {value.type}" if value.name else f"a value of type {value.type}"
