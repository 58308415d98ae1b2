"""Attention tiles: rows of queries per program, and keys per step.

The candidates were built for sm_80 and sm_90 with causal masks, and none of them spills. Score functions
that need many registers use only the smaller tiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from meshgen.kernels.architectures import MMA, tensor_cores


@dataclass(frozen=True)
class AttentionTile:
    """The rows, the keys per step, and the launch options of an attention tile.

    Attributes:
        m: rows per program.
        n: keys per step.
        speed: speed of a program relative to the largest tile, by issue slots per key.
    """

    m: int
    n: int
    num_warps: int
    num_stages: int
    speed: float


_SMALL = (AttentionTile(32, 64, 4, 2, 0.25), AttentionTile(16, 64, 4, 2, 0.15))
_SM90 = {
    64: (AttentionTile(128, 64, 8, 3, 1.0), AttentionTile(64, 64, 4, 2, 0.6), *_SMALL),
    128: (AttentionTile(128, 128, 8, 2, 1.0), AttentionTile(128, 64, 8, 3, 0.75), AttentionTile(64, 64, 4, 2, 0.6), *_SMALL),
    256: (AttentionTile(128, 32, 8, 2, 1.0), AttentionTile(16, 32, 4, 2, 0.15)),
}  # fmt: skip
_SM80 = {
    64: (AttentionTile(128, 64, 8, 2, 1.0), AttentionTile(64, 64, 4, 2, 0.6), *_SMALL),
    128: (AttentionTile(128, 64, 8, 2, 1.0), AttentionTile(64, 64, 4, 2, 0.6), *_SMALL),
    256: (AttentionTile(64, 32, 8, 2, 1.0), AttentionTile(16, 32, 4, 2, 0.3)),
}  # fmt: skip
# Tiles for f32 that is multiplied as tf32. Their operand tiles have twice the bytes of bf16.
_TF32_SM90 = {
    64: (AttentionTile(128, 64, 8, 2, 1.0), AttentionTile(64, 64, 4, 2, 0.6), *_SMALL),
    128: (AttentionTile(128, 64, 8, 2, 1.0), AttentionTile(64, 32, 4, 2, 0.5), *_SMALL),
    256: (AttentionTile(64, 32, 8, 2, 1.0), AttentionTile(16, 32, 4, 2, 0.3)),
}  # fmt: skip
_TF32_SM80 = _TF32_SM90 | {256: (AttentionTile(64, 32, 8, 1, 1.0), AttentionTile(16, 32, 4, 2, 0.3))}
# Tiles for full-precision f32, which runs on the FMA pipes, with both operands of a matmul in registers.
_F32 = {
    64: (AttentionTile(32, 32, 8, 1, 1.0), AttentionTile(16, 32, 8, 1, 0.5)),
    128: (AttentionTile(16, 16, 8, 1, 1.0),),
}
# Tiles for f32 multiplied by three tf32 matmuls: both operands are in registers, each as a high and a low part.
_ROW = AttentionTile(16, 32, 4, 2, 0.2)
_TF32X3_SM80 = {64: (_ROW,), 128: (_ROW,)}
_TF32X3_SM90 = {64: (AttentionTile(128, 32, 8, 2, 1.0), AttentionTile(64, 32, 4, 2, 0.6), _ROW),
                128: (AttentionTile(128, 16, 8, 1, 1.0), _ROW)}  # fmt: skip
_OLDER = {"f32": _F32, "tf32x3": _TF32X3_SM80, "tf32": _TF32_SM80}
_NEWER = {"f32": _F32, "tf32x3": _TF32X3_SM90, "tf32": _TF32_SM90}


def widest_head(dtype: str) -> int:
    """Return the largest head size for which an attention tile exists.

    `dtype` is the format in which operands are multiplied (`meshgen/ops/precision.py`).
    """
    return max(_table(dtype, "sm_80"))


def _table(dtype: str, arch: str) -> Mapping[int, tuple[AttentionTile, ...]]:
    """Return a map from the largest head size that a list of tiles supports to these tiles."""
    if tensor_cores(arch) is MMA:
        return _OLDER.get(dtype, _SM80)
    return _NEWER.get(dtype, _SM90)


def tiles(
    rows: int, batch: int, keys: int, head: int, dtype: str, arch: str, multiprocessors: int, *, is_heavy: bool
) -> tuple[AttentionTile, ...]:
    """Return the attention tiles for `batch` times `rows` queries of head size up to `head`, fastest predicted first.

    Args:
        is_heavy: whether the score function needs many registers, which rules out tiles with 128 keys.
    """
    supported = _of_width(_table(dtype, arch), head)
    return _ordered(
        [t for t in supported if not (is_heavy and t.n > 64)], supported[-1], rows, batch, keys, multiprocessors
    )


def _of_width(table: Mapping[int, tuple[AttentionTile, ...]], width: int) -> tuple[AttentionTile, ...]:
    return table[min(size for size in table if size >= width)]


def _ordered(
    candidates: Iterable[AttentionTile], least: AttentionTile, rows: int, batch: int, steps: int, multiprocessors: int
) -> tuple[AttentionTile, ...]:
    """Return the tiles with less than twice the needed rows, and `least` in any case, fastest predicted first.

    A block of the returned tiles does not extend past the last step by more than its padding to a power of two.
    """

    def work(tile: AttentionTile) -> float:
        waves = -(-(-(-rows // tile.m) * batch) // multiprocessors)
        return waves * tile.m / tile.speed

    block = 1 << max(4, (steps - 1).bit_length())
    ordered = sorted((tile for tile in candidates if tile.m < 2 * rows or tile is least), key=work)
    return tuple(dict.fromkeys(replace(tile, n=min(tile.n, block)) for tile in ordered))


# Tiles for gradients, built for sm_80 and sm_90 with causal masks. With two accumulators of long rows, the largest
# tiles spill.
_GRADIENTS = {
    64: (AttentionTile(128, 64, 8, 2, 1.0), AttentionTile(128, 32, 8, 2, 0.85), AttentionTile(64, 64, 4, 2, 0.7), AttentionTile(64, 32, 4, 2, 0.55),
         AttentionTile(32, 32, 4, 2, 0.3), AttentionTile(16, 32, 4, 2, 0.15)),
    128: (AttentionTile(128, 64, 8, 2, 1.0), AttentionTile(128, 32, 8, 2, 0.85), AttentionTile(64, 64, 8, 2, 0.6), AttentionTile(64, 32, 4, 2, 0.55),
          AttentionTile(32, 32, 4, 2, 0.3), AttentionTile(16, 32, 4, 1, 0.15)),
    256: (AttentionTile(64, 32, 8, 2, 1.0), AttentionTile(32, 32, 8, 1, 0.5), AttentionTile(16, 16, 8, 1, 0.3)),
}  # fmt: skip
_F32_GRADIENTS = {  # tiles for gradients in full-precision f32, or f32 multiplied by three tf32 matmuls
    64: (AttentionTile(32, 32, 8, 1, 1.0), AttentionTile(32, 16, 8, 1, 0.7), AttentionTile(16, 16, 8, 1, 0.5)),
    128: (AttentionTile(32, 16, 8, 1, 1.0), AttentionTile(16, 16, 8, 1, 0.7)),
}
_TF32_GRADIENTS = {
    64: (AttentionTile(64, 32, 4, 2, 1.0), AttentionTile(32, 32, 4, 2, 0.6), *_F32_GRADIENTS[64]),
    128: (AttentionTile(64, 32, 8, 2, 1.0), AttentionTile(32, 32, 8, 1, 0.6), *_F32_GRADIENTS[128]),
}
_GRADIENTS_OF = {"f32": _F32_GRADIENTS, "tf32x3": _F32_GRADIENTS, "tf32": _TF32_GRADIENTS}
# Most elements of a block of scores beside two accumulators of more than 64 columns. Larger blocks spill.
_MOST_OF_TWO = 4096


def widest_gradient(dtype: str) -> int:
    """Return the largest head size for which a tile for attention gradients exists.

    `dtype` is the format in which operands are multiplied.
    """
    return max(_GRADIENTS_OF.get(dtype, _GRADIENTS))


def gradient_tiles(
    rows: int, steps: int, batch: int, head: int, sums: int, dtype: str, multiprocessors: int
) -> tuple[AttentionTile, ...]:
    """Return the tiles for `batch` times `rows` gradients, each a sum over `steps` positions, of head size up to
    `head`.

    The fastest predicted tile comes first.

    Args:
        sums: the number of accumulators of a row.
    """
    supported = _of_width(_GRADIENTS_OF.get(dtype, _GRADIENTS), head)
    fitting = [t for t in supported if sums == 1 or head <= 64 or t.m * t.n <= _MOST_OF_TWO]
    return _ordered(fitting, supported[-1], rows, batch, steps, multiprocessors)
