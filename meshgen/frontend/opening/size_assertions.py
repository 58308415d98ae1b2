"""Emit the constraints on open sizes as assertions, which each run checks when the sizes are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from meshgen.frontend.opening.emit_formulas import FormulaEmitter
from meshgen.frontend.opening.formula_text import UnknownFormulaError, computed
from meshgen.frontend.tracer.recording import current
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import Value
from meshgen.ir.symbols import Expr, names_in


@dataclass(frozen=True)
class Limit:
    """A constraint on sizes, such as `a <= 2*b`. `places` maps each word of `formula` to (input name, dim)."""

    formula: str
    places: Mapping[str, tuple[str, int]]


def assert_sizes(inputs: Sequence[Value], shapes: Sequence[Sequence[Expr]], amounts: FormulaEmitter,
                 ranges: Mapping[str, tuple[int, int | None]], limits: Sequence[Limit]) -> None:  # fmt: skip
    """Emit assertions: sizes with the same formula are equal, symbols are in their `ranges`, and `limits` hold."""
    first_dims: dict[str, tuple[Value, int]] = {}  # The first dim of each size, by the text of the size's formula.
    for value, shape in zip(inputs, shapes, strict=True):
        for dim, size in enumerate(shape):
            if size.number is not None or not amounts.has(size):
                continue
            actual = amounts.size(value, dim)
            if str(size) in first_dims:
                first_value, first_dim = first_dims[str(size)]
                _assert(actual == amounts.size(first_value, first_dim), f"dim {dim} of '{value.name}' is {{0}}, but dim {first_dim} of '{first_value.name}' is {{1}}", actual, amounts.size(first_value, first_dim))  # fmt: skip
                continue
            first_dims[str(size)] = value, dim
            if size != Expr.symbol(next(iter(names_in(size)))):
                _assert(actual == amounts.scalar(size), f"dim {dim} of '{value.name}' is {{0}}, but the program is for sizes of the form {size}", actual)  # fmt: skip
    for name, (low, high) in ranges.items():
        source = amounts.sources[name]
        lowest, highest = (None if n is None else n * source.slope + source.offset for n in (low or None, high))
        size, prefix = amounts.size(source.value, source.dim), f"dim {source.dim} of '{source.value.name}' is {{0}}, but the program is for"  # fmt: skip
        range_text = f"{lowest} to {highest}" if lowest is not None else f"{highest} at most"
        if lowest is not None:
            _assert(size >= lowest, f"{prefix} {range_text if highest is not None else f'{lowest} or more'}", size)
        if highest is not None:
            _assert(size <= highest, f"{prefix} {range_text}", size)
    by_name = {value.name: value for value in inputs}
    for limit in limits:
        _assert_limit(limit, by_name, amounts)


def _assert_limit(limit: Limit, inputs: Mapping[str, Value], amounts: FormulaEmitter) -> None:
    def leaf(word: str) -> Tensor:
        name, dim = limit.places[word]
        return amounts.size(inputs[name], dim)

    try:
        holds: Any = computed(limit.formula, leaf)
    except UnknownFormulaError:
        return  # The constraint is about more than tensor sizes, so the reader has not relied on it.
    sizes = [leaf(word) for word in limit.places]
    if isinstance(holds, Tensor):
        sizes_text = ", ".join(
            f"dim {dim} of '{name}' is {{{n}}}" for n, (name, dim) in enumerate(limit.places.values())
        )
        _assert(holds, f"{sizes_text}, but the program is for {limit.formula}", *sizes)


def _assert(holds: Tensor, message: str, *numbers: Tensor) -> None:
    trace = current()
    operands = [holds.value, *(number.value for number in numbers)]
    trace.graph.add("shape_assertion", operands, [], {"message": message}, loc=trace.at)
