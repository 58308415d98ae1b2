"""What tests of kernels share: tiles that are small enough to be built and emulated quickly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from meshgen.codegen.emit import attention, attention_gradient, map_tiles
from meshgen.kernels.attention import gradient_tiles, tiles


@pytest.fixture
def one_element_per_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """In maps, whose threads compute eight at most: the code of a function is there once."""
    monkeypatch.setattr(map_tiles, "_BLOCK", 32)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention in blocks of at most 64 rows, as many as a warp group multiplies at once, and its gradients in those of 32; 32 steps of each."""

    def small(function: Callable[..., tuple[Any, ...]], rows: int) -> Callable[..., tuple[Any, ...]]:
        def found(*args: Any, **options: Any) -> tuple[Any, ...]:
            shrunk = [replace(t, m=min(t.m, rows), n=min(t.n, 32), num_warps=4) for t in function(*args, **options)]
            return tuple(dict.fromkeys(shrunk))

        return found

    monkeypatch.setattr(attention, "tiles", small(tiles, 64))
    monkeypatch.setattr(attention_gradient, "gradient_tiles", small(gradient_tiles, 32))
