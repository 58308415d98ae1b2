"""Emit normalizations as composite ops. They also return the statistics that frameworks return beside the result."""

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
    """A normalized tensor and its statistics, which have size 1 in the normalized dims.

    `mean` is None if the normalization does not subtract it.
    """

    result: Tensor
    mean: Tensor | None
    variance: Tensor
    epsilon: float

    @property
    def factor(self) -> Tensor:
        """Return 1 / sqrt(variance + epsilon), the factor of the centered tensor."""
        return rsqrt(self.variance + self.epsilon)


def normalized(x: Tensor, dims: Sequence[int], epsilon: float, scale: Operand = None, bias: Operand = None, *, centered: bool = True) -> Normalized:  # fmt: skip
    """Return (x - mean) / sqrt(variance + epsilon) * scale + bias, with mean and variance over `dims`.

    It is computed in at least f32.

    Args:
        scale, bias: operands that broadcast with x; without a scale, the bias is added to the normalized tensor.
        centered: if False, no mean is subtracted, and the mean of the squares replaces the variance.

    Raises:
        ProgramError: a normalized dim has size 0, or an operand does not broadcast with x.
    """
    if any(x.shape[d] == 0 for d in dims):
        refuse(f"the mean over {tuple(dims)} of {x.type} has no elements")
    scale = tensor(1.0, x.type.dtype) if scale is None and bias is not None else scale
    names = tuple(letters(x.ndim))
    rows = tuple(name for d, name in enumerate(names) if d not in dims)
    affine = [_beside(tensor(operand), x, names) for operand in (scale, bias) if operand is not None]
    kind = TensorType(
        tuple(x.shape[d] for d in range(x.ndim) if d not in dims), "f64" if x.type.dtype == "f64" else "f32"
    )
    text = notation([names, *(factors for _, factors in affine)], [names, *[rows] * (1 + centered)])
    attrs = {"factors": text, "centered": centered, "epsilon": float(epsilon)}
    result, *statistics = emit_all(
        "normalize", [x, *(part for part, _ in affine)], [x.type, *[kind] * (1 + centered)], attrs
    )
    statistics_shape = [1 if d in dims else size for d, size in enumerate(x.shape)]
    *means, variance = (reshape(operand, statistics_shape) for operand in statistics)
    return Normalized(result, means[0] if means else None, variance, epsilon)


def normalized_gradient(gradient: Tensor, x: Tensor, dims: Sequence[int], mean: Tensor | None, factor: Tensor, scale: Operand = None) -> Tensor:  # fmt: skip
    """Return the gradient of a loss with respect to the operand `x` of `normalized`.

    Args:
        gradient: the gradient with respect to the result of `normalized`.
        mean, factor: the statistics from `Normalized`, in any shape that broadcasts with x.
    """
    names = tuple(letters(x.ndim))
    rows = tuple(name for d, name in enumerate(names) if d not in dims)
    sizes = [x.shape[d] for d in range(x.ndim) if d not in dims]
    kind = "f64" if x.type.dtype == "f64" else "f32"
    statistics = [convert(reshape(operand, sizes), kind) for operand in (mean, factor) if operand is not None]
    affine = [_beside(tensor(operand), x, names) for operand in (scale,) if operand is not None]
    text = notation([names, names, *[rows] * len(statistics), *(factors for _, factors in affine)], [names])
    operands = [gradient, x, *statistics, *(part for part, _ in affine)]
    return emit_all("normalize_gradient", operands, [x.type], {"factors": text, "centered": mean is not None})[0]


def _beside(operand: Tensor, x: Tensor, names: Names) -> tuple[Tensor, Names]:
    """Drop the dims of size 1 of an operand that broadcasts with x.

    Returns the operand, and the factor names of its dims: the entries of `names` for the same dims of x.
    """
    first = x.ndim - operand.ndim
    sizes = {first + d: size for d, size in enumerate(operand.shape) if size != 1}
    if first < 0 or any(x.shape[d] != size for d, size in sizes.items()):
        refuse(f"{operand.type} does not broadcast with {x.type}")
    return reshape(operand, [*sizes.values()]), tuple(names[d] for d in sizes)
