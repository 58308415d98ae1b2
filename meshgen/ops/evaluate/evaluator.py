"""What every op means, on NumPy arrays: the reference that partitioned programs and kernels are held to.

`bf16`, `f16` and `f8` are computed in f32 and rounded once per op; dots and reductions accumulate in f32 (f64
for f64). Results may be views of arguments: arrays are never written to after they were made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from meshgen.errors import Diagnostic, ProgramError
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import used_by
from meshgen.ops.composites import decomposed, is_composite
from meshgen.ops.evaluate.common import Array, Handler
from meshgen.ops.registry import OPS


class Evaluator:
    """Runs graphs. `extra` gives ops a meaning that their records have not, such as those that ask for the rank."""

    def __init__(self, extra: Mapping[str, Handler] | None = None) -> None:
        self._extra = dict(extra or {})

    def node(self, node: Node, args: Sequence[Array], outer: Mapping[Value, Array] | None = None) -> list[Array]:
        """Results of one op; a composite is its decomposition. `outer` holds the values that its regions use from around them.

        Raises ProgramError MG0103 for an op that has no meaning on one device.
        """
        if is_composite(node):
            return self.graph(decomposed(node), args)
        op = OPS.get(node.op)
        handler = self._extra.get(node.op) or (op and op.evaluate)
        if handler is None:
            raise ProgramError(Diagnostic("MG0103", f"'{node.op}' cannot be evaluated", node.loc))

        def run(region: Graph, region_args: list[Array]) -> list[Array]:
            return self.graph(region, region_args, outer)

        with np.errstate(all="ignore"):
            return [np.asarray(result) for result in handler(node, list(args), run)]

    def graph(self, graph: Graph, args: Sequence[Array], outer: Mapping[Value, Array] | None = None) -> list[Array]:
        """Outputs of a graph; values are dropped after their last use."""
        values: dict[Value, Array] = dict(outer or {})
        values.update(zip(graph.inputs, args, strict=True))
        last = last_uses(graph)
        for number, node in enumerate(graph.nodes):
            results = self.node(node, [values[v] for v in node.operands], values if node.regions else None)
            values.update(zip(node.results, results, strict=True))
            for value in last.get(number, ()):
                values.pop(value, None)
        return [values[v] for v in graph.outputs]


def last_uses(graph: Graph) -> dict[int, list[Value]]:
    """Per node number the values that nothing after it uses (uses inside regions count, outputs never die)."""
    final: dict[Value, int] = {}
    for number, node in enumerate(graph.nodes):
        for value in (*node.results, *used_by(node)):
            final[value] = number
    for value in graph.outputs:
        final.pop(value, None)
    table: dict[int, list[Value]] = {}
    for value, number in final.items():
        table.setdefault(number, []).append(value)
    return table


def evaluate_node(node: Node, args: list[Array], outer: Mapping[Value, Array] | None = None) -> list[Array]:
    """Results of one op on arrays. Raises ProgramError MG0103 for an op that has no meaning on one device."""
    return Evaluator().node(node, args, outer)


def evaluate(graph: Graph, args: Sequence[Array]) -> list[Array]:
    """Outputs of a graph on arrays, one per input, in their element types.

    `annotate` is the identity: at the import stage this is the meaning of the program on one device.
    """
    return Evaluator().graph(graph, [np.asarray(a) for a in args])
