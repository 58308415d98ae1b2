"""PyTorch distances between vectors, and their gradients."""

from __future__ import annotations

import math

import numpy as np

from meshgen.frontend.torch.ops.reductions import vector_norm
from meshgen.frontend.torch.ops.table import aten, enter_rows
from meshgen.frontend.torch.promotion import in_common_type, promoted
from meshgen.frontend.tracer import elementwise
from meshgen.frontend.tracer.creation import zeros
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import convert
from meshgen.frontend.tracer.tensor import Tensor


@aten("_cdist_forward", "cdist")
def cdist(x: Tensor, y: Tensor, p: float = 2.0, compute_mode: int | None = None) -> Tensor:
    """Return the p-norm of the difference between each row of `x` and each row of `y`."""
    del compute_mode
    left, right = promoted(x[..., None, :], y[..., None, :, :])
    return vector_norm(left - right, p, -1)


@aten("_pdist_forward", "pdist")
def pdist(x: Tensor, p: float = 2.0) -> Tensor:
    """Return the p-norm of the difference between each row of `x` and each later row."""
    first, second = (index.astype(np.int32) for index in np.triu_indices(x.shape[0], 1))
    return vector_norm(x[first] - x[second], p, -1)


def _slope(difference: Tensor, distance: Tensor, p: float) -> Tensor:
    """Return the derivative of `distance`, the p-norm of `difference`, with respect to each element of `difference`.

    The derivative is 0 if the distance is 0.
    """
    if p == 0:
        return difference * 0
    sign = elementwise.sign(difference)
    if math.isinf(p):
        return where(elementwise.abs_(difference) == distance, sign, 0)
    if p == 1:
        return sign
    safe = where(distance == 0, 1, distance)
    if p == 2:
        return where(distance == 0, 0, difference / safe)
    share = elementwise.power(where(difference == 0, 1, elementwise.abs_(difference)) / safe, p - 1)
    return where(elementwise.abs_(difference) * distance == 0, 0, sign * share)


@aten("_cdist_backward")
def cdist_backward(grad: Tensor, x: Tensor, y: Tensor, p: float, distance: Tensor) -> Tensor:
    """Return the gradient of `cdist` with respect to `x`. Batch dims of `x` may broadcast to the batch dims of `grad`."""
    difference = x[..., None, :] - y[..., None, :, :]
    slope = _slope(difference, distance[..., None], p) * grad[..., None]
    return slope.sum(-2)


@aten("_pdist_backward")
def pdist_backward(grad: Tensor, x: Tensor, p: float, distance: Tensor) -> Tensor:
    first, second = (index.astype(np.int32) for index in np.triu_indices(x.shape[0], 1))
    difference = x[first] - x[second]
    slope = convert(_slope(difference, distance[..., None], p) * grad[..., None], x.type.dtype)
    return zeros(x.shape, x.type.dtype).at[first].add(slope).at[second].add(-slope)


enter_rows({
    "dist": lambda x, y, p=2: vector_norm(x - y, p),
    "pairwise_distance": lambda x, y, p=2, eps=1e-6, keepdim=False: vector_norm(x - y + eps, p, -1, keepdim),
}, in_common_type)  # fmt: skip
