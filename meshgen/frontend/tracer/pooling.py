"""Pooling windows over the last dims of images [..., rows, ...], with the parameters of PyTorch and ONNX."""

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
    """The pooling windows along one dim of an image.

    Attributes:
        rows: the size of the dim.
        size: elements of a window.
        step, apart: the stride between windows, and the dilation, in rows.
        before, behind: rows of padding on both sides of the image.
        is_ceil: whether the last window may extend beyond the padding, if it starts inside the image or the padding
            before.
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
        if self.is_ceil:  # Only the start of a window that is larger than the image contains rows of it.
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
        """Return the rows to add behind the image to complete the last window.

        The number is negative if rows at the end are in no window.
        """
        return (self.count - 1) * self.step + self.span - self.rows - self.before

    def places(self) -> Array:
        """Return the row of each element of each window, [windows, size]; rows in the padding are out of bounds."""
        return np.arange(self.count)[:, None] * self.step - self.before + np.arange(self.size) * self.apart

    def divisors(self, counts_padding: bool) -> Array:
        """Return the number of elements in the mean of each window, [windows]."""
        first, last = (-self.before, self.rows + self.behind) if counts_padding else (0, self.rows)
        begins = np.arange(self.count) * self.step - self.before

        def before(edge: int) -> Array:
            """Count the elements of each window whose row is below `edge`."""
            return np.clip(-((begins - edge) // self.apart), 0, self.size)

        return before(last) - before(first)


def over_windows(kind: str, x: Tensor, dims: Sequence[Windows]) -> Tensor:
    """Reduce each window of x by `add` or `maximum`."""
    combine = elementwise.maximum if kind == "maximum" else elementwise.add
    neutral = extreme("maximum", x.type.dtype) if kind == "maximum" else 0
    batch_dims = x.ndim - len(dims)
    ones, zeros = [1] * batch_dims, [0] * batch_dims
    return windows(combine, x, neutral, ones + [d.size for d in dims], ones + [d.step for d in dims],
                   zeros + [d.before for d in dims], zeros + [d.after for d in dims], ones + [d.apart for d in dims])  # fmt: skip
