"""Conversion of a call's arguments to arrays by name."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from meshgen.calls.arguments import misfit
from meshgen.calls.signature import shortened
from meshgen.errors import ArgumentError, Diagnostic
from meshgen.runtime.module_file.manifest import Binding

Array = np.ndarray[Any, Any]
Arguments: TypeAlias = Sequence[Any] | Mapping[str, Any]  # arrays in the order of the inputs, or by input name
# input name -> shape; a size None stands for the program's size
Shapes: TypeAlias = Mapping[str, Sequence[int | None]] | None


def by_name(names: Sequence[str], args: Arguments, keywords: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the arguments by name.

    Raises:
        ArgumentError: MG0601, `args` is not a list or dict, has too many values, or repeats a name.
    """
    values: Any = args
    if isinstance(values, Mapping):
        named = {str(name): value for name, value in values.items()}
    elif not isinstance(values, list | tuple):
        hint = f"pass a list in the order of the inputs ({', '.join(names)}), or a dict by their names"
        raise ArgumentError(
            Diagnostic("MG0601", f"arguments must be a list or a dict, got {type(values).__name__}", hint=hint)
        )
    elif len(values) > len(names):
        raise ArgumentError(
            Diagnostic("MG0601", f"{len(values)} arguments were given, but the program takes {len(names)}")
        )
    else:
        named = dict(zip(names, values, strict=False))
    if repeated := [name for name in keywords or {} if name in named]:
        raise ArgumentError(*(Diagnostic("MG0601", f"argument '{name}' is given twice") for name in repeated))
    return named | dict(keywords or {})


def arrays_of(inputs: Sequence[Binding], args: Arguments) -> dict[str, Array]:
    """Return an array for each input.

    Raises:
        ArgumentError: MG0601, which lists all missing, unknown and mismatched arguments.
    """
    types = {binding.name: binding.type for binding in inputs}
    named = by_name(list(types), args)
    texts = [f"argument '{name}' is missing" for name in types if name not in named]
    texts += [f"unknown argument '{name}'" for name in named if name not in types]
    arrays: dict[str, Array] = {}
    for name in types:
        if name in named:
            array, fault = array_of(name, named[name])
            arrays[name] = array
            texts += [text for text in [fault or misfit(name, types[name], array)] if text]
    if texts:
        signature = ", ".join(f"{name}: {kind}" for name, kind in types.items())
        hint = f"the arguments are ({shortened(signature)}), as global arrays"
        raise ArgumentError(*(Diagnostic("MG0601", text, hint=hint) for text in texts))
    return arrays


def array_of(name: str, value: Any) -> tuple[Array, str]:
    """Return `value` as an array, and an error text. The text is empty if the conversion succeeds."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        return np.zeros(0), f"argument '{name}' is a masked array: fill it first"
    try:
        return np.asarray(value), ""
    except (ValueError, TypeError) as error:
        return np.zeros(0), f"argument '{name}' cannot be converted to an array ({str(error).splitlines()[0][:100]})"


def validated_shapes(shapes: Shapes) -> dict[str, tuple[int | None, ...]]:
    """Check the shapes that a caller passes for inputs, and return them by input name.

    Raises ArgumentError MG0601 for malformed shapes.
    """
    caller_shapes: Any = shapes or {}
    hint = 'write for example args={"x": (8, 64)}; None keeps the size of the program'
    if not isinstance(caller_shapes, Mapping):
        raise ArgumentError(
            Diagnostic("MG0601", f"shapes must be a dict by name of input, got {caller_shapes!r}", hint=hint)
        )
    validated: dict[str, tuple[int | None, ...]] = {}
    faults: list[Diagnostic] = []
    for name, shape in caller_shapes.items():
        try:
            validated[str(name)] = tuple(None if size is None else operator.index(size) for size in shape)
        except TypeError:
            faults.append(
                Diagnostic(
                    "MG0601", f"the shape of argument '{name}' must be a sequence of sizes, got {shape!r}", hint=hint
                )
            )
    if faults:
        raise ArgumentError(*faults)
    return validated
