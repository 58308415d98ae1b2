"""Replay of converted nodes: an operation that repeats an earlier line (`repeated_lines.py`) gets copies of that line's nodes.

%7 = chlo.square %5 : tensor<4xf32> -> tensor<4xf32>       multiply(%5, %5)
%9 = chlo.square %8 : tensor<4xf32> -> tensor<4xf32>       multiply(%8, %8)
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
    """A node of a recipe: the indices of its operands among the recipe's values, and the type, sharding and name of
    each result.
    """

    op: str
    operands: tuple[int, ...]
    results: tuple[tuple[TensorType, Sharding | None, str], ...]
    attrs: Attributes
    notes: Notes


class Recipe(NamedTuple):
    """The nodes of one converted operation. Values are numbered: first its operands, then the results of the nodes in
    order.
    """

    steps: tuple[_Step, ...]
    result: int

    @classmethod
    def of(cls, nodes: Sequence[Node], operands: Sequence[Value], result: Value) -> Self | None:
        """Record `nodes`, which compute `result` from `operands`.

        Returns None if they have regions, options or shardings, or use values other than `operands`.
        """
        indices, count = {value: index for index, value in enumerate(operands)}, len(operands)
        steps: list[_Step] = []
        for node in nodes:
            if node.regions or node.option or node.sharding or any(value not in indices for value in node.operands):
                return None
            operand_indices = tuple([indices[value] for value in node.operands])
            result_kinds = tuple(
                [
                    (value_result.type, value_result.sharding, "" if value_result is result else value_result.name)
                    for value_result in node.results
                ]
            )
            steps.append(_Step(node.op, operand_indices, result_kinds, node.attrs, node.notes))
            indices |= {value: index for index, value in enumerate(node.results, count)}
            count += len(node.results)
        return cls(tuple(steps), indices[result]) if result in indices else None

    def follow(self, operands: Sequence[Value], loc: Location | None, graph: Graph) -> Value:
        """Append copies of the nodes to `graph`, on the operands `operands` and at the location `loc`. Returns the
        result.
        """
        values = [*operands]
        for op, operand_indices, kinds, attrs, notes in self.steps:
            results = [Value(kind, name, sharding, loc) for kind, sharding, name in kinds]
            graph.nodes.append(Node(op, [values[index] for index in operand_indices], results, attrs, loc, notes=notes))
            values += results
        return values[self.result]
