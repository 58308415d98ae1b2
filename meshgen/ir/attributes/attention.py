"""Attributes of attention."""

from __future__ import annotations

from meshgen.ir.attributes.base import Attributes, Precisions, Texts


class Attention(Attributes):
    """What the dims of operands and results are, in factor notation, and how the products are computed.

    `positions`: the factors whose positions the regions take. `precision`, `value_precision`: StableHLO's, of the products with the keys and with
    the values. `zero_empty`: rows of which all scores are -inf have results of 0; else of NaN.
    """

    factors: str
    positions: Texts = ()
    precision: Precisions = ()
    value_precision: Precisions = ()
    zero_empty: bool = False


class AttentionGradient(Attention):
    """`gradient_precision`: that of the products of the scores' gradient with queries and keys. `row_keys`: keys of a row on all devices; 0: as many as here."""

    gradient_precision: Precisions = ()
    row_keys: int = 0
