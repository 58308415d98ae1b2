"""Pooling over the last dims of images [..., rows, ...], with the window parameters of PyTorch and ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meshgen.frontend.tracer import elementwise
from meshgen.frontend.tracer.reduce import extreme
from meshgen.frontend.tracer.scans import windows
from meshgen.frontend.tracer.tensor import Tensor

Array = np.ndarray[Any, Any]


@dataclass
class Windows:
    """The pooling windows along one dim of an image. A row is an index along this dim.

    Attributes:
        rows: the size of the dim.
        size: the number of elements of a window.
        step, apart: the stride between windows, and the dilation, in rows.
        before, behind: the number of padding rows before and after the image.
        is_ceil: whether the last window may extend beyond the padding, if its start is in the image or in the padding
            before the image.
        count: the number of windows.
    """

    rows: int
    size: int
    step: int
    before: int
    behind: int
    apart: int = 1
    is_ceil: bool = False
    count: int = field(init=False)

    def __post_init__(self) -> None:
        padded_rows = self.rows + self.before + self.behind
        if self.is_ceil:  # Limit the size: a larger window has no rows of the image other than at its start.
            self.size = min(self.size, (padded_rows - 1) // self.apart + 1)
        last_start = padded_rows - self.span
        self.count = max(0, last_start // self.step + 1)
        if self.is_ceil and last_start % self.step and self.count * self.step < self.rows + self.before:
            self.count += 1

    @property
    def span(self) -> int:
        """Return the number of rows from the first to the last element of a window."""
        return (self.size - 1) * self.apart + 1

    @property
    def after(self) -> int:
        """Return the number of rows to add after the image to complete the last window.

        The number is negative if the last rows of the image are in no window.
        """
        return (self.count - 1) * self.step + self.span - self.rows - self.before

    def places(self) -> Array:
        """Return the row of each element of each window, [windows, size].

        Rows in the padding are negative or too large.
        """
        return np.arange(self.count)[:, None] * self.step - self.before + np.arange(self.size) * self.apart

    def divisors(self, counts_padding: bool) -> Array:
        """Return the number by which the sum of each window is divided in a mean, [windows]."""
        first, last = (-self.before, self.rows + self.behind) if counts_padding else (0, self.rows)
        begins = np.arange(self.count) * self.step - self.before

        def before(edge: int) -> Array:
            """Count the elements of each window whose row is below `edge`."""
            return np.clip(-((begins - edge) // self.apart), 0, self.size)

        return before(last) - before(first)


def over_windows(kind: str, x: Tensor, dims: Sequence[Windows]) -> Tensor:
    """Reduce each window of the last dims of x; `kind` is `add` or `maximum`."""
    combine = elementwise.maximum if kind == "maximum" else elementwise.add
    neutral = extreme("maximum", x.type.dtype) if kind == "maximum" else 0
    batch_dims = x.ndim - len(dims)
    ones, zeros = [1] * batch_dims, [0] * batch_dims
    return windows(combine, x, neutral, ones + [d.size for d in dims], ones + [d.step for d in dims],
                   zeros + [d.before for d in dims], zeros + [d.after for d in dims], ones + [d.apart for d in dims])  # fmt: skip
