"""Attributes of composites whose dims are in factor notation, beside attention."""

from __future__ import annotations

from meshgen.ir.attributes.base import Attributes, Number, Precisions


class NormalizeGradient(Attributes):
    """What the dims of operands and results are (`ops/factors.py`), and whether the mean is subtracted: layer norm; else RMS norm."""

    factors: str
    centered: bool


class Normalize(NormalizeGradient):
    """`epsilon` is added to the mean of the squares."""

    epsilon: Number


class ScaledDot(Attributes):
    """What the dims of operands and results are. `bits`: of a packed number; 0: numbers are not packed. `precision`: StableHLO's, of the product."""

    factors: str
    bits: int = 0
    precision: Precisions = ()


class SoftmaxCrossEntropy(Attributes):
    """What the dims of operands and results are; the factor that labels lack are the classes."""

    factors: str
