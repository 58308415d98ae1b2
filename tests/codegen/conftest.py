"""Fixtures for kernel tests: tiles that are small enough to be built and emulated quickly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from meshgen.codegen import triton_source
from meshgen.codegen.emit import attention, attention_gradient, dot_operands, gemm, matmul_tiles
from meshgen.codegen.emit import elementwise_tiles as map_tiles
from meshgen.codegen.emit.plan import KernelPlan
from meshgen.codegen.emit.segmented import Segments
from meshgen.codegen.roofline.kernel_time import device_of
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph
from meshgen.kernels.attention import gradient_tiles, tiles
from meshgen.kernels.matmul import TMA_K, Tile, candidates, staged_bytes


@pytest.fixture
def two_multiprocessors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give devices two multiprocessors and a proportional share of peak FLOPS and L2 bandwidth.

    Small GEMMs then use large tiles.
    """

    def part_of(target: str) -> Device:
        device = device_of(target)
        part = 2 / device.multiprocessors
        peaks = {numbers: peak * part for numbers, peak in device.peaks.items()}
        return replace(device, peaks=peaks, l2_bandwidth=device.l2_bandwidth * part, multiprocessors=2)

    monkeypatch.setattr(triton_source, "device_of", part_of)


@pytest.fixture
def tma_from_shorter_k(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the minimum contracted size for TMA descriptors to three quarters of the production value."""
    monkeypatch.setattr(dot_operands, "TMA_K", TMA_K * 3 // 4)


@pytest.fixture
def one_element_per_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each thread of an element-wise kernel compute one element, so that the kernel's code contains each op once."""
    monkeypatch.setattr(map_tiles, "_BLOCK", 32)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit attention blocks to 64 rows (one warp group's MMA), gradient blocks to 32 rows, and both to 32 columns."""

    def small(function: Callable[..., tuple[Any, ...]], rows: int) -> Callable[..., tuple[Any, ...]]:
        def shrunk_tiles(*args: Any, **options: Any) -> tuple[Any, ...]:
            shrunk = [replace(t, m=min(t.m, rows), n=min(t.n, 32), num_warps=4) for t in function(*args, **options)]
            return tuple(dict.fromkeys(shrunk))

        return shrunk_tiles

    monkeypatch.setattr(attention, "tiles", small(tiles, 64))
    monkeypatch.setattr(attention_gradient, "gradient_tiles", small(gradient_tiles, 32))


@pytest.fixture
def narrow_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offer only the large GEMM tiles, narrowed to a quarter of their columns."""
    plan_body = triton_source.plan_body

    def large(dtype: str, arch: str) -> tuple[Tile, ...]:
        return tuple(tile for tile in candidates(dtype, arch) if tile.m * tile.n >= 128 * 128)

    def narrowed(body: Graph, device: Device, recorded: str = "") -> KernelPlan:
        plan = plan_body(body, device, recorded)
        return replace(plan, candidates=tuple(_narrowed(candidate) for candidate in plan.candidates))

    def staged(tile: Tile, item_bytes: int) -> int:
        return staged_bytes(replace(tile, n=4 * tile.n), item_bytes)

    monkeypatch.setattr(gemm, "staged_bytes", staged)  # As in production, one block fills a multiprocessor.
    monkeypatch.setattr(matmul_tiles, "candidates", large)
    monkeypatch.setattr(triton_source, "plan_body", narrowed)


def _narrowed(candidate: Tile | Segments) -> Tile | Segments:
    if isinstance(candidate, Tile):
        return replace(candidate, n=candidate.n // 4)
    return candidate._replace(tile=candidate.tile and replace(candidate.tile, n=candidate.tile.n // 4))
