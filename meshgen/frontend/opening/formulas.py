"""Formulas of sizes, read from the texts in which exporters write them."""

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
# Calls in what sympy writes: `Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(-1))`.
_CALLS: dict[str, Callable[..., Any]] = {
    "Integer": int, "Add": lambda *xs: reduce(bounded(operator.add), xs), "Mul": lambda *xs: reduce(bounded(operator.mul), xs),
    "Pow": power, "FloorDiv": operator.floordiv, "Mod": operator.mod, "PythonMod": operator.mod, "Max": max, "Min": min,
}  # fmt: skip


_MAX_CHARACTERS = 10_000  # of a formula: exporters write a few terms


class UnknownFormulaError(ValueError):
    """A text that is not a formula of sizes, or one of a size that is not known."""


def computed(text: str, leaf: Callable[[str], Any]) -> Any:
    """The value of a formula. `leaf` gives that of a symbol, or of another text that stands for a size, or raises KeyError.

    Raises:
        UnknownFormulaError: the text is not a formula, or `leaf` does not know one of its symbols.
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
            return _CALLS[node.func.id](*(_value(each, leaf) for each in node.args))
    return leaf(ast.unparse(node))


def symbols_in(text: str) -> list[str]:
    """The symbols of a formula, in order. Raises UnknownFormulaError."""
    found: dict[str, None] = {}

    def leaf(name: str) -> int:
        if not name.isidentifier():
            raise KeyError(name)
        found[name] = None
        return 2

    computed(text, leaf)
    return [*found]


def solved(text: str, symbol: str, size: int) -> int | None:
    """What the only symbol of a formula `a*s + c` stands for where it has this value; None where that is not a whole number."""
    at = lambda number: computed(text, {symbol: number}.__getitem__)  # noqa: E731
    slope = at(3) - at(2)
    number, rest = divmod(size - at(2), slope) if slope else (0, 1)
    return None if rest or at(number + 2) != size else number + 2
