"""Producers and users of the values of a graph, for the recognition of attention."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from meshgen.codegen.attention.layouts import loops_of
from meshgen.codegen.attention.recognition import splat
from meshgen.codegen.expr import Var, variables
from meshgen.codegen.fusion.attention_loops import TYPES
from meshgen.codegen.fusion.layout_indices import Index, forward
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import used_by
from meshgen.ops.classes import REDUCTIONS

_ARRANGING = ("transpose", "reshape")


class Uses:
    """The producer and the users of each value of a graph. Users include nodes whose regions capture the value."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.producer, self.outputs = graph, graph.index.producers.get, {*graph.outputs}
        self.users: dict[Value, list[Node]] = {}
        for node in graph.nodes:
            for value in used_by(node):
                self.users.setdefault(value, []).append(node)

    def of(self, value: Value) -> Sequence[Node]:
        """Return the users of a value."""
        return self.users.get(value, ())

    def settled(self, value: Value, index: Index, most_loops: int = 1, summed: Collection[Var] = ()) -> tuple[Value, Index]:  # fmt: skip
        """Follow the chain of single users from a matmul's result, and return a value of the chain with its index.

        The chain consists of transposes, reshapes and conversions, and of sums over the loops in `summed`.

        Args:
            most_loops: the most loops per dim of the returned value. The last such value of the chain is returned.
        """
        last = value, index
        while value not in self.outputs and len(users := self.of(value)) == 1:
            (node,) = users
            next_index = self._after(node, index, summed)
            if next_index is None or node.option is not None:
                break
            value, index = node.result, next_index
            loops = [loops_of(expr, size) for expr, size in zip(index, value.type.sizes, strict=True)]
            if all(expr is not None and len(expr) <= most_loops for expr in loops):
                last = value, index
        return last

    def _after(self, node: Node, index: Index, summed: Collection[Var]) -> Index | None:
        """Return the index of the result of `node`, given the index of its operand.

        Returns None if `node` is not part of the chain (`settled`).
        """
        if node.op == "convert":
            kinds = [value.type.dtype for value in (*node.operands, *node.results)]
            is_sum_of_f32 = kinds[0] == "f32" or (bool(summed) and kinds[0] in TYPES)
            return index if is_sum_of_f32 and kinds[1] in TYPES else None
        if node.op in _ARRANGING:
            return forward(node, index, ())
        if node.op not in REDUCTIONS or node.attrs.kind != "add" or splat(node.operands[1], self.producer) != 0:
            return None
        reduced = {v for d in node.attrs.dims for v in variables(index[d])}
        return tuple(e for d, e in enumerate(index) if d not in node.attrs.dims) if reduced <= {*summed} else None
