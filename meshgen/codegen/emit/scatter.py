"""Scatter kernels: each element of the result finds its updates and applies them in order.

    result[r, c] = f(... f(operand[r, c], updates[k0, c]) ..., updates[k1, c])      for k0 < k1 < ... with indices[k] =
    r

This needs no atomics, and results have the same bits on every run. The pass `scatter_to_rows` has turned
updates into entire rows, and has sorted them by index if there are many: a binary search then finds the
updates of a row. A few unsorted updates are checked one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.guards import Guard, Guards
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.regions import from_region_dtype, held, region_function, several
from meshgen.codegen.emit.rows import power
from meshgen.codegen.expr import ZERO, Expr, Var
from meshgen.codegen.index_code import clamped, integer, lanes, program_id
from meshgen.errors import CodegenError
from meshgen.ir.graph import Node, Value
from meshgen.ops.triton.registers import unsupported

_BLOCK = 256  # elements of a tile; chosen: 2 per thread of 4 warps
# A tile is part of one row if the row has at least this many elements; chosen: at least half of each tile is used.
_WIDE = 128


def emit_scatter(evaluator: Evaluator, node: Node) -> Launch:
    """Write the kernel of a `scatter` of rows.

    Raises:
        CodegenError: MG0301, for any other scatter.
    """
    if not is_of_rows(node):
        raise CodegenError(unsupported(node))
    return _Scatter(evaluator, node).emit()


def is_of_rows(node: Node) -> bool:
    """Whether a scatter combines entire rows of its operands with rows of updates, with one index per row of updates."""
    a = node.attrs
    dims = (tuple(a.update_window_dims), tuple(a.inserted_window_dims), tuple(a.scatter_dims_to_operand_dims))
    ranks = (node.operands[0].type.rank, node.operands[len(node.operands) // 2].type.rank, a.index_vector_dim)
    return dims == ((1,), (0,), (0,)) and ranks == (2, 2, 1) and not a.input_batching_dims


class _Scatter:
    """Writer of the source of one scatter kernel."""

    def __init__(self, evaluator: Evaluator, node: Node) -> None:
        self.evaluator, self.node = evaluator, node
        self.count = len(node.operands) // 2
        self.operands, self.indices = node.operands[: self.count], node.operands[self.count]
        self.updates = node.operands[self.count + 1 :]
        self.rows, self.width = self.operands[0].type.sizes
        self.num_updates = self.indices.type.sizes[0]
        self.combine = region_function(evaluator, node.regions[0], "combine")
        self.row, self.col = ZERO, ZERO
        self.launch = Launch((1, 1, 1), {}, 1, 1)

    def emit(self) -> Launch:
        self._begin()
        totals = self._operands()
        if self.num_updates and self.node.attrs.indices_are_sorted:
            self._apply_sorted(totals)
        elif self.num_updates:
            self._apply_unsorted(totals)
        for position, value in enumerate(self.evaluator.body.outputs):
            text = totals[self.node.results.index(value)]
            code = from_region_dtype(text, value.type.dtype)
            self.evaluator.put(position, (self.row, self.col), code)
        return self.launch

    @property
    def _over(self) -> tuple[Var, ...]:
        """Return the tile variables that the row index varies with."""
        return self.evaluator.over(self.row)

    def _begin(self) -> None:
        """Write the index variables of a tile, which is part of one row or spans several short rows."""
        evaluator = self.evaluator
        program = evaluator.widened(program_id())
        if self.rows * self.width == 1:
            return
        if self.width >= _WIDE:
            block = min(power(self.width), _BLOCK)
            per_row = -(-self.width // block)
            evaluator.let("tile", program)
            evaluator.let("row", integer("tile") // per_row, f"  # of {self.rows}")
            evaluator.let("i", integer("tile") % per_row * "BLOCK" + lanes("BLOCK"), f"  # of {self.width}")
            edge = integer("i").below(self.width) if self.width % block else ""
            evaluator.tile.edges = {Var("i", 0, self.width - 1): edge}
            self.row, self.col = ex.variable("row", self.rows), ex.variable("i", self.width)
            grid = self.rows * per_row
        else:
            size = self.rows * self.width
            block = min(power(size), _BLOCK)
            evaluator.let("i", program * "BLOCK" + lanes("BLOCK"), f"  # of {self.rows} rows of {self.width}")
            evaluator.tile.edges = {Var("i", 0, size - 1): integer("i").below(size) if size % block else ""}
            flat = ex.variable("i", size)
            self.row, self.col = flat // self.width, flat % self.width
            grid = -(-size // block)
        self.launch = Launch((grid, 1, 1), {"BLOCK": block}, max(1, min(4, block // 64)), 1)

    def _operands(self) -> list[str]:
        """Load the operands' elements, broadcast them to the entire tile, and return their variables."""
        totals = list[str]()
        for value in self.operands:
            text = held(self.evaluator.in_register(self.evaluator.value(value, (self.row, self.col))))
            if self.launch.constants and not self.evaluator.spans(text):
                text = f"tl.broadcast_to({text}, (BLOCK,))"
            totals.append(self.evaluator.assign("total", text))
        return totals

    def _update(self, values: Sequence[Value], at: Expr, guards: Guards = ()) -> list[str]:
        return [held(self.evaluator.in_register(self.evaluator.value(v, (at, self.col), guards))) for v in values]

    def _apply(self, totals: list[str], updates: list[str], taken: str) -> None:
        """Combine the totals with another update, in the lanes where the condition `taken` holds ("" for all lanes)."""
        evaluator = self.evaluator
        call = f"{self.combine}({several([*totals, *updates])})"
        if not taken:
            evaluator.write(f"{several(totals)} = {call}")
            return
        combined = [evaluator.names.fresh("combined") for _ in totals]
        evaluator.write(f"{several(combined)} = {call}")
        for total, new in zip(totals, combined, strict=True):
            evaluator.write(f"{total} = tl.where({taken}, {new}, {total})")

    def _apply_unsorted(self, totals: list[str]) -> None:
        """Write a loop over all updates that applies the updates whose index is the row of the lane."""
        evaluator = self.evaluator
        evaluator.loop("k", 0, self.num_updates)
        at = ex.variable("k", self.num_updates)
        key = evaluator.value(self.indices, (at, ZERO))
        taken = evaluator.assign("taken", integer(key.text).compared("==", self.row))
        guard = Guard(taken, self._over)
        self._apply(totals, self._update(self.updates, at, (guard,)), taken)
        evaluator.close()

    def _apply_sorted(self, totals: list[str]) -> None:
        """Write a binary search for the updates of each row, and a loop that applies these updates."""
        evaluator = self.evaluator
        begin, end = self._search()
        length = f"{end} - {begin}"
        evaluator.loop("k", 0, f"tl.max({length}, axis=0)" if self._over else length)
        position = evaluator.assign("next", integer(begin) + "k")
        taken = evaluator.assign("taken", integer(position).below(end)) if self._over else ""
        guards = (Guard(taken, self._over),) if taken else ()
        self._apply(totals, self._update(self.updates, self._clamped(position), guards), taken)
        evaluator.close()

    def _search(self) -> tuple[str, str]:
        """Write two binary searches in the sorted indices, and return the variables of the first and end position of
        the row's updates.
        """
        evaluator = self.evaluator
        row = ex.render(self.row)
        steps = self.num_updates.bit_length()
        start = f"({row}) * 0" if self.row.terms else "tl.full([], 0, tl.int32)"
        bounds = [evaluator.assign(name, start) for name in ("begin", "end")]
        evaluator.loop("k", 0, steps)
        for bound, sign in zip(bounds, ("<", "<="), strict=True):
            probe = evaluator.assign("probe", f"{bound} + ({1 << steps - 1} >> k)")
            key = evaluator.value(self.indices, (self._clamped(f"{probe} - 1"), ZERO))
            evaluator.write(
                f"{bound} = tl.where(({probe} <= {self.num_updates}) & ({key.text} {sign} {row}), {probe}, {bound})"
            )
        evaluator.close()
        return bounds[0], bounds[1]

    def _clamped(self, text: str) -> Expr:
        """Return the position `text` of an update as a variable for index expressions, clamped to the range of updates."""
        if self.num_updates == 1:
            return ZERO
        position = integer(text).bracketed().to("tl.int32")
        name = self.evaluator.assign("at", clamped(position, 0, self.num_updates - 1))
        var = Var(name, 0, self.num_updates - 1)
        self.evaluator.data_over[var] = self._over
        return Expr(((var, 1),))
