"""Launch parameters of a generated kernel."""

from __future__ import annotations

from typing import NamedTuple


class Launch(NamedTuple):
    """Launch parameters of a kernel: the grid, the compile-time constants of the entry function, and Triton's launch
    options.
    """

    grid: tuple[int, int, int]
    constants: dict[str, int]
    num_warps: int
    num_stages: int
