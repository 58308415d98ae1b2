"""Code generation for the element-wise functions of an attention op (score, weight, derivative).

The functions' arguments are register tiles of scores or probabilities, elements of further operands such as a bias,
and row and key positions.
"""

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
    """Code generator for the regions of an attention op.

    Args:
        table: the index expression of each row and key factor (einsum-style dim), by name.
    """

    def __init__(self, evaluator: Evaluator, node: Node, table: Mapping[str, Expr]) -> None:
        self.evaluator, self.node, self.table = evaluator, node, table
        self.positions = Positions(node, table, evaluator.producer.get, evaluator.coordinate)

    @cached_property
    def elements(self) -> list[tuple[Value, Names]]:
        """Return the operands that regions read element by element (such as a bias), each with its factors."""
        factors = Factors.of(self.node)
        return list(zip(self.node.operands[fixed(self.node.op) :], factors.elements, strict=True))

    def prepare(self, region: Graph, loop: Var) -> None:
        """Load, before the loop over `loop`, the operand elements that `region` reads and that do not vary with `loop`."""
        for _, (value, names) in self._used_elements(region):
            if not any(loop in variables(self.table[f]) for f in names):
                self._element(value, names)

    def value(self, region: Graph, *leading: Code) -> Code:
        """Write the computation of `region` and return the result. `leading`: registers of the region's first
        arguments.
        """
        evaluator = self.evaluator
        evaluator.producer.update((node.result, node) for node in region.nodes)
        registers = dict(zip(region.inputs, leading, strict=False))
        for argument, (value, names) in self._used_elements(region):
            registers[argument] = self._element(value, names)
        used = self._used(region)
        for argument, name in zip(region.inputs[len(region.inputs) - len(self.node.attrs.positions) :], self.node.attrs.positions, strict=True):  # fmt: skip
            if argument in used:
                registers[argument] = evaluator.index_value(self.table[name], "i32", "position")
        evaluator.placed.update((argument, ((), code)) for argument, code in registers.items())
        return evaluator.value(region.outputs[0], ())

    def inside(self, region: Graph, mask: Mask | None) -> Graph:
        """Return `region` specialized to rows and keys inside the bounds of `mask`, where the mask's comparisons are
        constant.
        """
        return region if mask is None else self.positions.where(region, mask.tests)

    def _used_elements(self, region: Graph) -> Iterator[tuple[Value, tuple[Value, Names]]]:
        """Yield the element arguments that `region` uses, each with its operand and factors."""
        used, count = self._used(region), len(self.node.attrs.positions) + len(self.elements)
        for argument, element in zip(region.inputs[len(region.inputs) - count :], self.elements, strict=False):
            if argument in used:
                yield argument, element

    def _used(self, region: Graph) -> set[Value]:
        return {*region.outputs, *(value for node in region.nodes for value in node.operands)}

    def _element(self, value: Value, names: Names) -> Code:
        return self.evaluator.value(value, tuple(self.table[f] for f in names))


def factored(region: Graph) -> tuple[Graph, float]:
    """Split a score function into a function without its last multiplication by a positive constant, and this constant.

    The attention kernel merges the constant into the exponent: it then scales the scores and subtracts the maximum
    with one multiplication and one subtraction.

    Returns:
        The remaining function and the constant. The constant is 1.0 if the function does not end with such a
        multiplication. It is 0.0, with the unchanged function, if the function adds to the scores or masks them: masked
        scores may be as large as floats can be, so the kernel must not scale them.
    """
    if not _is_plain(region):
        return region, 0.0
    producers = region.index.producers
    node = producers.get(region.outputs[0])
    if node is not None and node.op == "multiply":
        for inner, scale in (node.operands, node.operands[::-1]):
            if (factor := fixed_number(producers.get(scale))) is not None and 0 < factor < math.inf:
                return Graph(region.name, region.inputs, region.nodes, [inner]), factor
    return region, 1.0


def _is_plain(region: Graph) -> bool:
    """Whether the score function only scales, converts or caps (tanh) the scores, and neither adds to them nor masks
    any.
    """
    value, producers = region.outputs[0], region.index.producers
    while (node := producers.get(value)) is not None:
        non_constants = [v for v in node.operands[1:] if fixed_number(producers.get(v)) is None]
        if node.op not in _PLAIN or non_constants:
            return False
        value = node.operands[0]
    return value is region.inputs[0]
