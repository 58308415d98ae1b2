"""PyTorch sampling of images at data-dependent positions (`grid_sample`), and its gradients."""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.frontend.torch.ops.table import aten
from meshgen.frontend.tracer.sampling import grid_samples, grid_samples_gradient
from meshgen.frontend.tracer.tensor import Tensor

_MODES, _PADDINGS = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")


@aten("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    return grid_samples(x, grid, _MODES[interpolation_mode], _PADDINGS[padding_mode], align_corners)


@aten("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def grid_sampler_backward(grad: Tensor, x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool,
                          output_mask: Sequence[bool]) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    """Return the gradients with respect to image and grid. Gradients that `output_mask` excludes are None."""
    settings = _MODES[interpolation_mode], _PADDINGS[padding_mode], align_corners
    image_gradient, grid_gradient = grid_samples_gradient(grad, x, grid, *settings)
    return image_gradient if output_mask[0] else None, grid_gradient if output_mask[1] else None
