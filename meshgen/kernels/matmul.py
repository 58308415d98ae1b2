"""GEMM tiles: the shapes that compile well on each architecture.

The candidates were checked with ptxas for sm_80 and sm_90: none spills, and all fit in shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from meshgen.kernels.architectures import MMA, tensor_cores

# least columns of an epilogue subtile: with fewer, a store of 2-byte elements writes less than 64 bytes per row
MIN_SUBTILE_COLUMNS = 32
# Requirements on GEMM operands that tensor descriptors copy as TMA tiles.
# Least number of contracted elements; chosen: with fewer, creating the descriptors takes a large part of the kernel's
# time.
TMA_K = 512
TMA_ROWS = 64  # least rows of a tile: one instruction multiplies 64 rows (PTX ISA 8.7, wgmma.mma_async)
TMA_BYTES = (1, 2)  # sizes of an element in bytes: tensor cores do not multiply full-precision f32
# bytes to which the address and the strides must be aligned (CUDA driver API, cuTensorMapEncodeTiled)
TMA_ALIGNMENT = 16
SPECIALIZED_GROUPS = 3  # warp groups of a warp-specialized kernel: one copies, two multiply
# Tiles along m that neighboring programs visit first. chosen: they share columns of the right operand in the L2 cache.
GROUP_M = 8


@dataclass(frozen=True)
class Tile:
    """The sizes and launch options of a GEMM tile.

    The epilogue processes the accumulator in `parts` subtiles of `n / parts` columns, one after the other. In
    warp-specialized kernels each subtile is an accumulator of its own, because Triton 3.6 cannot split a
    register tile that two warp groups hold.

    Attributes:
        speed: the fraction of the peak matmul rate that a multiprocessor reaches with this tile if operands are
            available in time.
        is_specialized: whether one warp group copies the operands, and each of two others multiplies half of the rows
            (`tl.range(warp_specialize=True)`). `num_warps` then counts the warps of one group, as in Triton.
    """

    m: int
    n: int
    k: int
    num_warps: int
    num_stages: int
    speed: float
    parts: int = 1
    is_specialized: bool = False

    @property
    def threads(self) -> int:
        """Return the number of threads of a block."""
        return 32 * self.num_warps * (SPECIALIZED_GROUPS if self.is_specialized else 1)

    @property
    def multiplying_threads(self) -> int:
        """Return the number of threads per block that hold the accumulator."""
        return self.threads - (32 * self.num_warps if self.is_specialized else 0)


# Tiles for bf16 and f16. Warp groups multiply 64 rows at once. With 32 columns, reading operands takes longer than
# multiplying.
_SM90 = (
    Tile(128, 256, 64, 8, 3, 1.0), Tile(128, 128, 64, 8, 3, 1.0), Tile(64, 256, 64, 4, 4, 1.0), Tile(128, 64, 64, 4, 4, 1.0),
    Tile(64, 128, 64, 4, 4, 1.0), Tile(64, 64, 64, 4, 4, 1.0), Tile(64, 64, 256, 4, 3, 1.0), Tile(64, 64, 128, 4, 4, 1.0), Tile(64, 32, 128, 4, 4, 0.67),
)  # fmt: skip
# Rows of operand tiles have 128 bytes. Accumulators of 8-bit floats exist twice, so tiles of 256 columns
# would spill.
_SM90_I8 = (
    Tile(128, 256, 128, 8, 3, 1.0), Tile(128, 128, 128, 8, 3, 1.0), Tile(128, 64, 128, 4, 4, 1.0),
    Tile(64, 128, 128, 4, 4, 1.0), Tile(64, 64, 128, 4, 4, 1.0), Tile(64, 32, 128, 4, 4, 0.67),
)  # fmt: skip
_SM90_F8 = _SM90_I8[1:]
_SM80 = (
    Tile(128, 256, 32, 8, 3, 1.0), Tile(128, 128, 32, 4, 4, 1.0), Tile(128, 64, 32, 4, 4, 0.8),
    Tile(64, 128, 32, 4, 4, 0.8), Tile(64, 64, 64, 4, 3, 0.8), Tile(64, 32, 64, 4, 4, 0.6),
    Tile(32, 64, 64, 4, 4, 0.6), Tile(16, 128, 64, 4, 4, 0.5), Tile(16, 64, 64, 4, 4, 0.4), Tile(16, 32, 128, 4, 4, 0.3),
)  # fmt: skip
# Tiles for full-precision f32, which runs on the FMA pipes, with the accumulator and both operands in registers.
_F32 = (
    Tile(128, 64, 16, 8, 3, 1.0), Tile(64, 64, 16, 4, 3, 0.9), Tile(64, 32, 32, 4, 3, 0.7),
    Tile(32, 32, 32, 4, 3, 0.5), Tile(16, 64, 32, 4, 3, 0.4), Tile(16, 32, 32, 4, 3, 0.25),
)  # fmt: skip
# Tiles for f32 multiplied by three tf32 matmuls: both operands are in registers, each as a high and a low part.
_TF32X3 = (
    Tile(128, 64, 32, 8, 3, 1.0), Tile(64, 64, 32, 4, 3, 0.8), Tile(64, 32, 32, 4, 3, 0.5),
    Tile(32, 64, 32, 4, 3, 0.5), Tile(16, 64, 32, 4, 3, 0.3), Tile(16, 32, 64, 4, 3, 0.15),
)  # fmt: skip
_F64 = (Tile(32, 32, 16, 4, 2, 1.0), Tile(16, 16, 16, 4, 2, 0.5))

# Tiles for integers that tensor cores do not support. They are multiplied and added one k at a time.
INTEGER_TILE = Tile(32, 32, 1, 4, 1, 1.0)

_OF_ANY = {"f32": _F32, "tf32x3": _TF32X3, "f64": _F64}  # tables that are the same on all architectures


@cache
def candidates(dtype: str, arch: str) -> tuple[Tile, ...]:
    """Return the tiles for operands that are multiplied as `dtype` (`meshgen/ops/precision.py`), largest first."""
    if dtype in _OF_ANY:
        return _OF_ANY[dtype]
    if tensor_cores(arch) is MMA:
        tiles = _SM80
    else:
        tiles = _SM90_F8 if dtype.startswith("f8") else _SM90_I8 if dtype == "i8" else _SM90
    # An f32 element has twice the bytes of a bf16 element, so tiles for tf32 have half the depth along k.
    return tuple(replace(tile, k=tile.k // 2) for tile in tiles) if dtype == "tf32" else tiles


def subtile_column_counts(tile: Tile) -> set[int]:
    """Return the numbers of columns that subtiles of the epilogue can have."""
    return {form.n // form.parts for form in with_parts(tile)}


@cache
def reducible_columns(dtype: str) -> frozenset[int]:
    """Return the numbers of columns that an epilogue can reduce at a time: on every architecture some tile has
    such subtiles.
    """
    columns_by_arch = [
        {n for tile in candidates(dtype, arch) for n in subtile_column_counts(tile)} for arch in ("sm_80", "sm_90")
    ]
    return frozenset(columns_by_arch[0] & columns_by_arch[1])


def staged_bytes(tile: Tile, item_bytes: int) -> int:
    """Return the bytes of shared memory that the operand tiles of all pipeline stages of a block need."""
    return (tile.m + tile.n) * tile.k * tile.num_stages * item_bytes


# Warp-specialized tiles (m, n, k, stages, parts), shortest main loop first, by the tile that they replace. Each
# entry has two lists: for results and residuals of at most 2 bytes, and for those of 4 bytes, whose layout
# conversions take more shared memory. Instructions of a warp per four that multiply (ptxas of Triton 3.6):
#     bf16            34, 25 and 53 with 256, 128 and 256 columns; 34 and 44 with 128 columns
#     i8              30 and 34
#     8-bit floats    103, 107 and 114 with 128 columns, 64 of which add sums in f32
# Without warp specialization these are 84, 70 and 138.
_Form = tuple[int, int, int, int, int]
_SPECIALIZED_16: dict[tuple[int, int], tuple[tuple[_Form, ...], tuple[_Form, ...]]] = {
    (128, 256): (((128, 256, 128, 2, 1), (128, 256, 128, 2, 2), (128, 256, 64, 4, 1), (128, 256, 64, 3, 1)), ((256, 128, 64, 3, 1), (128, 256, 64, 3, 2))),
}  # fmt: skip
_SPECIALIZED_I8: dict[tuple[int, int], tuple[tuple[_Form, ...], tuple[_Form, ...]]] = {
    (128, 256): (((128, 256, 128, 4, 1),), ((256, 128, 128, 3, 1),)),
}
# The accumulator of a step and that of all earlier steps fill the registers: with 128 columns each, or with
# 128 columns of one and 256 of the other, which is then split into subtiles.
_SPECIALIZED_F8: dict[tuple[int, int], tuple[tuple[_Form, ...], tuple[_Form, ...]]] = {
    (128, 128): (((128, 256, 128, 4, 2), (128, 256, 128, 3, 2), (128, 128, 128, 4, 1)), ((128, 256, 128, 3, 2), (128, 128, 128, 4, 1))),
}  # fmt: skip


def specialized(tile: Tile, dtype: str, is_wide: bool) -> list[Tile]:
    """Return the warp-specialized forms of a tile, shortest main loop first.

    Args:
        is_wide: whether some tile of the epilogue has elements of 4 bytes.
    """
    forms = {"bf16": _SPECIALIZED_16, "f16": _SPECIALIZED_16, "i8": _SPECIALIZED_I8}
    forms |= {"f8E4M3FN": _SPECIALIZED_F8, "f8E5M2": _SPECIALIZED_F8}
    return [
        replace(tile, m=m, n=n, k=k, num_warps=4, num_stages=stages, parts=parts, is_specialized=True)
        for m, n, k, stages, parts in forms.get(dtype, {}).get((tile.m, tile.n), ((), ()))[is_wide]
    ]


def with_parts(tile: Tile) -> list[Tile]:
    """Return the tile with its epilogue in 1, 2 and 4 subtiles. With more subtiles, fewer values are in registers at a
    time.

    Measured for bf16 8192 x 4096 x 4096 with bias, GELU and residual, 128 x 256 on sm_90 (ptxas of Triton 3.6):
    255 registers and 344 bytes of spills with one subtile, 184 registers and no spills with two.
    """
    return [replace(tile, parts=parts) for parts in (1, 2, 4) if parts == 1 or tile.n // parts >= MIN_SUBTILE_COLUMNS]
