"""Tiles of matrix products: which shapes compile well on which architecture, and which suits a problem.

The candidates were checked with ptxas for sm_80 and sm_90: none spills, all fit shared memory.
"""

from __future__ import annotations

from dataclasses import replace

from meshgen.records import dataclass

LEAST_PART = 32  # columns of a part of the epilogue: below, stores of 2-byte elements fill no 64 bytes of a row
# Tensor descriptors: what operands of products must be like to be copied as boxes (TMA), on architectures from BOX_ARCH on.
BOX_ARCH = 90
BOX_K = 512  # elements of the contracted dims; chosen: below, making the descriptors takes a large part of the kernel
BOX_ROWS = 64  # rows of a tile: those that one instruction multiplies (PTX ISA 8.7, wgmma.mma_async)
BOX_BYTES = (1, 2)  # of an element: full-precision f32 is not multiplied on tensor cores
BOX_ALIGNMENT = 16  # bytes, of the address and of the strides (CUDA driver API, cuTensorMapEncodeTiled)
GROUP_M = 8  # tiles of rows that share columns of the right operand while those are in the L2 cache


@dataclass(frozen=True)
class Tile:
    """Sizes of the tile and launch options. `speed` is the part of the peak that a full wave of tiles reaches.

    The epilogue takes the accumulator in `parts` of `n / parts` columns, one after the other.
    """

    m: int
    n: int
    k: int
    num_warps: int
    num_stages: int
    speed: float
    parts: int = 1


_SM90 = (
    Tile(128, 256, 64, 8, 3, 1.0), Tile(128, 128, 64, 8, 3, 0.85), Tile(128, 64, 64, 4, 4, 0.7),
    Tile(64, 128, 64, 4, 4, 0.7), Tile(64, 64, 64, 4, 4, 0.5), Tile(64, 32, 64, 4, 4, 0.3),
    Tile(32, 64, 64, 4, 4, 0.3), Tile(16, 128, 64, 4, 4, 0.25), Tile(16, 64, 128, 4, 4, 0.18), Tile(16, 32, 128, 4, 4, 0.1),
)  # fmt: skip
_SM80 = (
    Tile(128, 256, 32, 8, 3, 1.0), Tile(128, 128, 32, 4, 4, 0.9), Tile(128, 64, 32, 4, 4, 0.75),
    Tile(64, 128, 32, 4, 4, 0.75), Tile(64, 64, 64, 4, 3, 0.6), Tile(64, 32, 64, 4, 4, 0.4),
    Tile(32, 64, 64, 4, 4, 0.4), Tile(16, 128, 64, 4, 4, 0.3), Tile(16, 64, 64, 4, 4, 0.25), Tile(16, 32, 128, 4, 4, 0.15),
)  # fmt: skip
# f32 in full precision runs on the FMA pipes: the accumulator and both operands live in registers.
_F32 = (
    Tile(128, 64, 16, 8, 3, 1.0), Tile(64, 64, 16, 4, 3, 0.9), Tile(64, 32, 32, 4, 3, 0.7),
    Tile(32, 32, 32, 4, 3, 0.5), Tile(16, 64, 32, 4, 3, 0.4), Tile(16, 32, 32, 4, 3, 0.25),
)  # fmt: skip
_F64 = (Tile(32, 32, 16, 4, 2, 1.0), Tile(16, 16, 16, 4, 2, 0.5))


def candidates(dtype: str, arch: str) -> tuple[Tile, ...]:
    """Tiles for operands of an element type, largest first."""
    if dtype == "f32":
        return _F32
    if dtype == "f64":
        return _F64
    return _SM80 if arch in ("sm_80", "sm_86", "sm_89") else _SM90


def ranked_tiles(m: int, n: int, k: int, batch: int, dtype: str, arch: str, multiprocessors: int) -> list[Tile]:
    """The tiles by predicted time, the least first: whole waves over the multiprocessors, padding included."""
    return sorted(candidates(dtype, arch), key=lambda tile: round(_work(tile, m, n, k, batch, multiprocessors), 3))


def staged_bytes(tile: Tile, item_bytes: int) -> int:
    """Bytes of shared memory that the operands of all stages take."""
    return (tile.m + tile.n) * tile.k * tile.num_stages * item_bytes


def with_parts(tile: Tile) -> list[Tile]:
    """The tile with its epilogue in ever more parts: an epilogue of half a tile keeps half as many values in registers.

    bf16 8192 x 4096 x 4096 with bias, GELU and residual, 128 x 256 on sm_90: 255 registers and 344 bytes of spills at once, 184 and
    none in halves (ptxas of Triton 3.6).
    """
    return [replace(tile, parts=parts) for parts in (1, 2, 4) if parts == 1 or tile.n // parts >= LEAST_PART]


def slowdown(m: int, n: int, k: int, batch: int, dtype: str, arch: str, multiprocessors: int) -> float:
    """How many times longer than at the speed of large products the best tile takes: part-filled waves, padding, small tiles."""
    least = min(_work(tile, m, n, k, batch, multiprocessors) for tile in candidates(dtype, arch))
    return max(1.0, least * multiprocessors / (m * n * k * batch))


def _work(tile: Tile, m: int, n: int, k: int, batch: int, multiprocessors: int) -> float:
    """Products of elements that each multiprocessor computes one after the other, as if at the peak."""
    blocks = -(-m // tile.m) * -(-n // tile.n) * batch
    steps = -(-k // tile.k) * tile.k
    waves = max(blocks / multiprocessors, 1.0) if blocks % multiprocessors == 0 else -(-blocks // multiprocessors)
    return waves * tile.m * tile.n * steps / tile.speed
