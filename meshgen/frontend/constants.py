"""Values of inputs that the user fixes at compile time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from meshgen.errors import Diagnostic, UsageError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Constant:
    """The value of an input that the user fixed at compile time with `mg.constant`."""

    array: Array

    def __repr__(self) -> str:
        return f"constant({self.array.tolist()!r:.60})"


def constant(value: Any) -> Constant:
    """Fix the value of an input of an ONNX model, for `args`: the input becomes a constant of the program.

    Shapes may then depend on the value, and the model is read without the branches that it excludes:
    `args={"axes": mg.constant([0, 2])}`. Python numbers need no `constant`.

    Raises:
        UsageError: MG0001, the value is not an array of numbers.
    """
    array = np.asarray(value)
    if array.dtype.kind not in "biufc" and array.dtype.isbuiltin != 2:
        hint = "give numbers, a list of numbers, or an array"
        raise UsageError(Diagnostic("MG0001", f"{value!r:.60} is not an array of numbers", hint=hint))
    return Constant(array)


def constant_of(arg: Any) -> Array | None:
    """Return the array of a `Constant` or of a Python number, or None for types, shapes and example arrays."""
    if isinstance(arg, Constant):
        return arg.array
    return constant(arg).array if isinstance(arg, (bool, int, float)) else None


def refuse_constants(args: Sequence[Any] | Mapping[str, Any] | None) -> None:
    """Raise UsageError MG0001 if `args`, of a program that is not an ONNX model, contain a constant."""
    named_args = (
        args.items() if isinstance(args, Mapping) else enumerate(args) if isinstance(args, (list, tuple)) else ()
    )
    for name, arg in cast("Any", named_args):
        if isinstance(arg, Constant):
            hint = "bind the value before, as with functools.partial"
            text = f"'{name}' is a constant, which only inputs of ONNX models may be"
            raise UsageError(Diagnostic("MG0001", text, hint=hint))
