"""Tiles of rows: kept elements x elements that a kernel reduces or scans. A tile holds entire rows, or one chunk of
each row at a time.
"""

from __future__ import annotations

import math

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.plan import spread
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.codegen.fusion.tiles import nest_shape
from meshgen.codegen.index_code import Int, integer, lanes, program_id


def power(size: int) -> int:
    """Round `size` up to a power of two."""
    return 1 << max(0, size - 1).bit_length()


class Rows:
    """A tile over the dims of a value, and the writer of the tile's index variables. Rows extend along the dims
    `along`.
    """

    def __init__(self, evaluator: Evaluator, sizes: tuple[int, ...], along: tuple[int, ...]) -> None:
        self.evaluator = evaluator
        dims = [Var(f"d{d}", 0, size - 1) for d, size in enumerate(sizes)]
        self._sizes, self._dims = sizes, dims
        kept = [v for d, v in enumerate(dims) if d not in along]
        over = [dims[d] for d in along]
        last = max((d for d, size in enumerate(sizes) if size > 1), default=-1)
        self.shape = nest_shape(math.prod(v.high + 1 for v in kept), math.prod(v.high + 1 for v in over), last in along)
        names = ("col", "row") if self.shape.rows_reduced else ("row", "col")
        self._kept, self._over = (
            ex.variable(names[0], self.shape.kept),
            ex.variable(names[1], self.shape.reduced),
        )
        self._names = names
        self._chunk: Int | None = None  # the start of the current chunk, or None outside of a loop over chunks
        self._table: dict[Var, Expr] = spread(tuple(kept), self._kept)
        self._table |= spread(tuple(over), self._over) if self.shape.reduced else {}

    @property
    def index(self) -> Index:
        """Return the index, in the value, of the tile's current elements."""
        return tuple(self._table[v] if v.high > 0 else ex.ZERO for v in self._dims)

    @property
    def is_flat(self) -> bool:
        """Whether the tile has only one dim."""
        return self.shape.kept == 1 or self.shape.reduced == 1

    @property
    def axis(self) -> int:
        return 0 if self.is_flat else self.shape.axis

    @property
    def edge(self) -> str:
        """Return the condition that an element is inside its row, or "" if it always is."""
        inside = integer(self._names[1]).below(self.shape.reduced)
        return inside if self.shape.reduced % self.shape.reduced_block else ""

    @property
    def position(self) -> str:
        """Return the source of the element's position in the chunk."""
        return self._names[1] if self._chunk is None else f"({self._names[1]} - {self._chunk})"

    def tile(self) -> str:
        """Return the source of the tile's shape."""
        sides = ["KEPT"] if self.shape.kept > 1 else []
        if self.shape.reduced > 1:
            sides.insert(0 if self.shape.rows_reduced else len(sides), "REDUCED")
        return f"({', '.join(sides)}{',' if len(sides) == 1 else ''})"

    def totals(self) -> str:
        """Return the source of the shape of a register with one element per row."""
        sides = ["KEPT" if self.shape.kept > 1 else "1"]
        sides.insert(self.axis, "1")
        return "(1,)" if self.is_flat else f"({', '.join(sides)})"

    @property
    def keep_dims(self) -> str:
        """Return the source of the argument by which a reduction keeps the reduced dim of the tile, or "" for a flat
        tile.
        """
        return "" if self.is_flat else ", keep_dims=True"

    def begin(self) -> None:
        """Write the index variable of the kept elements and, unless rows are processed in chunks, of the elements of
        the rows.
        """
        shape, evaluator = self.shape, self.evaluator
        if shape.kept > 1:
            row = evaluator.widened(program_id()) * integer("KEPT") + lanes("KEPT").turned(self._slot(False))
            evaluator.let(self._names[0], row, f"  # {shape.kept} rows")
        if shape.reduced > 1 and not shape.loops:
            evaluator.let(self._names[1], evaluator.widened(lanes("REDUCED")).turned(self._slot(True)))
        is_uneven = shape.kept % shape.kept_block
        kept = {v: integer(v.text).below(shape.kept) if is_uneven else "" for v in ex.variables(self._kept)}
        over = dict.fromkeys(ex.variables(self._over), self.edge)
        self.evaluator.tile.edges = over | kept if shape.rows_reduced else kept | over

    def open_loop(self, is_reverse: bool = False) -> None:
        """Open a loop over the chunks, starting at the last one if `is_reverse`."""
        chunks = -(-self.shape.reduced // self.shape.reduced_block)
        self.evaluator.loop("start", 0, chunks * self.shape.reduced_block, "REDUCED")
        start = integer("start")
        self._chunk = (integer(chunks - 1) * "REDUCED" - start).bracketed() if is_reverse else start
        self.evaluator.let(
            self._names[1], self._chunk + self.evaluator.widened(lanes("REDUCED")).turned(self._slot(True))
        )

    def full(self, text: str) -> str:
        """Broadcast a register to the entire tile."""
        has_all = {v.text for v in self.evaluator.tile.edges} <= self.evaluator.spans(text)
        return text if has_all or not self.evaluator.tile.edges else f"tl.broadcast_to({text}, {self.tile()})"

    def launch(self) -> Launch:
        shape = self.shape
        elements = shape.kept_block * shape.reduced_block
        constants = {"KEPT": shape.kept_block} if shape.kept > 1 else {}
        constants |= {"REDUCED": shape.reduced_block} if shape.reduced > 1 else {}
        return Launch((-(-shape.kept // shape.kept_block), 1, 1), constants, max(1, min(8, elements // 256)), 1)

    def _slot(self, is_over: bool) -> str:
        if self.is_flat:
            return ""
        return "[:, None]" if is_over == self.shape.rows_reduced else "[None, :]"
