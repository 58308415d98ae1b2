"""The tile of a kernel that reduces: how many rows are in registers at once, and how much of each."""

from __future__ import annotations

import math
from typing import NamedTuple

from meshgen.codegen.fusion.space import Space

WHOLE_ROW = 16384  # elements of a row that registers of one block hold
CHUNK = 4096  # elements that a block reads at once of a longer row
_NEST_ELEMENTS = 2048  # of a tile of a kernel of its own


class Shape(NamedTuple):
    """The tile: kept x reduced elements, and whether the reduced ones are contiguous in memory."""

    kept: int
    reduced: int
    kept_block: int
    reduced_block: int
    rows_reduced: bool  # the reduced dim is the tile's first: memory is contiguous along the kept one

    @property
    def axis(self) -> int:
        return 0 if self.rows_reduced else 1

    @property
    def loops(self) -> bool:
        return self.reduced > self.reduced_block


def tile_shape(space: Space, multiprocessors: int) -> Shape:
    """Rows in registers where the last dim is reduced; else columns of kept elements with chunks of rows."""
    kept = math.prod(v.high + 1 for v in space.dims if v not in space.reduced)
    reduced = math.prod(v.high + 1 for v in space.reduced)
    is_contiguous = not space.dims or not space.reduced or space.dims[-1] in space.reduced
    return reduction_shape(kept, reduced, is_contiguous, multiprocessors)


def reduction_shape(kept: int, reduced: int, is_contiguous: bool, multiprocessors: int) -> Shape:
    """Return the tile of a reduction; `is_contiguous`: the last dim is reduced."""
    if is_contiguous:
        block = _power(reduced) if reduced <= WHOLE_ROW else CHUNK
        rows = min(max(1, 2048 // block), _power(kept), max(1, _power(kept // (2 * multiprocessors) + 1)))
        return Shape(kept, reduced, rows, block, False)
    columns = min(64, _power(kept))
    return Shape(kept, reduced, columns, min(_power(reduced), max(4096 // columns, 16)), True)


def nest_shape(kept: int, reduced: int, is_contiguous: bool) -> Shape:
    """Return the tile of a kernel of its own that folds or scans rows: whole rows where they are short and contiguous, else chunks."""
    if is_contiguous:
        block = min(_power(reduced), _NEST_ELEMENTS)
        return Shape(kept, reduced, min(_power(kept), max(1, _NEST_ELEMENTS // block)), block, False)
    columns = min(64, _power(kept))
    return Shape(kept, reduced, columns, min(_power(reduced), max(_NEST_ELEMENTS // columns, 16)), True)


def _power(size: int) -> int:
    """The least power of two that is not below `size`."""
    return 1 << max(0, size - 1).bit_length()
