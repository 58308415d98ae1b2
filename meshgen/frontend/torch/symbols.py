"""Sizes that an exported program leaves open: as `args` give them, `s0` of `torch.export.Dim("batch")` is 8; else their ranges and guards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from meshgen.errors import Diagnostic, UsageError
from meshgen.frontend.arguments import Args
from meshgen.frontend.opening.formulas import UnknownFormulaError, solved, symbols_in
from meshgen.frontend.opening.limits import Limit
from meshgen.frontend.torch.document import Json, only, size_of
from meshgen.frontend.tracer import spec

_SIZE = re.compile(r"L\['(\w+)'\]\.size\(\)\[(\d+)\]")  # of an input, in a guard


def symbols_of(document: Json, inputs: Sequence[str], args: Args) -> dict[str, int]:
    """The number of each symbol that args give. Raises UsageError MG0001 for args that do not fit the program, or its ranges."""
    found: dict[str, int] = {}
    if args is None:
        return found
    values: Json = document["graph_module"]["graph"]["tensor_values"]
    faults: list[str] = []
    rows: list[tuple[str, int, Json, int]] = []
    for name, given in _given_inputs(args, inputs):
        if name not in values:
            faults.append(f"unknown input '{name}'")
            continue
        sizes = values[name]["sizes"]
        shape = given if isinstance(given, tuple | list) else spec(given).shape
        if len(cast("Sequence[int]", shape)) != len(sizes):
            faults.append(f"'{name}' has {len(sizes)} dims, but its args have {len(shape)}")
            continue
        for dim, (size, number) in enumerate(zip(sizes, shape, strict=True)):
            rows += [] if number is None else [(name, dim, size, number)]
    for _, _, size, number in rows:
        text = _formula(size)
        if len(names := _names(text)) == 1 and (value := solved(text, names[0], number)) is not None:
            found.setdefault(names[0], value)
    for name, dim, size, number in rows:
        known = size_of(size, found)
        if known != number:
            wanted = f"size {known}" if known is not None else f"a size of the form {_formula(size)}"
            faults.append(f"dim {dim} of '{name}' has {wanted} in the program, but its args have {number}")
    for symbol, (low, high) in _ranges(document).items():
        if symbol in found and not low <= found[symbol] <= (found[symbol] if high is None else high):
            faults.append(f"{symbol} is {found[symbol]}, but the program is for {low} to {high}")
    if faults:
        raise UsageError(*(Diagnostic("MG0001", text) for text in faults))
    return found


def open_ranges(document: Json, inputs: Sequence[str], known: Mapping[str, int]) -> dict[str, tuple[int, int | None]]:
    """The symbols in sizes of inputs that are not known, with the least and the largest number of each (None: any)."""
    values: Json = document["graph_module"]["graph"]["tensor_values"]
    sizes = [size for name in inputs if name in values for size in values[name]["sizes"]]
    names = dict.fromkeys(name for size in sizes for name in _names(_formula(size)) if name not in known)
    ranges = _ranges(document)
    return {name: ranges.get(name, (0, None)) for name in names}


def guards_of(document: Json) -> Iterator[Limit]:
    """The comparisons of sizes of inputs under which torch has exported the program."""
    for text in document.get("guards_code") or ():
        places = {f"{name}_{dim}": (name, int(dim)) for name, dim in _SIZE.findall(text)}
        formula = _SIZE.sub(r"\1_\2", text)
        if _names(formula) and places.keys() == {*_names(formula)}:
            yield Limit(formula, places)


def _formula(size: Json) -> str:
    kind, value = only(size)
    return str(value) if kind == "as_int" else value["expr_str"]


def _names(text: str) -> list[str]:
    """The symbols of a formula; none of a text that is not one."""
    try:
        return symbols_in(text)
    except UnknownFormulaError:
        return []


def _ranges(document: Json) -> dict[str, tuple[int, int | None]]:
    table = document.get("range_constraints") or {}
    return {name: (max(each.get("min_val") or 0, 0), each.get("max_val")) for name, each in table.items()}


def _given_inputs(args: Any, inputs: Sequence[str]) -> list[tuple[str, Any]]:
    """Inputs and what is given for them, by name or in order; None keeps the program's."""
    pairs = args.items() if isinstance(args, Mapping) else zip([n for n in inputs if n], args, strict=False)
    return [(str(name), given) for name, given in cast("Any", pairs) if given is not None]
