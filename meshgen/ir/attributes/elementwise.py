"""Attributes of element-wise ops."""

from __future__ import annotations

from meshgen.ir.attributes.base import Attributes


class Compare(Attributes):
    """`compare_type` of floats may be TOTALORDER; empty: as the element type is compared."""

    direction: str
    compare_type: str = ""


class ReducePrecision(Attributes):
    """Bits of the exponent and of the mantissa that are kept."""

    exponent_bits: int
    mantissa_bits: int
