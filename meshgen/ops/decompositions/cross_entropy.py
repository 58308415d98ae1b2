"""What the cross-entropy of a softmax means, for classes by number.

top    = max(x)                    total = sum(exp(x - top))                  of the classes of each row
losses = log(total) + (top - x[label]),        rows = top + log(total)

A label that is none of the classes picks 0: its loss is that of the row, `rows`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from meshgen.ir.graph import Value
from meshgen.ops.decompositions.writer import FactorWriter


def softmax_cross_entropy(writer: FactorWriter) -> Sequence[Value]:
    """Append the cross-entropy of each row; returns the losses and the log-sum-exp."""
    logits, labels = writer.operands
    (factor,) = classes = tuple(f for f in logits.names if f not in labels.names)
    wide = writer.convert(logits, writer.node.results[0].type.dtype)
    top = writer.total("maximum", writer.masked(wide, classes, -math.inf), classes)
    powers = writer.apply("exponential", writer.apply("subtract", wide, top))
    total = writer.total("add", writer.masked(powers, classes, 0), classes)
    place = "i64" if labels.dtype in ("i64", "ui64", "ui32") else "i32"
    is_label = writer.equal(writer.convert(labels, place), writer.positions(factor, place), logits.names)
    chosen = writer.apply("select", is_label, wide, 0.0)
    picked = writer.total("add", writer.masked(chosen, classes, 0), classes)
    logarithm = writer.apply("log", total)
    losses = writer.apply("add", logarithm, writer.apply("subtract", top, picked))
    return [losses.value, writer.apply("add", top, logarithm).value]
