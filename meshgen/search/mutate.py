"""Change how one operation is split: a sharding mutation by a search or a person, before the program is planned again.

Example, `%h = dot_general %x, %w : f32[64,32], f32[32,96]` with loops a = 64, b = 96, c = 32 on dp=2, tp=4:

    mutate(program, "h", [["dp"], ["tp"], []])      rows over dp, columns over tp; %h has sharding [{dp}, {tp}]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meshgen.errors import Diagnostic, UsageError
from meshgen.ir.graph import Graph, Module, Value
from meshgen.reports.what_if import named_value

Option = Sequence[str | Sequence[str] | None]


def mutate(module: Module, op: str, option: Option) -> Module:
    """Return the program with a sharding option on one operation: the mesh axes that split each of its loops.

    Propagation keeps the option exactly, or refuses the program (MG0204, MG0206).

    Args:
        module: at stage import.
        op: the name of the operation's result (`%h`), or the operation's line in the program.
        option: per loop, in the order of the op's rule, an axis, several axes from major to minor, or None. Raises:
        UsageError: MG0001, no operation or several have that name, or the program is past stage import.
    """
    if module.stage != "import":
        text = f"the program is at stage '{module.stage}', after its shardings were chosen"
        raise UsageError(Diagnostic("MG0001", text, hint="mutate the program as it was before propagation"))
    number, value = named_value(module.graph, op)
    if number is not None:
        text = f"'{op}' is an input, which has no loops"
        raise UsageError(Diagnostic("MG0001", text, hint="annotate inputs with in_specs"))
    return replace(module, graph=_with_option(module.graph, value, tuple(map(_axes_of_entry, option))))


def _axes_of_entry(entry: str | Sequence[str] | None) -> tuple[str, ...]:
    return (entry,) if isinstance(entry, str) else tuple(entry or ())


def _with_option(graph: Graph, value: Value, option: tuple[tuple[str, ...], ...]) -> Graph:
    """Return the graph, including its regions, with the option on the node that produces `value`."""
    nodes = [
        replace(
            node,
            regions=tuple(_with_option(region, value, option) for region in node.regions),
            option=option if value in node.results else node.option,
        )
        for node in graph.nodes
    ]
    return Graph(graph.name, graph.inputs, nodes, graph.outputs)
