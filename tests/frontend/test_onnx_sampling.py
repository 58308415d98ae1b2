"""GridSample with cubic weights: the taps of a sample, not its position, are moved into the image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from tests.frontend.test_onnx_operators import computed, f32, same

Array = np.ndarray[Any, Any]


def cubic(image: Array, ys: Array, xs: Array, a: float = -0.75) -> Array:
    """Samples of an image at positions [r], with rows and columns outside of it as the nearest ones."""

    def weights(apart: Array) -> Array:
        near = ((a + 2) * apart - (a + 3)) * apart**2 + 1
        far = ((a * apart - 5 * a) * apart + 8 * a) * apart - 4 * a
        return np.where(apart <= 1, near, np.where(apart < 2, far, 0))

    total = np.zeros(len(ys))
    for dy in range(-1, 3):
        for dx in range(-1, 3):
            y, x = np.floor(ys) + dy, np.floor(xs) + dx
            rows, columns = (
                np.clip(each, 0, size - 1).astype(int) for each, size in zip((y, x), image.shape, strict=True)
            )
            total += image[rows, columns] * weights(np.abs(ys - y)) * weights(np.abs(xs - x))
    return total


@pytest.mark.parametrize("opset, mode", [(16, "bicubic"), (20, "cubic")])
@pytest.mark.parametrize("is_aligned", [0, 1])
def test_cubic_samples_clamp_each_tap_at_the_border(opset: int, mode: str, is_aligned: int) -> None:
    image = f32(1, 1, 4, 5)
    grid = np.random.default_rng(2).uniform(-1.4, 1.4, (1, 7, 1, 2)).astype(np.float32)
    found = computed("GridSample", image, grid, opset=opset, mode=mode, padding_mode="border", align_corners=is_aligned)
    size, places = np.array([5, 4]), grid[0, :, 0].astype(np.float64)
    at = (places + 1) / 2 * (size - 1) if is_aligned else ((places + 1) * size - 1) / 2
    same([found[0][0, 0, :, 0]], [cubic(image[0, 0], at[:, 1], at[:, 0])], 1e-4)
