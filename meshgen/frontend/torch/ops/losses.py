"""PyTorch losses, and gradients for which torch has separate operations."""

from __future__ import annotations

from collections.abc import Callable

from meshgen.frontend.torch.ops.matmul import linear_
from meshgen.frontend.torch.ops.table import aten, enter_rows
from meshgen.frontend.torch.promotion import in_common_floats, rounded_once, wide
from meshgen.frontend.tracer import elementwise, nn
from meshgen.frontend.tracer.creation import iota
from meshgen.frontend.tracer.indexing import gathered, take_along_axis
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import convert
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.shapes import expand_dims
from meshgen.frontend.tracer.tensor import Tensor

NONE, MEAN, SUM = 0, 1, 2  # Values of the argument `reduction`, as in torch.nn._reduction.


def reduced(x: Tensor, reduction: int) -> Tensor:
    """Return `x` (a loss per element), the mean of `x`, or the sum of `x`, as `reduction` selects."""
    if reduction == NONE:
        return x
    return x.mean() if reduction == MEAN else x.sum()


def _huber(x: Tensor, y: Tensor, delta: float = 1.0) -> Tensor:
    distance = elementwise.abs_(x - y)
    return where(distance <= delta, distance * distance * 0.5, (distance - 0.5 * delta) * delta)


def _smooth_l1(x: Tensor, y: Tensor, beta: float = 1.0) -> Tensor:
    distance = elementwise.abs_(x - y)
    return distance if beta == 0 else where(distance < beta, distance * distance * (0.5 / beta), distance - 0.5 * beta)


def _divergence(x: Tensor, y: Tensor, log_target: bool = False) -> Tensor:
    if log_target:
        return elementwise.exp(y) * (y - x)
    return where(y == 0, 0.0, y * elementwise.log(where(y == 0, 1.0, y))) - y * x


