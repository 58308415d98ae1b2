"""Index code: the integer expressions, loops and branches of a kernel that decide which elements it loads and stores.

    tile = tl.program_id(0)                      Let("tile", program_id())
    i = tile * 64 + tl.arange(0, BLOCK)          Let("i", integer("tile") * 64 + lanes("BLOCK"))
    x = tl.load(x_ptr + i, mask=i < 100)         Touch("tl.load(x_ptr + i, mask=i < 100)", moved(integer("x_ptr"), "i"), integer("i").below(100))

Emitters build these expressions, from which the text of the kernel is printed and its accesses are proven (`bounds/`).
Everything else in a kernel is text that decides no address.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from meshgen.codegen import expr as ex
from meshgen.codegen.expr import Expr, Quotient, Remainder, Var
from meshgen.ops.triton.registers import both

_SUM, _PRODUCT, _SIGNED, _WHOLE = range(4)  # how tightly the outermost operation of a text binds
_LEVELS = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT}


@dataclass(frozen=True)
class Int:
    """An integer of a kernel, the same in all lanes or one per lane, or an address.

    Attributes:
        text: its source.
        op: "name", "number", "index" (an index expression), an operator, or the name of a function.
        args: operands of the operator or function.
        level: how tightly the outermost operation of `text` binds, which decides where brackets are written.
    """

    text: str
    op: str
    args: tuple[Any, ...] = ()
    level: int = _WHOLE

    def __str__(self) -> str:
        return self.text

    def __add__(self, other: Operand) -> Int:
        return _binary(self, "+", other)

    def __radd__(self, other: int) -> Int:
        return _binary(integer(other), "+", self)

    def __sub__(self, other: Operand) -> Int:
        return _binary(self, "-", other)

    def __rsub__(self, other: int) -> Int:
        return _binary(integer(other), "-", self)

    def __mul__(self, other: Operand) -> Int:
        return _binary(self, "*", other)

    def __rmul__(self, other: int) -> Int:
        return _binary(integer(other), "*", self)

    def __floordiv__(self, other: Operand) -> Int:
        return _binary(self, "//", other)

    def __mod__(self, other: Operand) -> Int:
        return _binary(self, "%", other)

    def to(self, kind: str) -> Int:
        """The integer in a register of a type, as `tl.int64`; unknown to proofs if that is not a type of integers."""
        return Int(f"{_within(self, _WHOLE)}.to({kind})", "to", (self, kind))

    def turned(self, side: str) -> Int:
        """One lane per row (`[:, None]`) or per column (`[None, :]`) of a tile; the integer itself for no side."""
        return Int(f"{_within(self, _WHOLE)}{side}", "turned", (self, side)) if side else self

    def bracketed(self) -> Int:
        """The integer in brackets, whether or not its text needs them."""
        return Int(f"({self.text})", self.op, self.args)

    def compared(self, relation: str, other: Operand) -> Condition:
        """The condition that the integer is `<`, `<=`, `==`, `>=` or `>` another one."""
        return Condition.of(f"{self} {relation} {other}", Comparison(self, relation, integer(other)))

    def below(self, other: Operand) -> Condition:
        return self.compared("<", other)


Operand: TypeAlias = "Int | Expr | int | str"


class Comparison(NamedTuple):
    left: Int
    relation: str
    right: Int


class Condition(str):
    """Source of a condition, with the comparisons that all hold where it does. Plain text says nothing.

    A condition that has a name is the name; what it stands for is in a `Let`.
    """

    comparisons: tuple[Comparison, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, text: str, *comparisons: Comparison, names: Iterable[str] = ()) -> Condition:
        found = cls(text)
        found.comparisons, found.names = comparisons, tuple(names)
        return found


def integer(value: Operand) -> Int:
    """An integer of Python, an index expression, or other source, of which nothing is known unless it is a name."""
    match value:
        case Int():
            return value
        case int():
            return Int(str(value), "number", (value,), _WHOLE if value >= 0 else _SIGNED)
        case Expr():
            return Int(ex.render(value), "index", (value,), _level(value))
        case _:
            return Int(value, "name", (value,)) if value.isidentifier() else Int(value, "data")


def _level(expr: Expr) -> int:
    if len(expr.terms) + bool(expr.const) > 1:
        return _SUM
    if not expr.terms:
        return _WHOLE if expr.const >= 0 else _SIGNED
    ((atom, factor),) = expr.terms
    if abs(factor) > 1 or not isinstance(atom, Var):
        return _PRODUCT
    return _WHOLE if factor > 0 else _SIGNED


def _within(value: Int, level: int) -> str:
    return value.text if value.level >= level else f"({value.text})"


def _binary(left: Int, op: str, right: Operand) -> Int:
    level, other = _LEVELS[op], integer(right)
    text = f"{_within(left, level)} {op} {_within(other, level + 1)}"
    return Int(text, op, (left, other), level)


def called(function: str, *args: Operand) -> Int:
    """`tl.function(args)`."""
    given = tuple(map(integer, args))
    return Int(f"tl.{function}({', '.join(each.text for each in given)})", function, given)


def minimum(left: Operand, right: Operand) -> Int:
    return called("minimum", left, right)


def maximum(left: Operand, right: Operand) -> Int:
    return called("maximum", left, right)


def clamped(value: Operand, low: int, high: Operand) -> Int:
    """The integer, or the nearest end of a range."""
    return minimum(maximum(value, low), high)


def where(condition: str, value: Operand, otherwise: Operand) -> Int:
    """One of two integers: proofs take either."""
    one, other = integer(value), integer(otherwise)
    return Int(f"tl.where({condition}, {one}, {other})", "where", (one, other))


def full_of(value: Operand, kind: str) -> Int:
    """The integer in all lanes, in a register of a type."""
    return Int(f"tl.full([], {value}, {kind})", "to", (integer(value), kind))


def lanes(count: Operand) -> Int:
    """0, 1, ... in the lanes of a program."""
    return Int(f"tl.arange(0, {count})", "arange", (integer(count),))


def program_id() -> Int:
    return Int("tl.program_id(0)", "program_id")


def moved(pointer: Int, offset: Operand) -> Int:
    """The address so many elements after another one: `pointer + a + b`, each summand added to the address."""
    return Int(f"{pointer} + {offset}", "moved", (pointer, integer(offset)), _SUM)


def summands(value: Int) -> Iterator[tuple[int, Int]]:
    """The summands of a text without the brackets around it, from the left, each with its sign."""
    match value.op, value.args:
        case "+" | "-", (left, right) if value.level == _SUM:
            yield from summands(left) if left.level == _SUM else [(1, left)]
            yield (1 if value.op == "+" else -1), right
        case "index", (Expr() as expr,) if value.level == _SUM:
            (first, factor), *rest = rendered_terms(expr)
            yield 1, integer(Expr(((first, factor),)))  # a sign before it belongs to it
            for atom, factor in rest:
                yield (1 if factor > 0 else -1), integer(Expr(((atom, abs(factor)),)))
            if expr.const:
                yield (1 if expr.const > 0 else -1), integer(abs(expr.const))
        case _:
            yield 1, value


def rendered_terms(expr: Expr) -> list[tuple[Var | Quotient | Remainder, int]]:
    """The terms in the order in which `expr.render` prints them."""
    return sorted(expr.terms, key=lambda term: -abs(term[1]))


def all_of(conditions: Iterable[str]) -> str:
    """All of the conditions as one; "" if there are none."""
    once = list(dict.fromkeys(conditions))
    known = [each for each in once if isinstance(each, Condition)]
    comparisons = [comparison for each in known for comparison in each.comparisons]
    names = [own for each in once for own in (each.names if isinstance(each, Condition) else _name_in(each))]
    return Condition.of(both(once), *comparisons, names=names)


def _name_in(text: str) -> tuple[str, ...]:
    return (text,) if text.isidentifier() else ()


# ---- statements


class Let(NamedTuple):
    """`target = value`."""

    target: str
    value: Int | Condition


class Advance(NamedTuple):
    """`target += by`: an address that moves on by as many elements in each iteration of a loop."""

    target: str
    by: Int


class Touch(NamedTuple):
    """A load or store of the element at an address, in the lanes where the mask holds.

    Attributes:
        text: the access in source.
    """

    text: str
    address: Int
    mask: str = ""


class Describe(NamedTuple):
    """A tensor descriptor: copies through it touch nothing outside of the tensor, so all of the tensor must be inside.

    Attributes:
        start: the address of the first element.
        sizes, strides: of each dim, strides in elements.
    """

    text: str
    start: Int
    sizes: tuple[Int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """`for target in range(*ends)`."""

    target: str
    ends: tuple[Int, ...]
    body: list[Statement] = field(default_factory=list["Statement"])


@dataclass(frozen=True)
class Branch:
    """`if test: body else: otherwise`, which all lanes of a program decide alike."""

    test: str
    body: list[Statement] = field(default_factory=list["Statement"])
    otherwise: list[Statement] = field(default_factory=list["Statement"])


Statement: TypeAlias = Let | Advance | Touch | Describe | Loop | Branch
