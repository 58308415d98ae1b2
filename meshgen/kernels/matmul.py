"""Tiles of matrix products: which shapes compile well on which architecture, and which suits a problem.

The candidates were checked with ptxas for sm_80 and sm_90: none spills, all fit shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from meshgen.kernels.architectures import MMA, tensor_cores

LEAST_PART = 32  # columns of a subtile of the epilogue: below, stores of 2-byte elements fill no 64 bytes of a row
# Tensor descriptors: what operands of products must be like to be copied as TMA tiles.
TMA_K = 512  # elements of the contracted dims; chosen: below, making the descriptors takes a large part of the kernel
TMA_ROWS = 64  # rows of a tile: those that one instruction multiplies (PTX ISA 8.7, wgmma.mma_async)
TMA_BYTES = (1, 2)  # of an element: full-precision f32 is not multiplied on tensor cores
TMA_ALIGNMENT = 16  # bytes, of the address and of the strides (CUDA driver API, cuTensorMapEncodeTiled)
SPECIALIZED_GROUPS = 3  # warp groups: one that copies, two that multiply
GROUP_M = 8  # tiles of rows that share columns of the right operand while those are in the L2 cache


@dataclass(frozen=True)
class Tile:
    """Sizes of the tile and launch options. `speed` is the part of the peak rate of products at which a
    multiprocessor multiplies tiles of this size whose operands are at hand.

    The epilogue takes the accumulator in `parts` of `n / parts` columns (subtiles), one after the other; in warp-specialized kernels each subtile is an
    accumulator of its own, because Triton 3.6 cannot split what two groups of warps hold.

    Attributes:
        is_specialized: whether one warp group copies the operands, and each of two others multiplies half of the rows
            (`tl.range(warp_specialize=True)`); `num_warps` are then those of each, as Triton counts them.
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
        """Of a block."""
        return 32 * self.num_warps * (SPECIALIZED_GROUPS if self.is_specialized else 1)

    @property
    def multiplying_threads(self) -> int:
        """Those that hold the accumulator."""
        return self.threads - (32 * self.num_warps if self.is_specialized else 0)


# Warp groups multiply 64 rows at once; operands of 32 columns take longer to read from shared memory than to multiply.
_SM90 = (
    Tile(128, 256, 64, 8, 3, 1.0), Tile(128, 128, 64, 8, 3, 1.0), Tile(64, 256, 64, 4, 4, 1.0), Tile(128, 64, 64, 4, 4, 1.0),
    Tile(64, 128, 64, 4, 4, 1.0), Tile(64, 64, 64, 4, 4, 1.0), Tile(64, 64, 256, 4, 3, 1.0), Tile(64, 64, 128, 4, 4, 1.0), Tile(64, 32, 128, 4, 4, 0.67),
)  # fmt: skip
# Rows of 128 bytes; accumulators of 8-bit floats are kept twice, so tiles of 256 columns spill.
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
# f32 in full precision runs on the FMA pipes: the accumulator and both operands live in registers.
_F32 = (
    Tile(128, 64, 16, 8, 3, 1.0), Tile(64, 64, 16, 4, 3, 0.9), Tile(64, 32, 32, 4, 3, 0.7),
    Tile(32, 32, 32, 4, 3, 0.5), Tile(16, 64, 32, 4, 3, 0.4), Tile(16, 32, 32, 4, 3, 0.25),
)  # fmt: skip
# Three products of tf32 on tensor cores: both operands are in registers, each in two parts.
_TF32X3 = (
    Tile(128, 64, 32, 8, 3, 1.0), Tile(64, 64, 32, 4, 3, 0.8), Tile(64, 32, 32, 4, 3, 0.5),
    Tile(32, 64, 32, 4, 3, 0.5), Tile(16, 64, 32, 4, 3, 0.3), Tile(16, 32, 64, 4, 3, 0.15),
)  # fmt: skip
_F64 = (Tile(32, 32, 16, 4, 2, 1.0), Tile(16, 16, 16, 4, 2, 0.5))

