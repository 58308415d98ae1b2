"""Losses of classes by number."""

from __future__ import annotations

from typing import Any

from meshgen.frontend.onnx.ops.table import Call, op
from meshgen.frontend.tracer import nn
from meshgen.frontend.tracer.indexing import gathered
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import convert
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.shapes import expand_dims
from meshgen.frontend.tracer.tensor import Tensor


@op("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(call: Call, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Any:
    """Of classes along dim 1; the second result are the logarithms of their probabilities."""
    losses, sums = nn.softmax_cross_entropy(scores, labels, 1)
    ignored, reduction = call["ignore_index"], call["reduction"] or "mean"
    if reduction not in ("none", "mean", "sum"):
        refuse(f"reduction '{reduction}' is not none, mean or sum")
    kept = labels == labels if ignored is None else labels != ignored
    shares = convert(kept, losses.type.dtype)
    if weights is not None:
        shares = where(kept, gathered(convert(weights, losses.type.dtype), {0: where(kept, labels, 0)}, 0), 0.0)
    losses = where(kept, losses, 0.0) * shares
    if reduction != "none":
        losses = losses.sum() / shares.sum() if reduction == "mean" else losses.sum()
    logarithms = convert(scores, sums.type.dtype) - expand_dims(sums, 1)
    return tuple(convert(each, scores.type.dtype) for each in (losses, logarithms))
