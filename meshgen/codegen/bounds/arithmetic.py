"""Abstract interpretation of integer operations in registers, on index expressions and ranges."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from meshgen.codegen import expr as ex
from meshgen.codegen.bounds.ranges import Ranges
from meshgen.codegen.bounds.values import FAR, Condition, Exact, Fact, Known, Need, Number, Pointer, fits, limits
from meshgen.codegen.expr import Expr, Var

# Most programs for which the value of a uniform variable is computed in each program. Chosen: 8 MiB per variable.
_MOST_PROGRAMS = 2**20
_MOST_EXACT = 2**31  # the product of two numbers up to this magnitude is exact in 64 bits
_BITS = {"tl.int32": 32, "tl.int64": 64}
_NOTHING_HOLDS = Ranges()


class Arithmetic:
    """Creates variables and records their definitions.

    Attributes:
        definitions: the value of each variable that names an expression.
        exact: the value in each program, for variables that only the program id determines.
    """

    def __init__(self) -> None:
        self.definitions: dict[Var, Number] = {}
        self.exact: dict[Var, Exact] = {}
        self._same: set[Var] = set()  # variables that are uniform: equal in all lanes of a program
        self._loops: set[Var] = set()  # loop counters, and variables that name expressions of them
        # variables that name expressions whose value may be wrong in lanes that a mask disables
        self._doubtful: set[Var] = set()
        self._count = 0

    # ---- variables

    def _variable(self, text: str, low: int, high: int) -> Var:
        self._count += 1
        return Var(f"{text}#{self._count}", low, high)

    def uniform(self, text: str, low: int, high: int, is_loop: bool = False) -> Expr:
        """Return a new uniform variable with the range [low, high]: an argument, or (`is_loop`) a loop counter."""
        var = self._variable(text, low, high)
        self._same.add(var)
        if is_loop:
            self._loops.add(var)
        return ex.constant(low) if low == high else Expr(((var, 1),))

    def unknown(self, bits: int, low: int = -FAR, high: int = FAR) -> Number:
        """Return a new variable for an unknown number of `bits` bits that may differ between lanes."""
        ends = limits(bits)
        return Number(Expr(((self._variable("any", max(low, ends[0]), min(high, ends[1])), 1),)), bits)

    def programs(self, count: int) -> Number:
        """Return the program id in a grid of `count` programs."""
        if count > _MOST_PROGRAMS:
            return Number(self.uniform("program", 0, count - 1), 32)
        return self._of_programs(np.arange(count, dtype=np.int64), 32)

    def _of_programs(self, exact: Exact, bits: int) -> Number:
        expr = self.uniform("program", int(exact.min()), int(exact.max()))
        self.exact.update(dict.fromkeys(ex.variables(expr), exact))
        return Number(expr, bits, (), exact)

    def named(self, name: str, value: Known) -> Known:
        """Return a new variable that names the value of an assignment, or the value itself if it is a variable or a
        constant.
        """
        if not isinstance(value, Number) or value.expr.is_constant:
            return value
        (first, factor), *further_terms = value.expr.terms
        if isinstance(first, Var) and factor == 1 and not further_terms and not value.expr.const:
            return value
        is_sure = value.exact is not None or _holds(fits(value))
        low, high = self.sure(value)
        var = self._variable(name, low, high)
        self.definitions[var] = value
        inner = ex.variables(value.expr)
        if not is_sure:
            self._doubtful.add(var)
        if any(v in self._loops for v in inner):
            self._loops.add(var)
        if all(v in self._same for v in inner):
            self._same.add(var)
        return Number(Expr(((var, 1),)), value.bits, (), value.exact)

    def choices(self) -> Sequence[Callable[[Var], bool]]:
        """Return predicates on variables that select the definitions to expand if ranges do not suffice, fewest first."""
        return (
            lambda v: v in self._doubtful,
            lambda v: v in self._doubtful or v in self._loops,
            lambda v: True,
        )

    # ---- operations

    def combined(self, left: Number, op: str, right: Number) -> Known:
        """Return the result of a binary operation."""
        bits = max(left.bits, right.bits)
        low, high = limits(bits)
        exact = _exact(left, op, right)
        if exact is not None and not (low <= exact.min() and exact.max() <= high):
            exact = None
        needs = _widened(left, right)
        match op:
            case "+":
                return Number(left.expr + right.expr, bits, needs, exact)
            case "-":
                return Number(left.expr - right.expr, bits, needs, exact)
            case "*" if right.expr.is_constant or left.expr.is_constant:
                one, other = (left, right) if right.expr.is_constant else (right, left)
                return Number(one.expr * other.expr.const, bits, needs, exact)
            case "//" | "%" if right.expr.is_constant and right.expr.const > 0:
                by, dividend_need = right.expr.const, Need(left.expr, 0, high)
                result = left.expr // by if op == "//" else left.expr % by
                is_sure = left.exact is not None and left.exact.min() >= 0
                return Number(result, bits, needs if is_sure else tuple(dict.fromkeys((*needs, dividend_need))), exact)
            case _ if exact is not None:
                return self._of_programs(exact, bits)
            case _:
                return self.unknown(bits)

    def converted(self, value: Known, kind: str) -> Known:
        """Return the result of `value.to(kind)`."""
        if kind not in _BITS:
            return None
        bits = _BITS[kind]
        if not isinstance(value, Number):
            return self.unknown(bits)
        if value.bits in (0, bits) or bits > value.bits:
            return Number(value.expr, bits, fits(value), value.exact)
        return (
            Number(value.expr, bits, value.needs) if _holds((Need(value.expr, *limits(bits)),)) else self.unknown(bits)
        )

    def compared(self, left: Known, op: str, right: Known) -> Condition:
        """Return the condition of a comparison. It has no facts if the operands are not numbers."""
        if not isinstance(left, Number) or not isinstance(right, Number) or op not in _COMPARED:
            return Condition()
        low, high = _COMPARED[op]
        return Condition((Fact(left.expr - right.expr, low, high, tuple(dict.fromkeys((*fits(left), *fits(right))))),))

    def narrowed(self, number: Number, op: str, bound: int) -> Number:
        """Return `number` with its range narrowed for a program in which `number op bound` holds.

        Returns `number` itself if it differs between lanes, or if the comparison never holds.
        """
        if op not in _COMPARED or not all(v in self._same for v in ex.variables(number.expr)):
            return number
        low, high = (bound + end for end in _COMPARED[op])
        if number.exact is not None:
            inside = number.exact[(number.exact >= low) & (number.exact <= high)]
            return self._of_programs(inside, number.bits) if inside.size else number
        least, most = self.sure(number)
        low, high = max(low, least), min(high, most)
        return Number(self.uniform("program", low, high), number.bits) if low <= high else number

    def extremum(self, left: Known, right: Known, least: bool) -> Known:
        """Return the result of `tl.minimum` (`least`) or `tl.maximum`. A bound of one operand suffices to bound the
        result.
        """
        pick = min if least else max
        if not isinstance(left, Number) or not isinstance(right, Number):
            return None
        bits, a, b = max(left.bits, right.bits), _in_each_program(left), _in_each_program(right)
        if a is not None and b is not None:
            return self._of_programs(np.atleast_1d(np.minimum(a, b) if least else np.maximum(a, b)), bits)
        (low, high), (other_low, other_high) = self.sure(left), self.sure(right)
        return self.unknown(bits, pick(low, other_low), pick(high, other_high))

    def hull(self, left: Known, right: Known) -> Known:
        """Return an unknown number in the smallest range that contains both numbers."""
        if not isinstance(left, Number) or not isinstance(right, Number):
            return None
        (a, b), (c, d) = self.sure(left), self.sure(right)
        return self.unknown(max(left.bits, right.bits), min(a, c), max(b, d))

    def sure(self, number: Number) -> tuple[int, int]:
        """Return the range of a number over all lanes, including lanes that a mask disables."""
        if number.exact is not None:
            return int(number.exact.min()), int(number.exact.max())
        return ex.bounds(number.expr) if _holds(fits(number)) else limits(number.bits)

    def turned(self, value: Known, side: str) -> Known:
        """Return `value[:, None]` or `value[None, :]`. Lanes along one side of a tile are independent of lanes along
        the other side.
        """
        if isinstance(value, Number):
            return Number(
                self._turn(value.expr, side),
                value.bits,
                tuple(self._turn_need(n, side) for n in value.needs),
                value.exact,
            )
        if isinstance(value, Pointer):
            return Pointer(
                value.names, self._turn(value.offset, side), tuple(self._turn_need(n, side) for n in value.needs)
            )
        return Condition() if isinstance(value, Condition) else None

    def _turn_need(self, need: Need, side: str) -> Need:
        return Need(self._turn(need.expr, side), need.low, need.high)

    def _turn(self, expr: Expr, side: str) -> Expr:
        table: dict[Var, Expr] = {}
        for var in ex.variables(expr):
            if var in self._same:
                continue
            turned_var = Var(f"{var.text}{side}", var.low, var.high)
            table[var] = Expr(((turned_var, 1),))
            if var in self.definitions and turned_var not in self.definitions:
                value = self.turned(self.definitions[var], side)
                assert isinstance(value, Number)
                self.definitions[turned_var] = value
                for kinds in (self._loops, self._doubtful):
                    kinds.update({turned_var} if var in kinds else ())
        return ex.substitute(expr, table)


_COMPARED = {"<": (-FAR, -1), "<=": (-FAR, 0), ">": (1, FAR), ">=": (0, FAR), "==": (0, 0)}


def _widened(left: Number, right: Number) -> tuple[Need, ...]:
    """Return the needs of the two operands of an operation.

    If one operand has 64 bits, the 32-bit operand must not have wrapped before it is widened.
    """
    sides = [fits(n) if n.bits < max(left.bits, right.bits) else n.needs for n in (left, right)]
    return tuple(dict.fromkeys((*sides[0], *sides[1])))


def _holds(needs: Sequence[Need]) -> bool:
    """Whether all needs are met in all lanes, including lanes that masks disable."""
    return all(_NOTHING_HOLDS.holds(need) for need in needs)


def _in_each_program(number: Number) -> Exact | None:
    """Return the number's value in each program.

    Returns None if it depends on more than the program id, or if products of such numbers could overflow 64 bits.
    """
    if number.expr.is_constant:
        return np.asarray(number.expr.const, np.int64) if abs(number.expr.const) <= _MOST_EXACT else None
    return number.exact if number.exact is not None and np.abs(number.exact).max() <= _MOST_EXACT else None


def _exact(left: Number, op: str, right: Number) -> Exact | None:
    """Return the result of an operation in each program as a GPU computes it, but without wrapping.

    Returns None if the result is not known exactly.
    """
    a, b = _in_each_program(left), _in_each_program(right)
    if a is None or b is None or (left.exact is None and right.exact is None):
        return None
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//" | "%" if (b != 0).all():
            quotient = np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)
            return quotient if op == "//" else a - quotient * b
        case _:
            return None
