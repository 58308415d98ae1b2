"""Windows over the last dims of images [..., rows, ...], as the pools of PyTorch and ONNX take them."""

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
    """The windows along one dim of an image.

    Attributes:
        rows: the size of the dim.
        size: elements of a window.
        step, apart: rows between the beginnings of two windows, and between two elements of a window.
        before, behind: rows of padding on both sides of the image.
        is_ceil: whether the last window may end outside of the padding, if it begins inside the image or in the padding before it.
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
        whole = self.rows + self.before + self.behind
        if self.is_ceil:  # of a window that is larger than the image only its beginning has rows
            self.size = min(self.size, (whole - 1) // self.apart + 1)
        reach = whole - self.span
        self.count = max(0, reach // self.step + 1)
        if self.is_ceil and reach % self.step and self.count * self.step < self.rows + self.before:
            self.count += 1

    @property
    def span(self) -> int:
        """The rows from the first element of a window to the last one."""
        return (self.size - 1) * self.apart + 1

    @property
    def after(self) -> int:
        """Rows to add behind the image, so that the last window is whole; negative where rows are in no window."""
        return (self.count - 1) * self.step + self.span - self.rows - self.before

    def places(self) -> Array:
        """Return the row of each element of each window, [windows, size]; rows of the padding are outside of the image."""
        return np.arange(self.count)[:, None] * self.step - self.before + np.arange(self.size) * self.apart

    def divisors(self, counts_padding: bool) -> Array:
        """Return how many elements a mean over each window counts, [windows]."""
        first, last = (-self.before, self.rows + self.behind) if counts_padding else (0, self.rows)
        begins = np.arange(self.count) * self.step - self.before

        def before(edge: int) -> Array:
            """The number of elements of each window whose row is below an edge."""
            return np.clip(-((begins - edge) // self.apart), 0, self.size)

        return before(last) - before(first)


def over_windows(kind: str, x: Tensor, dims: Sequence[Windows]) -> Tensor:
    """Reduce each window of x by `add` or `maximum`."""
    combine = elementwise.maximum if kind == "maximum" else elementwise.add
    neutral = extreme("maximum", x.type.dtype) if kind == "maximum" else 0
    lead = x.ndim - len(dims)
    ones, none = [1] * lead, [0] * lead
    return windows(combine, x, neutral, ones + [d.size for d in dims], ones + [d.step for d in dims],
                   none + [d.before for d in dims], none + [d.after for d in dims], ones + [d.apart for d in dims])  # fmt: skip
