"""The forms that attributes of nodes have: a node that was read from a file may carry anything."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from meshgen.ir.axis_parts import is_ref
from meshgen.mesh import Mesh
from meshgen.spec import Sharding

FORMS = {
    "any": "anything",
    "int": "an integer of 64 bits",
    "str": "a string",
    "flag": "true or false",
    "ints": "a tuple of integers of 64 bits",
    "names": "a tuple of axis names",
    "number": "a number",
    "place": "the number of a device in its group, or its coordinates",
    "sharding": "a sharding",
    "mesh": "a mesh",
}
COMMON = {"axes": "names", "kind": "str", "peer": "mesh"}  # the forms of what means the same in all nodes


def has_form(value: Any, form: str) -> bool:
    """Whether an attribute has one of `FORMS`."""
    if form == "any":
        return True
    if form in ("sharding", "mesh", "str"):
        return isinstance(value, {"sharding": Sharding, "mesh": Mesh, "str": str}[form])
    if form == "flag":
        return isinstance(value, bool | np.bool_) or (_is_int(value) and value in (0, 1))
    if form == "number":
        return _is_number(value)
    if form == "int" or (form == "place" and not isinstance(value, tuple)):
        return _is_int(value)
    if not isinstance(value, tuple | list):
        return False
    entries = cast("Sequence[Any]", value)
    if form == "names":
        return all(isinstance(entry, str) and is_ref(entry) for entry in entries)
    if form == "place":
        return all(entry is None or _is_int(entry) for entry in entries)
    return all(isinstance(entry, bool | np.bool_) or _is_int(entry) for entry in entries)


def form_faults(attrs: Mapping[str, Any], forms: Mapping[str, str]) -> list[str]:
    """Attributes that are there and not of their form."""
    return [
        f"attribute '{name}' is {reprlib.repr(attrs[name])}; it should be {FORMS[form]}"
        for name, form in forms.items()
        if name in attrs and not has_form(attrs[name], form)
    ]


def _is_int(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and -(1 << 63) <= int(value) < 1 << 63


def _is_number(value: Any) -> bool:
    """A scalar of Python or NumPy, or an array without dims."""
    if isinstance(value, np.ndarray):
        return cast("np.ndarray[Any, Any]", value).ndim == 0
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 64
    return isinstance(value, float | complex | np.generic)
