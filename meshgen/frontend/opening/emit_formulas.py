"""Emit operations that compute formulas of input sizes at run time."""

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
    """A dim of a value from whose size a symbol can be computed: the size is `slope` * symbol + `offset`."""

    value: Value
    dim: int
    slope: int
    offset: int

    @property
    def is_plain(self) -> bool:
        """Whether the size equals the symbol."""
        return (self.slope, self.offset) == (1, 0)


def source_of(value: Value, dim: int, size: Expr) -> tuple[str, Source] | None:
    """Return the symbol that can be computed from the size of dim `dim` of `value`, and the dim as a `Source`.

    Returns None if `size` is not a linear function of exactly one symbol.
    """
    names = [*names_in(size)]
    if len(names) != 1:
        return None
    offset, at_one = size.at({names[0]: 0}), size.at({names[0]: 1})
    is_linear = size == Expr.symbol(names[0]) * Expr.of(at_one - offset) + Expr.of(offset)
    return (names[0], Source(value, dim, at_one - offset, offset)) if is_linear else None


def sources_of(values: Iterable[tuple[Value, Sequence[Expr]]]) -> dict[str, Source]:
    """Map each symbol to a dim from whose size it can be computed, preferably a dim whose size equals the symbol."""
    sources: dict[str, Source] = {}
    for value, sizes in values:
        for dim, size in enumerate(sizes):
            pair = source_of(value, dim, size)
            if pair and (pair[0] not in sources or (pair[1].is_plain and not sources[pair[0]].is_plain)):
                sources[pair[0]] = pair[1]
    return sources


class FormulaEmitter:
    """Emits formulas as values of the graph under construction. A formula that is used again is emitted only once."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self.sources = sources
        self._emitted: dict[object, Tensor] = {}

    def has(self, amount: Expr) -> bool:
        """Whether the formula `amount` can be computed: all of its symbols have a source."""
        return names_in(amount).keys() <= self.sources.keys()

    def scalar(self, amount: Expr) -> Tensor:
        """Return the value of the formula `amount` as i32[]. Raises KeyError for a symbol without a source."""
        if amount not in self._emitted:
            total: Tensor | None = None
            for factors, count in amount.terms:
                factor_values = [self._factor(factor) for factor in factors] + ([tensor(count, "i32")] if count != 1 or not factors else [])  # fmt: skip
                product = reduce(operator.mul, factor_values)
                total = product if total is None else total + product
            self._emitted[amount] = tensor(0, "i32") if total is None else total
        return self._emitted[amount]

    def vector(self, amounts: Sequence[Expr]) -> Tensor:
        """Return the values of several formulas as one i32 vector."""
        key = tuple(amounts)
        if key not in self._emitted:
            numbers = [amount.number for amount in amounts]
            if None in numbers:
                self._emitted[key] = stack([self.scalar(amount) for amount in amounts])
            else:
                self._emitted[key] = tensor(np.array(numbers, np.int32))
        return self._emitted[key]

    def size(self, value: Value, dim: int) -> Tensor:
        """Return the size of a dim of `value` as i32[]."""
        key = (value, dim)
        if key not in self._emitted:
            self._emitted[key] = emit("get_dimension_size", [Tensor(value)], TensorType((), "i32"), {"dim": dim})
        return self._emitted[key]

    def _factor(self, factor: Atom) -> Tensor:
        """Return the value of a factor of a formula: a symbol, or a quotient (rounded down) of positive formulas."""
        if isinstance(factor, str):
            return self._symbol(factor)
        operands = [self.scalar(factor.top), self.scalar(factor.bottom)]
        return emit("divide", operands, TensorType((), "i32"))

    def _symbol(self, name: str) -> Tensor:
        if name not in self._emitted:
            source = self.sources[name]
            size = self.size(source.value, source.dim)
            size = size - source.offset if source.offset else size
            is_plain = source.slope == 1
            self._emitted[name] = size if is_plain else emit("divide", [size, tensor(source.slope, "i32")], TensorType((), "i32"))  # fmt: skip
        return self._emitted[name]
