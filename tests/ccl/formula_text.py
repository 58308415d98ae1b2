"""Evaluate the text of a volume formula independently of the formula classes."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from fractions import Fraction

from meshgen.mesh import Mesh

OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


def formula_value(text: str, mesh: Mesh) -> Fraction:
    """Return the value of the formula `text` with the axis sizes of `mesh`."""

    def walk(node: ast.expr) -> Fraction:
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](walk(node.left), walk(node.right))
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Name) and node.func.id == "ceil"
            return Fraction(math.ceil(walk(node.args[0])))
        if isinstance(node, ast.Name):
            return Fraction(mesh.axis_size(node.id.removeprefix("n_")))
        assert isinstance(node, ast.Constant) and isinstance(node.value, int)
        return Fraction(node.value)

    return walk(ast.parse(text, mode="eval").body)
