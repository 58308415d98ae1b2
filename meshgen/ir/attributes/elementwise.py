"""Attributes of element-wise ops."""

from __future__ import annotations

from meshgen.ir.attributes.base import Attributes


class Compare(Attributes):
    """Attributes of a comparison. `compare_type` may be TOTALORDER for floats; empty means the default of the type."""

    direction: str
    compare_type: str = ""


class ReducePrecision(Attributes):
    """Attributes of `reduce_precision`: the number of exponent bits and of mantissa bits to keep."""

    exponent_bits: int
    mantissa_bits: int
