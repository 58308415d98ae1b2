"""PyTorch's pads, and their gradients. A pad is given for the last dims, from the last one on; a negative one crops."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from meshgen.frontend.torch.ops.shapes import slice_
from meshgen.frontend.torch.ops.table import aten, enter_rows
from meshgen.frontend.tracer import joining
from meshgen.frontend.tracer.tensor import Operand, Tensor

Pair = tuple[int, int]


def _pairs(x: Tensor, pad: Sequence[int]) -> list[Pair]:
    """Return what is added before and after each dim."""
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    return [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]


def _cropped(x: Tensor, pairs: Sequence[Pair]) -> Tensor:
    for d, (before, after) in enumerate(pairs):
        x = slice_(x, d, max(0, -before), x.shape[d] - max(0, -after))
    return x


def _only_added(pairs: Sequence[Pair]) -> list[Pair]:
    return [(max(0, before), max(0, after)) for before, after in pairs]


def _mirrored(mode: str, x: Tensor, pad: Sequence[int]) -> Tensor:
    """Return x with rows added that repeat its own, in the modes of NumPy; rows are added first, so that cropped ones are repeated too."""
    pairs = _pairs(x, pad)
    if mode == "wrap":  # rows that are cropped are not repeated
        return joining.pad(_cropped(x, pairs), _only_added(pairs), mode)
    return _cropped(joining.pad(x, _only_added(pairs), mode), pairs)


@aten("constant_pad_nd", "pad")
def pad(x: Tensor, pad: Sequence[int], mode: str | Operand = "constant", value: float | None = None) -> Tensor:
    if not isinstance(mode, str):  # of constant_pad_nd, which has the value there
        mode, value = "constant", mode
    if mode != "constant":
        return _mirrored({"replicate": "edge", "circular": "wrap"}.get(mode, mode), x, pad)
    pairs = _pairs(x, pad)
    return joining.pad(_cropped(x, pairs), _only_added(pairs), constant_values=value or 0)


def _folded(grad: Tensor, dim: int, size: int, pair: Pair, mode: str) -> Tensor:
    """Add the gradients of rows that were added along a dim to those of the rows that they repeat."""
    before = max(0, pair[0])
    cropped = [max(0, -each) for each in pair]
    grad = joining.pad(grad, [(*cropped,) if d == dim else (0, 0) for d in range(grad.ndim)]) if any(cropped) else grad
    total = slice_(grad, dim, before, before + size)
    edges = ((slice_(grad, dim, 0, before), True), (slice_(grad, dim, before + size), False))
    for edge, is_first in edges:
        rows = edge.shape[dim]
        if not rows:
            continue
        if mode == "edge":
            edge, room = edge.sum(dim, keepdims=True), (0, size - 1)
        else:  # reflected at the border row, which is not repeated
            edge, room = joining.flip(edge, [dim]), (1, size - 1 - rows)
        room = room if is_first else room[::-1]
        total = total + joining.pad(edge, [room if d == dim else (0, 0) for d in range(grad.ndim)])
    return total


def _gradient(mode: str, grad: Tensor, x: Tensor, pad: Sequence[int]) -> Tensor:
    for d, pair in enumerate(_pairs(x, pad)):
        grad = _folded(grad, d, x.shape[d], pair, mode) if any(pair) else grad
    return grad


for _name, _mode in (("reflection_pad", "reflect"), ("replication_pad", "edge")):
    enter_rows({f"{_name}{count}d": partial(_mirrored, _mode) for count in (1, 2, 3)})
    enter_rows({f"{_name}{count}d_backward": partial(_gradient, _mode) for count in (1, 2, 3)})
