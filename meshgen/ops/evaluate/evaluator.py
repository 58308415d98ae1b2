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
    """Runs graphs on arrays. `extra` adds handlers for ops that cannot be evaluated alone, such as ops that read the
    rank.
    """

    def __init__(self, extra: Mapping[str, Handler] | None = None) -> None:
        self._extra = dict(extra or {})

    def node(self, node: Node, args: Sequence[Array], outer: Mapping[Value, Array] | None = None) -> list[Array]:
        """Evaluate one op; a composite evaluates its decomposition.

        Args:
            outer: the captured values that the regions of the op use.
        Raises:
            ProgramError: MG0103 if the op cannot be evaluated on one device.
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
        """Return the outputs of a graph. A value is dropped after its last use."""
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
    """Return, by node index, the values that no later node uses.

    Uses inside regions count as uses, and graph outputs are excluded.
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
    """Evaluate one op on arrays. Raises ProgramError MG0103 if the op cannot be evaluated on one device."""
    return Evaluator().node(node, args, outer)


def evaluate(graph: Graph, args: Sequence[Array]) -> list[Array]:
    """Evaluate a graph on arrays, one per input, and return its outputs in their element types.

    `annotate` is the identity, so for an imported program the result is what one device computes.
    """
    return Evaluator().graph(graph, [np.asarray(a) for a in args])
