"""The functions of an attention in registers: of a tile of scores or of probabilities, elements of operands, and positions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property

from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.expr import Expr, Var, variables
from meshgen.codegen.fusion.attention_bounds import Mask, Positions, fixed_number
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ops.factors import Factors, Names, fixed
from meshgen.ops.triton.registers import Code

_PLAIN = ("multiply", "divide", "tanh", "convert")


class Functions:
    """Evaluates the regions of a node.

    Args:
        table: the index of each factor of rows and keys.
    """

    def __init__(self, evaluator: Evaluator, node: Node, table: Mapping[str, Expr]) -> None:
        self.evaluator, self.node, self.table = evaluator, node, table
        self.positions = Positions(node, table, evaluator.producer.get, evaluator.coordinate)

    @cached_property
    def elements(self) -> list[tuple[Value, Names]]:
        """The operands of which the regions take elements, with their factors."""
        factors = Factors.of(self.node)
        return list(zip(self.node.operands[fixed(self.node.op) :], factors.elements, strict=True))

    def prepare(self, region: Graph, loop: Var) -> None:
        """Load what a function reads, where that is the same in all iterations of a loop."""
        for _, (value, names) in self._read(region):
            if not any(loop in variables(self.table[f]) for f in names):
                self._element(value, names)

    def value(self, region: Graph, *first: Code) -> Code:
        """Return what a function makes of its first arguments."""
        evaluator = self.evaluator
        evaluator.producer.update((node.result, node) for node in region.nodes)
        given = dict(zip(region.inputs, first, strict=False))
        for argument, (value, names) in self._read(region):
            given[argument] = self._element(value, names)
        used = self._used(region)
        for argument, name in zip(region.inputs[len(region.inputs) - len(self.node.attrs.positions) :], self.node.attrs.positions, strict=True):  # fmt: skip
            if argument in used:
                given[argument] = evaluator.index_value(self.table[name], "i32", "position")
        evaluator.placed.update((argument, ((), code)) for argument, code in given.items())
        return evaluator.value(region.outputs[0], ())

    def inside(self, region: Graph, mask: Mask | None) -> Graph:
        """Return the function for rows and keys inside of a mask's bounds."""
        return region if mask is None else self.positions.where(region, mask.tests)

    def _read(self, region: Graph) -> Iterator[tuple[Value, tuple[Value, Names]]]:
        """The arguments of a function that it uses, and the operands that they are elements of."""
        used, count = self._used(region), len(self.node.attrs.positions) + len(self.elements)
        for argument, element in zip(region.inputs[len(region.inputs) - count :], self.elements, strict=False):
            if argument in used:
                yield argument, element

    def _used(self, region: Graph) -> set[Value]:
        return {*region.outputs, *(value for node in region.nodes for value in node.operands)}

    def _element(self, value: Value, names: Names) -> Code:
        return self.evaluator.value(value, tuple(self.table[f] for f in names))


def factored(region: Graph) -> tuple[Graph, float]:
    """Return a function of the scores without a last multiplication by a positive number, and that number; 0.0 where that is of no use.

    Scale and maximum are then one multiplication and subtraction. What is masked may be as large as floats are, and is not scaled.
    """
    if not _is_plain(region):
        return region, 0.0
    made = region.index.producers
    node = made.get(region.outputs[0])
    if node is not None and node.op == "multiply":
        for inner, number in (node.operands, node.operands[::-1]):
            if (factor := fixed_number(made.get(number))) is not None and 0 < factor < math.inf:
                return Graph(region.name, region.inputs, region.nodes, [inner]), factor
    return region, 1.0


def _is_plain(region: Graph) -> bool:
    """Whether a function is of the size of the scores: nothing is added to them or put in their place."""
    value, made = region.outputs[0], region.index.producers
    while (node := made.get(value)) is not None:
        others = [v for v in node.operands[1:] if fixed_number(made.get(v)) is None]
        if node.op not in _PLAIN or others:
            return False
        value = node.operands[0]
    return value is region.inputs[0]
