"""Attributes of composites in factor notation, except attention (`attributes/attention.py`)."""

from __future__ import annotations

from meshgen.ir.attributes.base import Attributes, Number, Precisions


class NormalizeGradient(Attributes):
    """Attributes of the gradient of a normalization.

    Fields:
        factors: the factors of each operand and result (`ops/factors.py`).
        centered: layer norm, which subtracts the mean; otherwise RMS norm.
    """

    factors: str
    centered: bool


class Normalize(NormalizeGradient):
    """Attributes of a normalization; `epsilon` is added to the variance."""

    epsilon: Number


class ScaledDot(Attributes):
    """Attributes of a matmul with scaled, optionally packed numbers.

    Fields:
        factors: the dims of operands and results (`ops/factors.py`).
        bits: the width of a packed number; 0 means that numbers are not packed.
        precision: StableHLO's precision of the matmul.
    """

    factors: str
    bits: int = 0
    precision: Precisions = ()


class SoftmaxCrossEntropy(Attributes):
    """Attributes of softmax cross-entropy: `factors` as in `NormalizeGradient`. The factor that the labels lack is the
    class.
    """

    factors: str
