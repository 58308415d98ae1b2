"""GridSample with cubic weights clamps each tap to the image. It does not clamp the position at which the image is
sampled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from tests.frontend.test_onnx_operators import assert_close, f32, run_operator

Array = np.ndarray[Any, Any]


def cubic(image: Array, ys: Array, xs: Array, a: float = -0.75) -> Array:
    """Sample an image at positions [r] with cubic weights. A tap outside the image reads the nearest row or column."""

    def weights(distance: Array) -> Array:
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        return np.where(distance <= 1, near, np.where(distance < 2, far, 0))

    total = np.zeros(len(ys))
    for dy in range(-1, 3):
        for dx in range(-1, 3):
            y, x = np.floor(ys) + dy, np.floor(xs) + dx
            rows, columns = (
                np.clip(index, 0, size - 1).astype(int) for index, size in zip((y, x), image.shape, strict=True)
            )
            total += image[rows, columns] * weights(np.abs(ys - y)) * weights(np.abs(xs - x))
    return total


@pytest.mark.parametrize("opset, mode", [(16, "bicubic"), (20, "cubic")])
@pytest.mark.parametrize("is_aligned", [0, 1])
def test_cubic_grid_sample_clamps_each_tap(opset: int, mode: str, is_aligned: int) -> None:
    image = f32(1, 1, 4, 5)
    grid = np.random.default_rng(2).uniform(-1.4, 1.4, (1, 7, 1, 2)).astype(np.float32)
    outputs = run_operator(
        "GridSample", image, grid, opset=opset, mode=mode, padding_mode="border", align_corners=is_aligned
    )
    size, coordinates = np.array([5, 4]), grid[0, :, 0].astype(np.float64)
    positions = (coordinates + 1) / 2 * (size - 1) if is_aligned else ((coordinates + 1) * size - 1) / 2
    assert_close([outputs[0][0, 0, :, 0]], [cubic(image[0, 0], positions[:, 1], positions[:, 0])], 1e-4)
