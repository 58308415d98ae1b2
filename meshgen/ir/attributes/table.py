"""The class of each op's attributes by the op's name. `ops/registry.py` enters those of all records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meshgen.ir.attributes.base import NO_ATTRIBUTES, Attributes, NoAttributes, Unchecked
from meshgen.ir.attributes.control import Call

KINDS: dict[str, type[Attributes]] = {"call": Call}


def attributes_of(op: str, given: Mapping[str, Any] | Attributes) -> Attributes:
    """The attributes of a node of an op, from names and values: `Unchecked` where the names are not its fields.

    Ops without a record are those of a pass; it gives their attributes as it likes.
    """
    kind = KINDS.get(op, NoAttributes)
    if isinstance(given, Attributes):
        if op not in KINDS or type(given) is kind:
            return given
        given = given.given
    if not given and (kind is NoAttributes or kind.required_fields):
        return NO_ATTRIBUTES
    return kind(**given) if kind.fits(given) else Unchecked(given)