INTEGER_TILE = Tile(32, 32, 1, 4, 1, 1.0)  # integers that no tensor core takes: multiplied and added one k at a time

_OF_ANY = {"f32": _F32, "tf32x3": _TF32X3, "f64": _F64}  # on any architecture


@cache
def candidates(dtype: str, arch: str) -> tuple[Tile, ...]:
    """Tiles for operands that are multiplied as `dtype` (`meshgen/ops/precision.py`), largest first."""
    if dtype in _OF_ANY:
        return _OF_ANY[dtype]
    if tensor_cores(arch) is MMA:
        found = _SM80
    else:
        found = _SM90_F8 if dtype.startswith("f8") else _SM90_I8 if dtype == "i8" else _SM90
    return tuple(replace(tile, k=tile.k // 2) for tile in found) if dtype == "tf32" else found  # of as many bytes


def part_columns(tile: Tile) -> set[int]:
    """Return the numbers of columns that subtiles of the epilogue can have."""
    return {form.n // form.parts for form in with_parts(tile)}


@cache
def reducible_columns(dtype: str) -> frozenset[int]:
    """Columns of the parts of rows that an epilogue can reduce: some tile has such parts on every architecture."""
    found = [{n for tile in candidates(dtype, arch) for n in part_columns(tile)} for arch in ("sm_80", "sm_90")]
    return frozenset(found[0] & found[1])


def staged_bytes(tile: Tile, item_bytes: int) -> int:
    """Bytes of shared memory that the operands of all stages take."""
    return (tile.m + tile.n) * tile.k * tile.num_stages * item_bytes


# Warp-specialized tiles, by the type that is multiplied and the tile that each stands for; first for results
# and residuals of at most 2 bytes, then for those of 4, whose changes of layout take more shared memory: (m, n, k, stages, parts), those with
# the shortest main loop first. Instructions of a warp for each four that multiply (ptxas of Triton 3.6): 34, 25 and 53 of bf16 (of 256, 128 and 256
# columns), 34 and 44 of 128 columns; 30 and 34 of i8; 103, 107 and 114 of 8-bit floats, of 128 columns, 64 of which add sums in f32; 84, 70 and 138
# where all warps copy and multiply.
_Form = tuple[int, int, int, int, int]
_SPECIALIZED_16: dict[tuple[int, int], tuple[tuple[_Form, ...], tuple[_Form, ...]]] = {
    (128, 256): (((128, 256, 128, 2, 1), (128, 256, 128, 2, 2), (128, 256, 64, 4, 1), (128, 256, 64, 3, 1)), ((256, 128, 64, 3, 1), (128, 256, 64, 3, 2))),
}  # fmt: skip
_SPECIALIZED_I8: dict[tuple[int, int], tuple[tuple[_Form, ...], tuple[_Form, ...]]] = {
    (128, 256): (((128, 256, 128, 4, 1),), ((256, 128, 128, 3, 1),)),
}
# The accumulator of a step and that of all before it fill registers for 128 columns of each, or for 128 of one and 256 of the other, which are then in subtiles.
_SPECIALIZED_F8: dict[tuple[int, int], tuple[tuple[_Form, ...], tuple[_Form, ...]]] = {
    (128, 128): (((128, 256, 128, 4, 2), (128, 256, 128, 3, 2), (128, 128, 128, 4, 1)), ((128, 256, 128, 3, 2), (128, 128, 128, 4, 1))),
}  # fmt: skip


def specialized(tile: Tile, dtype: str, is_wide: bool) -> list[Tile]:
    """Return the warp-specialized forms of a tile, those with the shortest main loop first.

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
    """Return the tile with its epilogue in 1, 2 and 4 subtiles: an epilogue of half a tile keeps half as many values in registers.

    bf16 8192 x 4096 x 4096 with bias, GELU and residual, 128 x 256 on sm_90: 255 registers and 344 bytes of spills at once, 184 and
    none in halves (ptxas of Triton 3.6).
    """
    return [replace(tile, parts=parts) for parts in (1, 2, 4) if parts == 1 or tile.n // parts >= LEAST_PART]
