"""Values of inputs that are given while a program is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from meshgen.errors import Diagnostic, UsageError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Constant:
    """The value of an input, as `mg.constant` makes it."""

    array: Array

    def __repr__(self) -> str:
        return f"constant({self.array.tolist()!r:.60})"


def constant(value: Any) -> Constant:
    """Return the value of an input of an ONNX model, for `args`: the input becomes a constant of the program.

    Shapes may then depend on it, and branches that it decides against are not read: `args={"axes": mg.constant([0, 2])}`. A number
    of Python needs no `constant`.

    Raises:
        UsageError: MG0001, the value is not an array of numbers.
    """
    array = np.asarray(value)
    if array.dtype.kind not in "biufc" and array.dtype.isbuiltin != 2:
        hint = "give numbers, a list of numbers, or an array"
        raise UsageError(Diagnostic("MG0001", f"{value!r:.60} is not an array of numbers", hint=hint))
    return Constant(array)


def constant_of(given: Any) -> Array | None:
    """The array of a constant or of a number of Python; None for types, shapes and examples."""
    if isinstance(given, Constant):
        return given.array
    return constant(given).array if isinstance(given, (bool, int, float)) else None


def refuse_constants(args: Sequence[Any] | Mapping[str, Any] | None) -> None:
    """Raise UsageError MG0001 for constants among the args of a program that is not an ONNX model."""
    rows = args.items() if isinstance(args, Mapping) else enumerate(args) if isinstance(args, (list, tuple)) else ()
    for name, given in cast("Any", rows):
        if isinstance(given, Constant):
            hint = "bind the value before, as with functools.partial"
            text = f"'{name}' is a constant, which only inputs of ONNX models may be"
            raise UsageError(Diagnostic("MG0001", text, hint=hint))
