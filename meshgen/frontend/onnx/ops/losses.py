"""Losses for targets that are class indices."""

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
    """Return the cross-entropy loss of `labels` for scores with classes in dim 1, and the log-probabilities."""
    losses, sums = nn.softmax_cross_entropy(scores, labels, 1)
    ignored, reduction = call["ignore_index"], call["reduction"] or "mean"
    if reduction not in ("none", "mean", "sum"):
        refuse(f"reduction '{reduction}' is not none, mean or sum")
    is_counted = labels == labels if ignored is None else labels != ignored
    label_weights = convert(is_counted, losses.type.dtype)
    if weights is not None:
        label_weights = where(
            is_counted, gathered(convert(weights, losses.type.dtype), {0: where(is_counted, labels, 0)}, 0), 0.0
        )
    losses = where(is_counted, losses, 0.0) * label_weights
    if reduction != "none":
        losses = losses.sum() / label_weights.sum() if reduction == "mean" else losses.sum()
    log_probabilities = convert(scores, sums.type.dtype) - expand_dims(sums, 1)
    return tuple(convert(result, scores.type.dtype) for result in (losses, log_probabilities))
