"""Evaluate formulas of sizes in the text forms that exporters write."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

from meshgen.budget import bounded, power
from meshgen.errors import ProgramError

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: bounded(operator.add), ast.Sub: bounded(operator.sub), ast.Mult: bounded(operator.mul),
    ast.FloorDiv: bounded(operator.floordiv), ast.Mod: operator.mod, ast.Pow: power, ast.USub: operator.neg, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
# Calls that sympy prints: `Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(-1))`.
_CALLS: dict[str, Callable[..., Any]] = {
    "Integer": int, "Add": lambda *xs: reduce(bounded(operator.add), xs), "Mul": lambda *xs: reduce(bounded(operator.mul), xs),
    "Pow": power, "FloorDiv": operator.floordiv, "Mod": operator.mod, "PythonMod": operator.mod, "Max": max, "Min": min,
}  # fmt: skip


_MAX_CHARACTERS = 10_000  # Characters of the longest formula. Chosen: exporters write a few terms.


class UnknownFormulaError(ValueError):
    """Error for a text that is not a formula of sizes, or that refers to an unknown symbol."""


def computed(text: str, leaf: Callable[[str], Any]) -> Any:
    """Return the value of the formula `text`.

    Args:
        leaf: returns the value of a symbol or of another text that stands for a size; raises KeyError for others.

    Raises:
        UnknownFormulaError: the text is not a formula, or `leaf` raises KeyError for a symbol.
        ProgramError: MG0108, an integer has more than 64 bits.
    """
    if len(text) > _MAX_CHARACTERS:
        raise UnknownFormulaError(f"{text[:40]}...")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, leaf)
    except ProgramError as error:
        (fault,) = error.diagnostics
        raise ProgramError(replace(fault, message=f"the size '{text:.80}' is too large: {fault.message}")) from error
    except (ArithmeticError, KeyError, MemoryError, SyntaxError, TypeError, ValueError, RecursionError) as error:
        raise UnknownFormulaError(text) from error


def _value(node: ast.expr, leaf: Callable[[str], Any]) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_value(node.operand, leaf))
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left, leaf), _value(node.right, leaf))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _OPERATORS[type(node.ops[0])](_value(node.left, leaf), _value(node.comparators[0], leaf))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "Symbol":
            return leaf(ast.literal_eval(node.args[0]))
        if node.func.id in _CALLS:
            return _CALLS[node.func.id](*(_value(arg, leaf) for arg in node.args))
    return leaf(ast.unparse(node))


def symbols_in(text: str) -> list[str]:
    """Return the symbols of a formula, in order of appearance. Raises UnknownFormulaError if `text` is not a formula."""
    symbols: dict[str, None] = {}

    def leaf(name: str) -> int:
        if not name.isidentifier():
            raise KeyError(name)
        symbols[name] = None
        return 2

    computed(text, leaf)
    return [*symbols]


def solved(text: str, symbol: str, size: int) -> int | None:
    """Return the value of `symbol` for which the formula `text` equals `size`. The formula has the form `a*s + c`.

    Returns None if the value is not an integer.
    """
    at = lambda steps: computed(text, {symbol: steps}.__getitem__)  # noqa: E731
    slope = at(3) - at(2)
    steps, remainder = divmod(size - at(2), slope) if slope else (0, 1)
    return None if remainder or at(steps + 2) != size else steps + 2
