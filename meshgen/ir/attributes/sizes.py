"""Attributes of ops that query sizes."""

from __future__ import annotations

from meshgen.ir.attributes.base import Attributes


class ShapeAssertion(Attributes):
    """Attributes of a shape assertion: the message if it fails. `{0}`, `{1}`, ... are replaced by the operands' values."""

    message: str
