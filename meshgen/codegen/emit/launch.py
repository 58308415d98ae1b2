"""How a generated kernel is launched."""

from __future__ import annotations

from typing import NamedTuple


class Launch(NamedTuple):
    """Grid, compile-time constants of the entry function, and Triton's options."""

    grid: tuple[int, int, int]
    constants: dict[str, int]
    num_warps: int
    num_stages: int
