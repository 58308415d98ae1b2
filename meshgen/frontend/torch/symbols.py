"""Symbolic sizes of an exported program, such as `s0` of `torch.export.Dim("batch")`.

They get values from `args`, or stay open within the ranges and guards that torch records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from meshgen.errors import Diagnostic, UsageError
from meshgen.frontend.arguments import Args
from meshgen.frontend.opening.formula_text import UnknownFormulaError, solved, symbols_in
from meshgen.frontend.opening.size_assertions import Limit
from meshgen.frontend.torch.document import Json, only, size_of
from meshgen.frontend.tracer import spec

_SIZE = re.compile(r"L\['(\w+)'\]\.size\(\)\[(\d+)\]")  # How a guard writes the size of an input's dim.


def symbols_of(document: Json, inputs: Sequence[str], args: Args) -> dict[str, int]:
    """Return the values of the symbols that the shapes in `args` determine.

    Raises UsageError MG0001 for shapes that do not fit the program or the ranges of its symbols.
    """
    solutions: dict[str, int] = {}
    if args is None:
        return solutions
    values: Json = document["graph_module"]["graph"]["tensor_values"]
    faults: list[str] = []
    sized_dims: list[tuple[str, int, Json, int]] = []
    for name, argument in _given_inputs(args, inputs):
        if name not in values:
            faults.append(f"unknown input '{name}'")
            continue
        sizes = values[name]["sizes"]
        shape = argument if isinstance(argument, tuple | list) else spec(argument).shape
        if len(cast("Sequence[int]", shape)) != len(sizes):
            faults.append(f"'{name}' has {len(sizes)} dims, but its args have {len(shape)}")
            continue
        for dim, (size, actual) in enumerate(zip(sizes, shape, strict=True)):
            sized_dims += [] if actual is None else [(name, dim, size, actual)]
    for _, _, size, actual in sized_dims:
        text = _formula(size)
        if len(names := _names(text)) == 1 and (value := solved(text, names[0], actual)) is not None:
            solutions.setdefault(names[0], value)
    for name, dim, size, actual in sized_dims:
        expected = size_of(size, solutions)
        if expected != actual:
            expectation = f"size {expected}" if expected is not None else f"a size of the form {_formula(size)}"
            faults.append(f"dim {dim} of '{name}' has {expectation} in the program, but its args have {actual}")
    for symbol, (low, high) in _ranges(document).items():
        if symbol in solutions and not low <= solutions[symbol] <= (solutions[symbol] if high is None else high):
            faults.append(f"{symbol} is {solutions[symbol]}, but the program is for {low} to {high}")
    if faults:
        raise UsageError(*(Diagnostic("MG0001", text) for text in faults))
    return solutions


def open_ranges(
    document: Json, inputs: Sequence[str], values_by_symbol: Mapping[str, int]
) -> dict[str, tuple[int, int | None]]:
    """Map each symbol in input sizes without a value to its range: (minimum, maximum), with None if unbounded."""
    values: Json = document["graph_module"]["graph"]["tensor_values"]
    sizes = [size for name in inputs if name in values for size in values[name]["sizes"]]
    names = dict.fromkeys(name for size in sizes for name in _names(_formula(size)) if name not in values_by_symbol)
    ranges = _ranges(document)
    return {name: ranges.get(name, (0, None)) for name in names}


def guards_of(document: Json) -> Iterator[Limit]:
    """Yield the conditions on input sizes that torch assumed when it exported the program, such as s0 <= 2 * s1."""
    for text in document.get("guards_code") or ():
        dims = {f"{name}_{dim}": (name, int(dim)) for name, dim in _SIZE.findall(text)}
        formula = _SIZE.sub(r"\1_\2", text)
        if _names(formula) and dims.keys() == {*_names(formula)}:
            yield Limit(formula, dims)


def _formula(size: Json) -> str:
    kind, value = only(size)
    return str(value) if kind == "as_int" else value["expr_str"]


def _names(text: str) -> list[str]:
    """Return the symbols of a formula, or an empty list if `text` is not a formula."""
    try:
        return symbols_in(text)
    except UnknownFormulaError:
        return []


def _ranges(document: Json) -> dict[str, tuple[int, int | None]]:
    table = document.get("range_constraints") or {}
    return {
        name: (max(constraint.get("min_val") or 0, 0), constraint.get("max_val")) for name, constraint in table.items()
    }


def _given_inputs(args: Any, inputs: Sequence[str]) -> list[tuple[str, Any]]:
    """Return (input name, argument) for each entry of `args`, a list in order or a dict. Arguments None are omitted."""
    pairs = args.items() if isinstance(args, Mapping) else zip([n for n in inputs if n], args, strict=False)
    return [(str(name), argument) for name, argument in cast("Any", pairs) if argument is not None]
