"""Type checks of node attributes: a node from a file may have attributes of any type."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from meshgen.ir.axis_parts import is_ref
from meshgen.mesh import Mesh
from meshgen.ops.precision import PRECISIONS
from meshgen.spec import Sharding


def _is_int(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and -(1 << 63) <= int(value) < 1 << 63


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool | np.bool_) or (_is_int(value) and value in (0, 1))


def _is_index(value: Any) -> bool:
    return isinstance(value, bool | np.bool_) or _is_int(value)


def _is_number(value: Any) -> bool:
    """Whether `value` is a Python or NumPy scalar, or an array without dims."""
    if isinstance(value, np.ndarray):
        return cast("np.ndarray[Any, Any]", value).ndim == 0
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 64
    return isinstance(value, float | complex | np.generic)


def _is_axis(value: Any) -> bool:
    return isinstance(value, str) and is_ref(value)


def _is_device(value: Any) -> bool:
    return all(entry is None or _is_int(entry) for entry in value) if isinstance(value, tuple) else _is_int(value)


def _is_free(value: Any) -> bool:
    """Whether `value` is a pair: a sharding over free axes, and a flag per dim that tells whether more axes may shard
    the dim.
    """
    return (
        isinstance(value, tuple) and len(value) == 2 and _is(Sharding)(value[0]) and _every_element(_is_flag)(value[1])
    )


def _is_precisions(value: Any) -> bool:
    return (
        isinstance(value, tuple | list) and len(value) in (0, 2) and all(word in PRECISIONS.values() for word in value)
    )


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


def _every_element(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, tuple | list) and all(map(holds, value))


# Type annotation of a field -> (the type in words, predicate on values).
TYPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "Any": ("anything", lambda value: True),
    "int": ("an integer of 64 bits", _is_int),
    "str": ("a string", _is(str)),
    "bool": ("true or false", _is_flag),
    "Flags": ("a tuple of true and false", _every_element(_is_flag)),
    "Ints": ("a tuple of integers of 64 bits", _every_element(_is_index)),
    "Names": ("a tuple of axis names", _every_element(_is_axis)),
    "Texts": ("a tuple of strings", _every_element(_is(str))),
    "Precisions": (f"none or two of {', '.join(PRECISIONS.values())}", _is_precisions),
    "Number": ("a number", _is_number),
    "Place": ("the number of a device in its group, or its coordinates", _is_device),
    "Sharding": ("a sharding", _is(Sharding)),
    "Shardings": ("a tuple of shardings", _every_element(_is(Sharding))),
    "FreeShardings": ("a tuple of shardings, each with a tuple of true and false", _every_element(_is_free)),
    "Mesh": ("a mesh", _is(Mesh)),
}


def type_faults(attributes: Mapping[str, Any], types: Mapping[str, str]) -> list[str]:
    """Return a message for each attribute whose value does not have the type that the class declares for the field."""
    return [
        f"attribute '{name}' is {reprlib.repr(attributes[name])}; it should be {TYPES[type_name][0]}"
        for name, type_name in types.items()
        if name in attributes and not TYPES[type_name][1](attributes[name])
    ]
