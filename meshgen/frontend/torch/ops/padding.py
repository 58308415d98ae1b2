"""PyTorch padding and its gradients. A list of pad sizes starts with the last dim; negative sizes crop."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from meshgen.frontend.torch.ops.shapes import slice_
from meshgen.frontend.torch.ops.table import aten, enter_rows
from meshgen.frontend.tracer import joining
from meshgen.frontend.tracer.tensor import Operand, Tensor

Pair = tuple[int, int]


def _pairs(x: Tensor, pad: Sequence[int]) -> list[Pair]:
    """Convert torch's list of pad sizes to (rows before, rows after) for each dim of `x`."""
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    return [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]


def _crop(x: Tensor, pairs: Sequence[Pair]) -> Tensor:
    for d, (before, after) in enumerate(pairs):
        x = slice_(x, d, max(0, -before), x.shape[d] - max(0, -after))
    return x


def _positive_pads(pairs: Sequence[Pair]) -> list[Pair]:
    return [(max(0, before), max(0, after)) for before, after in pairs]


def _pad_repeated(mode: str, x: Tensor, pad: Sequence[int]) -> Tensor:
    """Pad `x` with repeated rows; `mode` is a padding mode of NumPy.

    Padding precedes cropping, so that rows are also repeated from the part that is cropped.
    """
    pairs = _pairs(x, pad)
    if mode == "wrap":  # Circular padding is the exception: torch does not repeat cropped rows.
        return joining.pad(_crop(x, pairs), _positive_pads(pairs), mode)
    return _crop(joining.pad(x, _positive_pads(pairs), mode), pairs)


@aten("constant_pad_nd", "pad")
def pad(x: Tensor, pad: Sequence[int], mode: str | Operand = "constant", value: float | None = None) -> Tensor:
    if not isinstance(mode, str):  # constant_pad_nd passes the padding value in the position of `mode`.
        mode, value = "constant", mode
    if mode != "constant":
        return _pad_repeated({"replicate": "edge", "circular": "wrap"}.get(mode, mode), x, pad)
    pairs = _pairs(x, pad)
    return joining.pad(_crop(x, pairs), _positive_pads(pairs), constant_values=value or 0)


def _add_pad_gradient(grad: Tensor, dim: int, size: int, pair: Pair, mode: str) -> Tensor:
    """Crop the padding of one dim from `grad`, and add its gradients to the rows that the padding repeats."""
    before = max(0, pair[0])
    cropped = [max(0, -size_added) for size_added in pair]
    grad = joining.pad(grad, [(*cropped,) if d == dim else (0, 0) for d in range(grad.ndim)]) if any(cropped) else grad
    total = slice_(grad, dim, before, before + size)
    edges = ((slice_(grad, dim, 0, before), True), (slice_(grad, dim, before + size), False))
    for edge, is_first in edges:
        rows = edge.shape[dim]
        if not rows:
            continue
        if mode == "edge":
            edge, edge_pad = edge.sum(dim, keepdims=True), (0, size - 1)
        else:  # Reflection does not repeat the border row itself.
            edge, edge_pad = joining.flip(edge, [dim]), (1, size - 1 - rows)
        edge_pad = edge_pad if is_first else edge_pad[::-1]
        total = total + joining.pad(edge, [edge_pad if d == dim else (0, 0) for d in range(grad.ndim)])
    return total


def _gradient(mode: str, grad: Tensor, x: Tensor, pad: Sequence[int]) -> Tensor:
    for d, pair in enumerate(_pairs(x, pad)):
        grad = _add_pad_gradient(grad, d, x.shape[d], pair, mode) if any(pair) else grad
    return grad


for _name, _mode in (("reflection_pad", "reflect"), ("replication_pad", "edge")):
    enter_rows({f"{_name}{count}d": partial(_pad_repeated, _mode) for count in (1, 2, 3)})
    enter_rows({f"{_name}{count}d_backward": partial(_gradient, _mode) for count in (1, 2, 3)})
