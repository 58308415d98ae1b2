"""Sizes that an exported program leaves open, as `args` give them: `s0` of `torch.export.Dim("batch")` is 8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from meshgen.errors import Diagnostic, UsageError
from meshgen.frontend.arguments import Args
from meshgen.frontend.torch.document import Json, only, symbol_of
from meshgen.frontend.tracer import spec


def symbols_of(document: Json, inputs: Sequence[str], args: Args) -> dict[str, int]:
    """The number of each symbol. Raises UsageError MG0001 for args that do not fit the program, or its ranges."""
    found: dict[str, int] = {}
    if args is None:
        return found
    values: Json = document["graph_module"]["graph"]["tensor_values"]
    pairs = _pairs(args, inputs)
    faults: list[str] = []
    for name, given in pairs:
        if name not in values:
            faults.append(f"unknown input '{name}'")
            continue
        sizes = values[name]["sizes"]
        shape = given if isinstance(given, tuple | list) else spec(given).shape
        if len(cast("Sequence[int]", shape)) != len(sizes):
            faults.append(f"'{name}' has {len(sizes)} dims, but its args have {len(shape)}")
            continue
        for dim, (size, number) in enumerate(zip(sizes, shape, strict=True)):
            kind, value = only(size)
            if number is None:
                continue
            known = value if kind == "as_int" else found.setdefault(symbol_of(value["expr_str"]), number)
            if known != number:
                faults.append(f"dim {dim} of '{name}' has size {known} in the program, but its args have {number}")
    for symbol, allowed in (document.get("range_constraints") or {}).items():
        low, high = (allowed.get(each) for each in ("min_val", "max_val"))
        if symbol in found and not (low or 0) <= found[symbol] <= (high or found[symbol]):
            faults.append(f"{symbol} is {found[symbol]}, but the program is for {low} to {high}")
    if faults:
        raise UsageError(*(Diagnostic("MG0001", text) for text in faults))
    return found


def _pairs(args: Any, inputs: Sequence[str]) -> list[tuple[str, Any]]:
    """Inputs and what is given for them, by name or in order; None keeps the program's."""
    pairs = args.items() if isinstance(args, Mapping) else zip([n for n in inputs if n], args, strict=False)
    return [(str(name), given) for name, given in cast("Any", pairs) if given is not None]
