"""The nodes of an operation, to be made again for operations that say the same of other values (`alike.py`).

%7 = chlo.square %5 : tensor<4xf32> -> tensor<4xf32>       multiply(5, 5)
%9 = chlo.square %8 : tensor<4xf32> -> tensor<4xf32>       multiply(8, 8)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

from meshgen.errors import Location
from meshgen.ir.attributes.base import Attributes
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.notes import Notes
from meshgen.spec import Sharding


class _Step(NamedTuple):
    """A node: the numbers of its operands, and of each result type, sharding and name."""

    op: str
    operands: tuple[int, ...]
    results: tuple[tuple[TensorType, Sharding | None, str], ...]
    attrs: Attributes
    notes: Notes


class Recipe(NamedTuple):
    """The nodes of an operation with one result. Values go by number: first its operands, then the results of the nodes."""

    steps: tuple[_Step, ...]
    result: int

    @classmethod
    def of(cls, nodes: Sequence[Node], operands: Sequence[Value], result: Value) -> Self | None:
        """The recipe of nodes that make `result` of `operands`; None where they need, or say, more than a recipe does."""
        numbers, count = {value: number for number, value in enumerate(operands)}, len(operands)
        steps: list[_Step] = []
        for node in nodes:
            if node.regions or node.option or node.sharding or any(value not in numbers for value in node.operands):
                return None
            taken = tuple([numbers[value] for value in node.operands])
            kinds = tuple([(each.type, each.sharding, "" if each is result else each.name) for each in node.results])
            steps.append(_Step(node.op, taken, kinds, node.attrs, node.notes))
            numbers |= {value: number for number, value in enumerate(node.results, count)}
            count += len(node.results)
        return cls(tuple(steps), numbers[result]) if result in numbers else None

    def follow(self, operands: Sequence[Value], loc: Location | None, graph: Graph) -> Value:
        """Add the nodes for other operands, at another place; returns the value of the result."""
        values = [*operands]
        for op, numbers, kinds, attrs, notes in self.steps:
            results = [Value(kind, name, sharding, loc) for kind, sharding, name in kinds]
            graph.nodes.append(Node(op, [values[number] for number in numbers], results, attrs, loc, notes=notes))
            values += results
        return values[self.result]
