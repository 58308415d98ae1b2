"""The reference semantics of every op on NumPy arrays. Partitioned programs and kernels are compared with it.

`bf16`, `f16` and `f8` are computed in f32 and rounded once per op; dots and reductions accumulate in f32 (f64
for f64). Results may be views of arguments: no op writes to an existing array.
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
    """Evaluates nodes and graphs on NumPy arrays.

    `extra` has handlers for ops that have no semantics on one device, such as ops that read the rank.
    """

    def __init__(self, extra: Mapping[str, Handler] | None = None) -> None:
        self._extra = dict(extra or {})

    def node(self, node: Node, args: Sequence[Array], outer: Mapping[Value, Array] | None = None) -> list[Array]:
        """Evaluate one node. A composite is evaluated through its decomposition.

        Args:
            outer: the arrays of the values that the node's regions capture.
        Raises:
            ProgramError: MG0103 if the op has no semantics on one device.
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
        """Return the outputs of a graph. The array of a value is freed after the last use of the value."""
        values: dict[Value, Array] = dict(outer or {})
        values.update(zip(graph.inputs, args, strict=True))
        dying_values = last_uses(graph)
        for index, node in enumerate(graph.nodes):
            results = self.node(node, [values[v] for v in node.operands], values if node.regions else None)
            values.update(zip(node.results, results, strict=True))
            for value in dying_values.get(index, ()):
                values.pop(value, None)
        return [values[v] for v in graph.outputs]


def last_uses(graph: Graph) -> dict[int, list[Value]]:
    """Return, by node index, the values whose last use is in this node.

    A use in a region of the node counts as a use by the node. Graph outputs are excluded.
    """
    last_use: dict[Value, int] = {}
    for index, node in enumerate(graph.nodes):
        for value in (*node.results, *used_by(node)):
            last_use[value] = index
    for value in graph.outputs:
        last_use.pop(value, None)
    dying_values: dict[int, list[Value]] = {}
    for value, index in last_use.items():
        dying_values.setdefault(index, []).append(value)
    return dying_values


def evaluate_node(node: Node, args: list[Array], outer: Mapping[Value, Array] | None = None) -> list[Array]:
    """Evaluate one node on arrays. Raises ProgramError MG0103 if the op has no semantics on one device."""
    return Evaluator().node(node, args, outer)


def evaluate(graph: Graph, args: Sequence[Array]) -> list[Array]:
    """Evaluate a graph on arrays, one per input. Returns the outputs in their element types.

    `annotate` is evaluated as the identity, so the result of an imported program is the result on a single device.
    """
    return Evaluator().graph(graph, [np.asarray(a) for a in args])
