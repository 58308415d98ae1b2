"""PyTorch's distances of vectors, and their gradients."""

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
    """Distances of each row of x from each row of y."""
    del compute_mode
    left, right = promoted(x[..., None, :], y[..., None, :, :])
    return vector_norm(left - right, p, -1)


@aten("_pdist_forward", "pdist")
def pdist(x: Tensor, p: float = 2.0) -> Tensor:
    """Distances of each row from each later one."""
    first, second = (each.astype(np.int32) for each in np.triu_indices(x.shape[0], 1))
    return vector_norm(x[first] - x[second], p, -1)


def _slope(apart: Tensor, distance: Tensor, p: float) -> Tensor:
    """Return the derivative of a p-norm towards each element of a difference; 0 where the distance is 0."""
    if p == 0:
        return apart * 0
    sign = elementwise.sign(apart)
    if math.isinf(p):
        return where(elementwise.abs_(apart) == distance, sign, 0)
    if p == 1:
        return sign
    safe = where(distance == 0, 1, distance)
    if p == 2:
        return where(distance == 0, 0, apart / safe)
    share = elementwise.power(where(apart == 0, 1, elementwise.abs_(apart)) / safe, p - 1)
    return where(elementwise.abs_(apart) * distance == 0, 0, sign * share)


@aten("_cdist_backward")
def cdist_backward(grad: Tensor, x: Tensor, y: Tensor, p: float, distance: Tensor) -> Tensor:
    """Return the gradient of the rows of x, whose batch dims may be fewer than those of the distances."""
    apart = x[..., None, :] - y[..., None, :, :]
    slope = _slope(apart, distance[..., None], p) * grad[..., None]
    return slope.sum(-2)


@aten("_pdist_backward")
def pdist_backward(grad: Tensor, x: Tensor, p: float, distance: Tensor) -> Tensor:
    first, second = (each.astype(np.int32) for each in np.triu_indices(x.shape[0], 1))
    apart = x[first] - x[second]
    slope = convert(_slope(apart, distance[..., None], p) * grad[..., None], x.type.dtype)
    return zeros(x.shape, x.type.dtype).at[first].add(slope).at[second].add(-slope)


enter_rows({
    "dist": lambda x, y, p=2: vector_norm(x - y, p),
    "pairwise_distance": lambda x, y, p=2, eps=1e-6, keepdim=False: vector_norm(x - y + eps, p, -1, keepdim),
}, in_common_type)  # fmt: skip
