"""Index code: the integer expressions, loops and branches of a kernel that decide which elements it loads and stores.

    tile = tl.program_id(0)                 Let("tile", program_id())
    i = tile * 64 + tl.arange(0, BLOCK)     Let("i", integer("tile") * 64 + lanes("BLOCK"))
    x = tl.load(x_ptr + i, mask=i < 100)    Touch("tl.load(x_ptr + i, mask=i < 100)", moved(integer("x_ptr"), "i"),
                                                  integer("i").below(100))

Emitters build these expressions. The kernel source is printed from them, and its accesses are proven to be in bounds
(`bounds/`). All other parts of a kernel are plain text, which affects no address.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from meshgen.codegen import expr as ex
from meshgen.codegen.expr import Expr, Quotient, Remainder, Var
from meshgen.ops.triton.registers import both

# How tightly the outermost operation of a source text binds, from loosest to tightest.
_SUM, _PRODUCT, _SIGNED, _WHOLE = range(4)
_LEVELS = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT}


@dataclass(frozen=True)
class Int:
    """An integer of a kernel (uniform, or with one value per lane) or an address.

    Attributes:
        text: the source of the integer.
        op: "name", "number", "index" (an index expression), an operator, or the name of a function.
        args: operands of the operator or function.
        level: how tightly the outermost operation of `text` binds, which decides where parentheses are needed.
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
        """Convert the integer to the Triton type `kind`, such as `tl.int64`.

        If the type is not an integer type, proofs treat the result as unknown.
        """
        return Int(f"{_within(self, _WHOLE)}.to({kind})", "to", (self, kind))

    def turned(self, side: str) -> Int:
        """Shape the lanes as a column (`[:, None]`) or a row (`[None, :]`) of a tile, according to `side`.

        Returns the integer itself if `side` is empty.
        """
        return Int(f"{_within(self, _WHOLE)}{side}", "turned", (self, side)) if side else self

    def bracketed(self) -> Int:
        """Return the integer in parentheses, whether or not its text needs them."""
        return Int(f"({self.text})", self.op, self.args)

    def compared(self, relation: str, other: Operand) -> Condition:
        """Return the condition that the integer is less than, equal to, ... (`relation`) `other`."""
        return Condition.of(f"{self} {relation} {other}", Comparison(self, relation, integer(other)))

    def below(self, other: Operand) -> Condition:
        return self.compared("<", other)


Operand: TypeAlias = "Int | Expr | int | str"


class Comparison(NamedTuple):
    left: Int
    relation: str
    right: Int


class Condition(str):
    """The source of a condition, with comparisons that hold if the condition is true. A plain text has no comparisons.

    For a named condition, the source is the name. A `Let` then assigns the condition to this name.
    """

    comparisons: tuple[Comparison, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, text: str, *comparisons: Comparison, names: Iterable[str] = ()) -> Condition:
        condition = cls(text)
        condition.comparisons, condition.names = comparisons, tuple(names)
        return condition


def integer(value: Operand) -> Int:
    """Convert a Python integer, an index expression or other source to an `Int`.

    Source that is not a name is opaque to proofs.
    """
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
    """Return the call `tl.function(args)`."""
    operands = tuple(map(integer, args))
    return Int(f"tl.{function}({', '.join(operand.text for operand in operands)})", function, operands)


def minimum(left: Operand, right: Operand) -> Int:
    return called("minimum", left, right)


def maximum(left: Operand, right: Operand) -> Int:
    return called("maximum", left, right)


def clamped(value: Operand, low: int, high: Operand) -> Int:
    """Return the integer clamped to the range [low, high]."""
    return minimum(maximum(value, low), high)


def where(condition: str, value: Operand, otherwise: Operand) -> Int:
    """Return a select between two integers. Proofs consider both values possible."""
    if_true, if_false = integer(value), integer(otherwise)
    return Int(f"tl.where({condition}, {if_true}, {if_false})", "where", (if_true, if_false))


def full_of(value: Operand, kind: str) -> Int:
    """Return a register of type `kind` that holds the integer in all lanes."""
    return Int(f"tl.full([], {value}, {kind})", "to", (integer(value), kind))


def lanes(count: Operand) -> Int:
    """Return 0, 1, ..., count - 1, one per lane."""
    return Int(f"tl.arange(0, {count})", "arange", (integer(count),))


def program_id() -> Int:
    return Int("tl.program_id(0)", "program_id")


def moved(pointer: Int, offset: Operand) -> Int:
    """Return the address `offset` elements after `pointer`, adding the summands of `offset` to the address one by one."""
    return Int(f"{pointer} + {offset}", "moved", (pointer, integer(offset)), _SUM)


def summands(value: Int) -> Iterator[tuple[int, Int]]:
    """Yield the summands of an integer's source from left to right, each with its sign, ignoring parentheses around the
    sum.
    """
    match value.op, value.args:
        case "+" | "-", (left, right) if value.level == _SUM:
            yield from summands(left) if left.level == _SUM else [(1, left)]
            yield (1 if value.op == "+" else -1), right
        case "index", (Expr() as expr,) if value.level == _SUM:
            (first, factor), *rest = rendered_terms(expr)
            yield 1, integer(Expr(((first, factor),)))  # The factor of an index expression's term includes the sign.
            for atom, factor in rest:
                yield (1 if factor > 0 else -1), integer(Expr(((atom, abs(factor)),)))
            if expr.const:
                yield (1 if expr.const > 0 else -1), integer(abs(expr.const))
        case _:
            yield 1, value


def rendered_terms(expr: Expr) -> list[tuple[Var | Quotient | Remainder, int]]:
    """Return the terms in the order in which `expr.render` prints them."""
    return sorted(expr.terms, key=lambda term: -abs(term[1]))


def all_of(conditions: Iterable[str]) -> str:
    """Return the conjunction of the conditions, or "" if there are none."""
    unique = list(dict.fromkeys(conditions))
    structured = [condition for condition in unique if isinstance(condition, Condition)]
    comparisons = [comparison for condition in structured for comparison in condition.comparisons]
    names = [
        name
        for condition in unique
        for name in (condition.names if isinstance(condition, Condition) else _name_in(condition))
    ]
    return Condition.of(both(unique), *comparisons, names=names)


def _name_in(text: str) -> tuple[str, ...]:
    return (text,) if text.isidentifier() else ()


# ---- statements


class Let(NamedTuple):
    """The assignment `target = value`."""

    target: str
    value: Int | Condition


class Advance(NamedTuple):
    """The statement `target += by`: an address that advances by the same number of elements in each loop iteration."""

    target: str
    by: Int


class Touch(NamedTuple):
    """A load or store of the element at an address, in the lanes where the mask is true.

    Attributes:
        text: source of the load or store.
    """

    text: str
    address: Int
    mask: str = ""


class Describe(NamedTuple):
    """The creation of a TMA descriptor.

    Copies through a descriptor access nothing outside the described tensor, so the entire tensor must be in bounds.

    Attributes:
        start: address of the first element.
        sizes, strides: size of each dim, and elements between neighbors along each dim.
    """

    text: str
    start: Int
    sizes: tuple[Int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """The loop `for target in range(*ends)`."""

    target: str
    ends: tuple[Int, ...]
    body: list[Statement] = field(default_factory=list["Statement"])


@dataclass(frozen=True)
class Branch:
    """The branch `if test: body else: otherwise`. All lanes of a program take the same side."""

    test: str
    body: list[Statement] = field(default_factory=list["Statement"])
    otherwise: list[Statement] = field(default_factory=list["Statement"])


Statement: TypeAlias = Let | Advance | Touch | Describe | Loop | Branch
