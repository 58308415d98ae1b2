"""Normalizations of rows as the composite op, with the statistics that frameworks return beside the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from meshgen.frontend.tracer.elementwise import rsqrt
from meshgen.frontend.tracer.operands import convert, emit_all, tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.shapes import reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType
from meshgen.ops.factors import Names, notation
from meshgen.ops.rules.rule import letters


class Normalized(NamedTuple):
    """A normalized tensor and the statistics of its rows. Normalized dims have size 1 in the statistics; `mean` is None if it is not subtracted."""

    result: Tensor
    mean: Tensor | None
    variance: Tensor
    epsilon: float

    @property
    def factor(self) -> Tensor:
        """What the tensor less its mean is multiplied by."""
        return rsqrt(self.variance + self.epsilon)


def normalized(x: Tensor, dims: Sequence[int], epsilon: float, scale: Operand = None, bias: Operand = None, *, centered: bool = True) -> Normalized:  # fmt: skip
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over dims, computed in f32 at least.

    Args:
        scale, bias: broadcast with x; a bias without a scale is added to the normalized tensor as it is.
        centered: False: nothing is subtracted, and the variance is the mean of the squares.
    Raises:
        ProgramError: a dim that is normalized over has no elements, or an operand does not broadcast with x.
    """
    if any(x.shape[d] == 0 for d in dims):
        refuse(f"the mean over {tuple(dims)} of {x.type} has no elements")
    scale = tensor(1.0, x.type.dtype) if scale is None and bias is not None else scale
    names = tuple(letters(x.ndim))
    rows = tuple(name for d, name in enumerate(names) if d not in dims)
    affine = [_beside(tensor(each), x, names) for each in (scale, bias) if each is not None]
    kind = TensorType(
        tuple(x.shape[d] for d in range(x.ndim) if d not in dims), "f64" if x.type.dtype == "f64" else "f32"
    )
    text = notation([names, *(words for _, words in affine)], [names, *[rows] * (1 + centered)])
    attrs = {"factors": text, "centered": centered, "epsilon": float(epsilon)}
    result, *statistics = emit_all(
        "normalize", [x, *(part for part, _ in affine)], [x.type, *[kind] * (1 + centered)], attrs
    )
    kept = [1 if d in dims else size for d, size in enumerate(x.shape)]
    *means, variance = (reshape(each, kept) for each in statistics)
    return Normalized(result, means[0] if means else None, variance, epsilon)


def normalized_gradient(gradient: Tensor, x: Tensor, dims: Sequence[int], mean: Tensor | None, factor: Tensor, scale: Operand = None) -> Tensor:  # fmt: skip
    """The gradient of the tensor that `normalized` takes, from that of its result.

    Args:
        mean, factor: of each row, as `Normalized` has them, in any shape that broadcasts with x.
    """
    names = tuple(letters(x.ndim))
    rows = tuple(name for d, name in enumerate(names) if d not in dims)
    sizes = [x.shape[d] for d in range(x.ndim) if d not in dims]
    kind = "f64" if x.type.dtype == "f64" else "f32"
    statistics = [convert(reshape(each, sizes), kind) for each in (mean, factor) if each is not None]
    affine = [_beside(tensor(each), x, names) for each in (scale,) if each is not None]
    text = notation([names, names, *[rows] * len(statistics), *(words for _, words in affine)], [names])
    operands = [gradient, x, *statistics, *(part for part, _ in affine)]
    return emit_all("normalize_gradient", operands, [x.type], {"factors": text, "centered": mean is not None})[0]


def _beside(part: Tensor, x: Tensor, names: Names) -> tuple[Tensor, Names]:
    """An operand that broadcasts with x, without its dims of size 1, and the factors of those that are left."""
    first = x.ndim - part.ndim
    sizes = {first + d: size for d, size in enumerate(part.shape) if size != 1}
    if first < 0 or any(x.shape[d] != size for d, size in sizes.items()):
        refuse(f"{part.type} does not broadcast with {x.type}")
    return reshape(part, [*sizes.values()]), tuple(names[d] for d in sizes)
