"""Attributes of ops that ask for sizes."""

from __future__ import annotations

from meshgen.ir.attributes.base import Attributes


class ShapeAssertion(Attributes):
    """What a failure says; `{0}`, `{1}`, ... stand for the numbers that are given."""

    message: str
