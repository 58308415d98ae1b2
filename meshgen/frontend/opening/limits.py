"""What must hold of the sizes that a program leaves open, as assertions in it: they are checked once sizes are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from meshgen.frontend.opening.amounts import Amounts
from meshgen.frontend.opening.formulas import UnknownFormulaError, computed
from meshgen.frontend.tracer.recording import current
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import Value
from meshgen.ir.symbols import Expr, names_in


@dataclass(frozen=True)
class Limit:
    """A comparison of sizes: `places` has the input and the dim that each word of the formula means."""

    formula: str
    places: Mapping[str, tuple[str, int]]


def assert_sizes(inputs: Sequence[Value], shapes: Sequence[Sequence[Expr]], amounts: Amounts,
                 ranges: Mapping[str, tuple[int, int | None]], limits: Sequence[Limit]) -> None:  # fmt: skip
    """Assert that sizes of inputs agree with each other, are in the ranges of their symbols, and keep the limits."""
    places: dict[str, tuple[Value, int]] = {}  # by text of the formula: the first dim of this size
    for value, shape in zip(inputs, shapes, strict=True):
        for dim, size in enumerate(shape):
            if size.number is not None or not amounts.has(size):
                continue
            actual = amounts.size(value, dim)
            if str(size) in places:
                other, at = places[str(size)]
                _assert(actual == amounts.size(other, at), f"dim {dim} of '{value.name}' is {{0}}, but dim {at} of '{other.name}' is {{1}}", actual, amounts.size(other, at))  # fmt: skip
                continue
            places[str(size)] = value, dim
            if size != Expr.symbol(next(iter(names_in(size)))):
                _assert(actual == amounts.scalar(size), f"dim {dim} of '{value.name}' is {{0}}, but the program is for sizes of the form {size}", actual)  # fmt: skip
    for name, (low, high) in ranges.items():
        source = amounts.sources[name]
        least, most = (None if n is None else n * source.slope + source.offset for n in (low or None, high))
        size, said = amounts.size(source.value, source.dim), f"dim {source.dim} of '{source.value.name}' is {{0}}, but the program is for"  # fmt: skip
        words = f"{least} to {most}" if least is not None else f"{most} at most"
        if least is not None:
            _assert(size >= least, f"{said} {words if most is not None else f'{least} or more'}", size)
        if most is not None:
            _assert(size <= most, f"{said} {words}", size)
    by_name = {value.name: value for value in inputs}
    for limit in limits:
        _assert_limit(limit, by_name, amounts)


def _assert_limit(limit: Limit, inputs: Mapping[str, Value], amounts: Amounts) -> None:
    def leaf(word: str) -> Tensor:
        name, dim = limit.places[word]
        return amounts.size(inputs[name], dim)

    try:
        found: Any = computed(limit.formula, leaf)
    except UnknownFormulaError:
        return  # of other things than sizes of tensors; the program has been read without it
    words = [leaf(word) for word in limit.places]
    if isinstance(found, Tensor):
        said = ", ".join(f"dim {dim} of '{name}' is {{{n}}}" for n, (name, dim) in enumerate(limit.places.values()))
        _assert(found, f"{said}, but the program is for {limit.formula}", *words)


def _assert(holds: Tensor, message: str, *numbers: Tensor) -> None:
    trace = current()
    operands = [holds.value, *(each.value for each in numbers)]
    trace.graph.add("shape_assertion", operands, [], {"message": message}, loc=trace.at)
