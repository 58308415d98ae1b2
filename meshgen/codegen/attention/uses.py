"""The users of the values of a graph, as attention asks for them."""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.codegen.attention.layouts import loops_of
from meshgen.codegen.attention.recognition import TYPES
from meshgen.codegen.fusion.layout_indices import Index, forward
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import used_by

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

    def settled(self, value: Value, index: Index, most_loops: int = 1) -> tuple[Value, Index]:
        """What transposes, reshapes and a rounding make of a product that nothing else reads, with its index, while each dim has few loops."""
        while value not in self.outputs and len(users := self.of(value)) == 1:
            (node,) = users
            place = index if _rounds(node) else forward(node, index, ()) if node.op in _ARRANGING else None
            if place is None or node.option is not None:
                break
            loops = [loops_of(each, size) for each, size in zip(place, node.result.type.sizes, strict=True)]
            if any(each is None or len(each) > most_loops for each in loops):
                break
            value, index = node.result, place
        return value, index


def _rounds(node: Node) -> bool:
    """Whether a product could be rounded so at once: its sums are in f32."""
    return node.op == "convert" and node.operands[0].type.dtype == "f32" and node.result.type.dtype in TYPES
