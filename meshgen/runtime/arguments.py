"""What callers pass to a module, as arrays by name."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from meshgen.errors import ArgumentError, Diagnostic
from meshgen.ir.graph import TensorType, dtype_name
from meshgen.runtime.module_file.manifest import Binding

Array = np.ndarray[Any, Any]
Arguments: TypeAlias = Sequence[Any] | Mapping[str, Any]  # in the order of the inputs, or by name
Shapes: TypeAlias = Mapping[str, Sequence[int | None]] | None  # of inputs, by name; None: as the program says


def by_name(names: Sequence[str], args: Arguments, keywords: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The values that are given, by name. Raises ArgumentError MG0601 for too many, and for what are no arguments."""
    given: Any = args
    if isinstance(given, Mapping):
        found = {str(name): value for name, value in given.items()}
    elif not isinstance(given, list | tuple):
        hint = f"pass a list in the order of the inputs ({', '.join(names)}), or a dict by their names"
        raise ArgumentError(Diagnostic("MG0601", f"{type(given).__name__} is no list of arguments", hint=hint))
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
    """An array for each input. Raises ArgumentError MG0601 with all that is missing, unknown or does not fit."""
    types = {binding.name: binding.type for binding in inputs}
    given = by_name(list(types), args)
    texts = [f"argument '{name}' is missing" for name in types if name not in given]
    texts += [f"there is no argument '{name}'" for name in given if name not in types]
    arrays: dict[str, Array] = {}
    for name in types:
        if name in given:
            array, fault = array_of(name, given[name])
            arrays[name] = array
            texts += [text for text in [fault or _misfit(name, types[name], array)] if text]
    if texts:
        signature = ", ".join(f"{name}: {kind}" for name, kind in types.items())
        hint = f"the arguments are ({signature}), as global arrays"
        raise ArgumentError(*(Diagnostic("MG0601", text, hint=hint) for text in texts))
    return arrays


def array_of(name: str, value: Any) -> tuple[Array, str]:
    """What is given for an argument as an array, and what is wrong with it; empty: nothing."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        return np.zeros(0), f"argument '{name}' has a mask, which would be lost: fill it first"
    try:
        return np.asarray(value), ""
    except (ValueError, TypeError) as error:
        return np.zeros(0), f"argument '{name}' is no array ({str(error).splitlines()[0][:100]})"


def _misfit(name: str, kind: TensorType, array: Array) -> str:
    """What is wrong with an argument; empty: nothing."""
    try:
        have = TensorType(array.shape, dtype_name(array.dtype))
    except KeyError:
        return f"argument '{name}' has element type {array.dtype}, which no program takes"
    return "" if have == kind else f"argument '{name}' is {have}, but the program takes {kind}"


def shapes_given(shapes: Shapes) -> dict[str, tuple[int | None, ...]]:
    """Shapes as a caller gives them. Raises ArgumentError MG0601 for what are none."""
    given: Any = shapes or {}
    hint = 'write for example args={"x": (8, 64)}; None is a size that the program says'
    if not isinstance(given, Mapping):
        raise ArgumentError(Diagnostic("MG0601", f"{given!r} are no shapes of inputs by name", hint=hint))
    found: dict[str, tuple[int | None, ...]] = {}
    faults: list[Diagnostic] = []
    for name, shape in given.items():
        try:
            found[str(name)] = tuple(None if size is None else operator.index(size) for size in shape)
        except TypeError:
            faults.append(Diagnostic("MG0601", f"the shape of argument '{name}' is {shape!r}", hint=hint))
    if faults:
        raise ArgumentError(*faults)
    return found
