"""The users of the values of a graph, as attention asks for them."""

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
    """Who makes and who uses each value of a graph, in regions too."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.producer, self.outputs = graph, graph.index.producers.get, {*graph.outputs}
        self.users: dict[Value, list[Node]] = {}
        for node in graph.nodes:
            for value in used_by(node):
                self.users.setdefault(value, []).append(node)

    def of(self, value: Value) -> Sequence[Node]:
        return self.users.get(value, ())

    def settled(self, value: Value, index: Index, most_loops: int = 1, summed: Collection[Var] = ()) -> tuple[Value, Index]:  # fmt: skip
        """Return the last value of a chain of single users of a product of which each dim has few loops, and its index.

        Transposes, reshapes and a rounding are followed, and with `summed` sums over these loops as well.
        """
        found = value, index
        while value not in self.outputs and len(users := self.of(value)) == 1:
            (node,) = users
            place = self._after(node, index, summed)
            if place is None or node.option is not None:
                break
            value, index = node.result, place
            loops = [loops_of(each, size) for each, size in zip(index, value.type.sizes, strict=True)]
            if all(each is not None and len(each) <= most_loops for each in loops):
                found = value, index
        return found

    def _after(self, node: Node, index: Index, summed: Collection[Var]) -> Index | None:
        """The index of a node's result for that of its operand; None if it is not followed."""
        if node.op == "convert":
            kinds = [value.type.dtype for value in (*node.operands, *node.results)]
            is_sum_of_f32 = kinds[0] == "f32" or (bool(summed) and kinds[0] in TYPES)
            return index if is_sum_of_f32 and kinds[1] in TYPES else None
        if node.op in _ARRANGING:
            return forward(node, index, ())
        if node.op not in REDUCTIONS or node.attrs.kind != "add" or splat(node.operands[1], self.producer) != 0:
            return None
        over = {v for d in node.attrs.dims for v in variables(index[d])}
        return tuple(e for d, e in enumerate(index) if d not in node.attrs.dims) if over <= {*summed} else None
