"""Attributes of attention and its gradients."""

from __future__ import annotations

from meshgen.ir.attributes.base import Attributes, Precisions, Texts


class Attention(Attributes):
    """Attributes of attention.

    Fields:
        factors: the factors of each operand and result (`ops/factors.py`).
        positions: the factors whose positions are arguments of the regions.
        precision, value_precision: StableHLO's precision of the matmuls with the keys and with the values.
        zero_empty: rows whose scores are all -inf produce zeros; otherwise NaN.
    """

    factors: str
    positions: Texts = ()
    precision: Precisions = ()
    value_precision: Precisions = ()
    zero_empty: bool = False


class AttentionGradient(Attention):
    """Attributes of a gradient of attention.

    Fields:
        gradient_precision: the precision of the matmuls of the scores' gradient with queries and keys.
        row_keys: the number of keys per row on all devices; 0 means that this device has all of them.
    """

    gradient_precision: Precisions = ()
    row_keys: int = 0
