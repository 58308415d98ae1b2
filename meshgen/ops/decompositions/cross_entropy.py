"""The decomposition of softmax cross-entropy with integer labels.

    top    = max(x)                                  over the classes of each row
    total  = sum(exp(x - top))                       over the classes of each row
    rows   = top + log(total)                        the log-sum-exp of each row
    losses = log(total) + (top - x[label])

A label outside of the range of classes selects 0 instead of a logit, so its loss is the log-sum-exp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from meshgen.ir.graph import Value
from meshgen.ops.decompositions.writer import FactorWriter


def softmax_cross_entropy(writer: FactorWriter) -> Sequence[Value]:
    """Append the decomposition. Returns the losses and the log-sum-exp of each row."""
    logits, labels = writer.operands
    (factor,) = classes = tuple(f for f in logits.names if f not in labels.names)
    wide = writer.convert(logits, writer.node.results[0].type.dtype)
    top = writer.total("maximum", writer.masked(wide, classes, -math.inf), classes)
    powers = writer.apply("exponential", writer.apply("subtract", wide, top))
    total = writer.total("add", writer.masked(powers, classes, 0), classes)
    index_type = "i64" if labels.dtype in ("i64", "ui64", "ui32") else "i32"
    is_label = writer.equal(writer.convert(labels, index_type), writer.positions(factor, index_type), logits.names)
    chosen = writer.apply("select", is_label, wide, 0.0)
    label_logit = writer.total("add", writer.masked(chosen, classes, 0), classes)
    logarithm = writer.apply("log", total)
    losses = writer.apply("add", logarithm, writer.apply("subtract", top, label_logit))
    return [losses.value, writer.apply("add", top, logarithm).value]