def _as_loss(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Adapt an element-wise function of prediction and target to a loss with the argument `reduction`."""

    def loss(x: Tensor, target: Tensor, reduction: int = MEAN, *args: float, **options: float) -> Tensor:
        return reduced(function(x, target, *args, **options), reduction)

    return in_common_floats(loss)


enter_rows({
    "mse_loss": lambda x, y: (x - y) * (x - y),
    "l1_loss": lambda x, y: elementwise.abs_(x - y),
    "huber_loss": _huber,
    "smooth_l1_loss": _smooth_l1,
    "kl_div": _divergence,
}, _as_loss)  # fmt: skip


@aten("binary_cross_entropy_with_logits")
@in_common_floats
def bce_with_logits(x: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = MEAN) -> Tensor:  # fmt: skip
    positive = 1.0 if pos_weight is None else (pos_weight - 1) * target + 1
    losses = (1 - target) * x + positive * nn.softplus(-x)
    return reduced(losses if weight is None else losses * weight, reduction)


@aten("binary_cross_entropy")
def binary_cross_entropy(x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = MEAN) -> Tensor:
    log_yes, log_no = (elementwise.maximum(elementwise.log(probability), -100.0) for probability in (x, 1 - x))
    losses = -(target * log_yes + (1 - target) * log_no)
    return reduced(losses if weight is None else losses * weight, reduction)


@aten("nll_loss_forward", "nll_loss2d_forward")
def nll_loss_forward(x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = MEAN, ignore_index: int = -100) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the reduced loss, and the sum of the class weights of all targets.

    The loss of a row is minus its element at the target index in the class dim. That is dim 1, or dim 0 of a vector.
    """
    dim = min(1, x.ndim - 1)
    safe_target = where(target != ignore_index, target, 0)
    losses = -take_along_axis(x, expand_dims(safe_target, dim), dim).reshape(target.shape)
    return _reduce_label_losses(losses, target, weight, reduction, ignore_index)


def _reduce_label_losses(losses: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Reduce the losses of all targets except `ignore_index`, with a weight per class.

    Returns the reduced loss and the sum of the weights.
    """
    is_counted, dtype = target != ignore_index, losses.type.dtype
    weights = (
        convert(is_counted, dtype)
        if weight is None
        else where(is_counted, gathered(weight, {0: where(is_counted, target, 0)}, 0), 0.0)
    )
    losses = where(is_counted, losses, 0.0) * (1.0 if weight is None else weights)
    total = weights.sum()
    return (losses.sum() / total if reduction == MEAN else reduced(losses, reduction)), total


enter_rows({"nll_loss nll_loss_nd nll_loss2d": lambda *args: nll_loss_forward(*args)[0]})


@aten("cross_entropy_loss")
def cross_entropy(x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = MEAN, ignore_index: int = -100,
                  label_smoothing: float = 0.0) -> Tensor:  # fmt: skip
    """Return the cross-entropy loss. `target` has class indices, or class probabilities in the shape of `x`."""
    dim = min(1, x.ndim - 1)
    logits, dtype = wide(x)
    if target.shape == x.shape:
        scores = nn.log_softmax(logits, dim)
        target_probabilities = (
            convert(target, logits.type.dtype) * (1 - label_smoothing) + label_smoothing / x.shape[dim]
        )
        target_probabilities = (
            target_probabilities
            if weight is None
            else target_probabilities * weight.reshape((-1,) + (1,) * (x.ndim - dim - 1))
        )
        losses = -(target_probabilities * scores).sum(dim)
        rows = x.size // x.shape[dim]
        return convert(losses.sum() / rows if reduction == MEAN else reduced(losses, reduction), dtype)
    losses, log_sums = nn.softmax_cross_entropy(logits, target, dim)
    loss, _ = _reduce_label_losses(losses, target, weight, reduction, ignore_index)
    if label_smoothing:
        if weight is not None:
            refuse("cross_entropy with both class weights and label_smoothing is not supported", "", "MG0103")
        is_counted = target != ignore_index
        uniform_loss = where(is_counted, log_sums - logits.mean(dim), 0.0)
        uniform_loss = (
            uniform_loss.sum() / convert(is_counted, logits.type.dtype).sum()
            if reduction == MEAN
            else reduced(uniform_loss, reduction)
        )
        loss = loss * (1 - label_smoothing) + uniform_loss * label_smoothing
    return convert(loss, dtype)


def _mish_slope(x: Tensor) -> Tensor:
    bent = elementwise.tanh(nn.softplus(x))
    return bent + x * elementwise.sigmoid(x) * (1 - bent * bent)


def _gelu_slope(x: Tensor, approximate: str = "none") -> Tensor:
    if approximate == "tanh":
        inner = (x + x * x * x * 0.044715) * 0.7978845608028654  # sqrt(2 / pi)
        bent = elementwise.tanh(inner)
        slope = (1 + x * x * 0.134145) * 0.7978845608028654
        return 0.5 * (1 + bent) + 0.5 * x * (1 - bent * bent) * slope
    density = elementwise.exp(x * x * -0.5) * 0.3989422804014327  # 1 / sqrt(2 pi)
    return 0.5 * (1 + elementwise.erf(x * 0.7071067811865476)) + x * density


def _softmax_backward(grad: Tensor, out: Tensor, dim: int, dtype: str) -> Tensor:
    weighted = grad * out
    return convert(weighted - out * weighted.sum(dim, True), dtype)


enter_rows({
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": lambda grad, out, dim, dtype: convert(grad - elementwise.exp(out) * grad.sum(dim, True), dtype),
    "threshold_backward": lambda grad, x, threshold: where(x <= threshold, 0.0, grad),
    "sigmoid_backward": lambda grad, out: grad * out * (1 - out),
    "tanh_backward": lambda grad, out: grad * (1 - out * out),
})  # fmt: skip
enter_rows({
    "silu_backward": lambda grad, x: grad * (share := elementwise.sigmoid(x)) * (1 + x * (1 - share)),
    "mish_backward": lambda grad, x: grad * _mish_slope(x),
    "gelu_backward": lambda grad, x, approximate="none": grad * _gelu_slope(x, approximate),
}, rounded_once)  # fmt: skip


def _gradient_of_losses(grad: Tensor, slope: Tensor, reduction: int) -> Tensor:
    """Return the gradient with respect to the operand of a loss, from the gradient `grad` of the reduced loss.

    `slope` [rows, classes] is the derivative of the loss before the reduction.
    """
    if reduction == NONE:
        return slope * grad.reshape(-1, 1)
    return slope * (grad / slope.shape[0] if reduction == MEAN else grad)


@aten("multi_margin_loss_backward")
def multi_margin_loss_backward(grad: Tensor, x: Tensor, target: Tensor, p: float, margin: float, weight: Tensor | None = None,
                               reduction: int = MEAN) -> Tensor:  # fmt: skip
    rows = x.reshape(-1, x.shape[-1] if x.ndim else 1)
    target = target.reshape(-1, 1)
    violation = margin - take_along_axis(rows, target, 1) + rows
    slope = convert(violation > 0, x.type.dtype) if p == 1 else 2 * elementwise.maximum(violation, 0)
    slope = slope if weight is None else slope * gathered(weight, {0: target[:, 0]}, 0)[:, None]
    slope = slope / rows.shape[1]
    is_target = iota(rows.shape, 1, target.type.dtype) == target
    slope = where(is_target, 0.0, slope)
    slope = where(is_target, -slope.sum(1, True), slope)
    return _gradient_of_losses(grad, slope, reduction).reshape(x.shape)


def _margins_of_labels(x: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the margin violations between each label of a row and all classes. The first -1 ends the labels of a row.

    Returns:
        Margin violations, [rows, labels, classes]; a one-hot mask of each label's class, in the same shape; and a mask
        of the classes that are labels.
    """
    width = x.shape[-1] if x.ndim else 1
    rows, labels = x.reshape(-1, width), target.reshape(-1, width)
    position = iota(labels.shape, 1, "i32")
    is_counted = position < where(labels == -1, position, labels.shape[1]).min(1, True)
    safe_labels = where(is_counted, labels, 0)
    is_label = (safe_labels[:, :, None] == position[:, None]) & is_counted[:, :, None]
    has_label = is_label.any(1)
    violation = 1 - take_along_axis(rows, safe_labels, 1)[:, :, None] + rows[:, None]
    is_compared = is_counted[:, :, None] & ~has_label[:, None]
    return where(is_compared & (violation > 0), violation, 0.0), is_label, has_label


@aten("multilabel_margin_loss_forward")
def multilabel_margin_loss(x: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """Return the reduced loss, and a mask (1.0 or 0.0) of the classes that are labels of their row."""
    violation, _, has_label = _margins_of_labels(x, target)
    losses = violation.sum((1, 2)) / violation.shape[-1]
    flags = convert(has_label, x.type.dtype).reshape(x.shape)
    return reduced(losses if x.ndim > 1 else losses[0], reduction), flags


@aten("multilabel_margin_loss_backward")
def multilabel_margin_loss_backward(grad: Tensor, x: Tensor, target: Tensor, reduction: int, _: Tensor) -> Tensor:
    violation, is_label, _ = _margins_of_labels(x, target)
    slope = convert(violation > 0, x.type.dtype) / violation.shape[-1]
    label_slopes = convert(is_label, x.type.dtype) * slope.sum(2, True)
    return _gradient_of_losses(grad, (slope - label_slopes).sum(1), reduction).reshape(x.shape)


@aten("torch_nn._linear_cross_entropy_batch_chunked_no_reduction")
def linear_cross_entropy_of_rows(x: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None, class_weight: Tensor | None,
                                 ignore_index: int, *_: object) -> Tensor:  # fmt: skip
    """Return the cross-entropy of each row of a linear layer's result. Torch computes it in chunks of rows."""
    return cross_entropy(linear_(x, weight, bias), target, class_weight, NONE, ignore_index)
