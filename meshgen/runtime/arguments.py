"""Arguments of a module's call, as arrays by name."""

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
Arguments: TypeAlias = Sequence[Any] | Mapping[str, Any]  # in the order of the inputs, or by name
Shapes: TypeAlias = Mapping[str, Sequence[int | None]] | None  # of inputs, by name; None: the program's


def by_name(names: Sequence[str], args: Arguments, keywords: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The given values by name. Raises ArgumentError MG0601 for too many, or anything but a list or dict."""
    given: Any = args
    if isinstance(given, Mapping):
        found = {str(name): value for name, value in given.items()}
    elif not isinstance(given, list | tuple):
        hint = f"pass a list in the order of the inputs ({', '.join(names)}), or a dict by their names"
        raise ArgumentError(
            Diagnostic("MG0601", f"arguments must be a list or a dict, got {type(given).__name__}", hint=hint)
        )
    elif len(given) > len(names):
        raise ArgumentError(
            Diagnostic("MG0601", f"{len(given)} arguments were given, but the program takes {len(names)}")
        )
    else:
        found = dict(zip(names, given, strict=False))
    if twice := [name for name in keywords or {} if name in found]:
        raise ArgumentError(*(Diagnostic("MG0601", f"argument '{name}' is given twice") for name in twice))
    return found | dict(keywords or {})


def arrays_of(inputs: Sequence[Binding], args: Arguments) -> dict[str, Array]:
    """An array for each input. Raises ArgumentError MG0601 with all missing, unknown and misfitting ones."""
    types = {binding.name: binding.type for binding in inputs}
    given = by_name(list(types), args)
    texts = [f"argument '{name}' is missing" for name in types if name not in given]
    texts += [f"unknown argument '{name}'" for name in given if name not in types]
    arrays: dict[str, Array] = {}
    for name in types:
        if name in given:
            array, fault = array_of(name, given[name])
            arrays[name] = array
            texts += [text for text in [fault or misfit(name, types[name], array)] if text]
    if texts:
        signature = ", ".join(f"{name}: {kind}" for name, kind in types.items())
        hint = f"the arguments are ({shortened(signature)}), as global arrays"
        raise ArgumentError(*(Diagnostic("MG0601", text, hint=hint) for text in texts))
    return arrays


def array_of(name: str, value: Any) -> tuple[Array, str]:
    """The argument as an array, and its fault; empty if there is none."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        return np.zeros(0), f"argument '{name}' is a masked array: fill it first"
    try:
        return np.asarray(value), ""
    except (ValueError, TypeError) as error:
        return np.zeros(0), f"argument '{name}' cannot be converted to an array ({str(error).splitlines()[0][:100]})"


def shapes_given(shapes: Shapes) -> dict[str, tuple[int | None, ...]]:
    """A caller's shapes by input. Raises ArgumentError MG0601 for malformed ones."""
    given: Any = shapes or {}
    hint = 'write for example args={"x": (8, 64)}; None keeps the size of the program'
    if not isinstance(given, Mapping):
        raise ArgumentError(Diagnostic("MG0601", f"shapes must be a dict by name of input, got {given!r}", hint=hint))
    found: dict[str, tuple[int | None, ...]] = {}
    faults: list[Diagnostic] = []
    for name, shape in given.items():
        try:
            found[str(name)] = tuple(None if size is None else operator.index(size) for size in shape)
        except TypeError:
            faults.append(
                Diagnostic(
                    "MG0601", f"the shape of argument '{name}' must be a sequence of sizes, got {shape!r}", hint=hint
                )
            )
    if faults:
        raise ArgumentError(*faults)
    return found
