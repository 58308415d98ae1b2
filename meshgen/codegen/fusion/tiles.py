"""Tiles of kernels that reduce: the number of rows in registers at a time, and the number of elements of each row."""

from __future__ import annotations

import math
from typing import NamedTuple

from meshgen.codegen.fusion.space import Space

# Most elements of a row that the registers of one block hold: 64 KiB of f32, a quarter of an SM's register file.
WHOLE_ROW = 16384
# Elements that a block reads at a time of a row longer than `WHOLE_ROW`. Chosen: a quarter of `WHOLE_ROW`.
CHUNK = 4096
# Elements of a tile of a kernel with its own loop nest. Chosen: half of `CHUNK`, as a fold keeps several values per
# element.
_NEST_ELEMENTS = 2048


class Shape(NamedTuple):
    """The shape of a tile of kept x reduced elements, and the sizes of the reduction.

    Attributes:
        kept, reduced: number of results, and number of elements that are reduced to each result.
        kept_block, reduced_block: size of the tile along the kept and the reduced dim.
        rows_reduced: whether the reduced dim is the tile's first, so that memory is contiguous along the kept dim.
    """

    kept: int
    reduced: int
    kept_block: int
    reduced_block: int
    rows_reduced: bool

    @property
    def axis(self) -> int:
        return 0 if self.rows_reduced else 1

    @property
    def loops(self) -> bool:
        return self.reduced > self.reduced_block


def tile_shape(space: Space, multiprocessors: int) -> Shape:
    """Return the tile of a kernel that reduces, given its iteration space.

    If the last dim is reduced, the tile has whole rows or chunks of rows. Otherwise, it has columns of kept elements.
    """
    kept = math.prod(v.high + 1 for v in space.dims if v not in space.reduced)
    reduced = math.prod(v.high + 1 for v in space.reduced)
    is_contiguous = not space.dims or not space.reduced or space.dims[-1] in space.reduced
    return reduction_shape(kept, reduced, is_contiguous, multiprocessors)


def reduction_shape(kept: int, reduced: int, is_contiguous: bool, multiprocessors: int) -> Shape:
    """Return the tile of a reduction of `reduced` elements to each of `kept` results.

    `is_contiguous`: whether the last dim in memory is reduced.
    """
    if is_contiguous:
        block = _power(reduced) if reduced <= WHOLE_ROW else CHUNK
        rows = min(max(1, 2048 // block), _power(kept), max(1, _power(kept // (2 * multiprocessors) + 1)))
        return Shape(kept, reduced, rows, block, False)
    columns = min(64, _power(kept))
    return Shape(kept, reduced, columns, min(_power(reduced), max(4096 // columns, 16)), True)


def nest_shape(kept: int, reduced: int, is_contiguous: bool) -> Shape:
    """Return the tile of a kernel that folds or scans rows: whole rows if they are short and contiguous, else chunks."""
    if is_contiguous:
        block = min(_power(reduced), _NEST_ELEMENTS)
        return Shape(kept, reduced, min(_power(kept), max(1, _NEST_ELEMENTS // block)), block, False)
    columns = min(64, _power(kept))
    return Shape(kept, reduced, columns, min(_power(reduced), max(_NEST_ELEMENTS // columns, 16)), True)


def _power(size: int) -> int:
    """Return the least power of two that is at least `size`."""
    return 1 << max(0, size - 1).bit_length()
