"""The attribute class of each op, by op name. `ops/registry.py` fills the table from the op records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meshgen.ir.attributes.base import NO_ATTRIBUTES, Attributes, NoAttributes, Unchecked
from meshgen.ir.attributes.control import Call

KINDS: dict[str, type[Attributes]] = {"call": Call}


def attributes_of(op: str, given: Mapping[str, Any] | Attributes) -> Attributes:
    """Convert `given` to the op's attribute class, or to `Unchecked` if the names in `given` do not match the class's
    fields.

    The attributes of an op without a record (an op that a single pass uses internally) are not checked.
    """
    attributes_class = KINDS.get(op, NoAttributes)
    if isinstance(given, Attributes):
        if op not in KINDS or type(given) is attributes_class:
            return given
        given = given.given
    if not given and (attributes_class is NoAttributes or attributes_class.required_fields):
        return NO_ATTRIBUTES
    return attributes_class(**given) if attributes_class.fits(given) else Unchecked(given)
