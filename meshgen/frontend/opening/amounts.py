"""Sizes as values of a program: formulas of the sizes that its inputs have."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from meshgen.frontend.tracer.joining import stack
from meshgen.frontend.tracer.operands import emit, tensor
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import TensorType, Value
from meshgen.ir.symbols import Atom, Expr, names_in


@dataclass(frozen=True)
class Source:
    """Where the number of a symbol is found: a dim of a value, whose size is `slope` times the symbol and `offset` more."""

    value: Value
    dim: int
    slope: int
    offset: int

    @property
    def is_plain(self) -> bool:
        """Whether the size is the number of the symbol itself."""
        return (self.slope, self.offset) == (1, 0)


def source_of(value: Value, dim: int, size: Expr) -> tuple[str, Source] | None:
    """The symbol whose number a dim of this size tells; None where it tells that of none."""
    names = [*names_in(size)]
    if len(names) != 1:
        return None
    offset, first = size.at({names[0]: 0}), size.at({names[0]: 1})
    is_line = size == Expr.symbol(names[0]) * Expr.of(first - offset) + Expr.of(offset)
    return (names[0], Source(value, dim, first - offset, offset)) if is_line else None


def sources_of(values: Iterable[tuple[Value, Sequence[Expr]]]) -> dict[str, Source]:
    """A source for each symbol that the sizes of values tell: a dim that is the symbol itself, where there is one."""
    found: dict[str, Source] = {}
    for value, sizes in values:
        for dim, size in enumerate(sizes):
            pair = source_of(value, dim, size)
            if pair and (pair[0] not in found or (pair[1].is_plain and not found[pair[0]].is_plain)):
                found[pair[0]] = pair[1]
    return found


class Amounts:
    """Formulas as values of the graph that is being recorded; equal ones are computed once."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self.sources = sources
        self._made: dict[object, Tensor] = {}

    def has(self, amount: Expr) -> bool:
        """Whether all its symbols have a source."""
        return names_in(amount).keys() <= self.sources.keys()

    def scalar(self, amount: Expr) -> Tensor:
        """The number as i32[]. Raises KeyError for a symbol without a source."""
        if amount not in self._made:
            found: Tensor | None = None
            for factors, count in amount.terms:
                parts = [self._factor(each) for each in factors] + ([tensor(count, "i32")] if count != 1 or not factors else [])  # fmt: skip
                product = reduce(operator.mul, parts)
                found = product if found is None else found + product
            self._made[amount] = tensor(0, "i32") if found is None else found
        return self._made[amount]

    def vector(self, amounts: Sequence[Expr]) -> Tensor:
        """The numbers as a list of i32."""
        key = tuple(amounts)
        if key not in self._made:
            numbers = [each.number for each in amounts]
            if None in numbers:
                self._made[key] = stack([self.scalar(each) for each in amounts])
            else:
                self._made[key] = tensor(np.array(numbers, np.int32))
        return self._made[key]

    def size(self, value: Value, dim: int) -> Tensor:
        """The size of a dim of a value."""
        key = (value, dim)
        if key not in self._made:
            self._made[key] = emit("get_dimension_size", [Tensor(value)], TensorType((), "i32"), {"dim": dim})
        return self._made[key]

    def _factor(self, factor: Atom) -> Tensor:
        """A symbol, or a quotient of positive numbers."""
        if isinstance(factor, str):
            return self._symbol(factor)
        operands = [self.scalar(factor.top), self.scalar(factor.bottom)]
        return emit("divide", operands, TensorType((), "i32"))

    def _symbol(self, name: str) -> Tensor:
        if name not in self._made:
            source = self.sources[name]
            size = self.size(source.value, source.dim)
            size = size - source.offset if source.offset else size
            is_plain = source.slope == 1
            self._made[name] = size if is_plain else emit("divide", [size, tensor(source.slope, "i32")], TensorType((), "i32"))  # fmt: skip
        return self._made[name]
