"""Attributes of ops that query sizes."""

from __future__ import annotations

from meshgen.ir.attributes.base import Attributes


class ShapeAssertion(Attributes):
    """The message of a failed assertion; `{0}`, `{1}`, ... are replaced by the values of the operands."""

    message: str
