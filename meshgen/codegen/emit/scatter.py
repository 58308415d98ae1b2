"""Scatters: each element of the result looks for its updates, and takes them in order.

    result[r, c] = f(... f(operand[r, c], updates[k0, c]) ..., updates[k1, c])      for k0 < k1 < ... with indices[k] = r

So results have the same bits on every run, without atomics. `passes/scatter_to_rows` has made updates whole rows, in the order of their
indices where there are many: a binary search finds those of a row. A few unordered ones are all looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.guards import Guard, Guards
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.regions import given_back, held, region_function, several
from meshgen.codegen.emit.rows import power
from meshgen.codegen.expr import ZERO, Expr, Var
from meshgen.codegen.index_code import clamped, integer, lanes, program_id
from meshgen.errors import CodegenError
from meshgen.ir.graph import Node, Value
from meshgen.ops.triton.registers import unsupported

_BLOCK = 256  # elements of a tile
_WIDE = 128  # elements of a row from which on a tile is in one row


def emit_scatter(evaluator: Evaluator, node: Node) -> Launch:
    """Write the kernel of a `scatter` of rows. Raises CodegenError (MG0301) for any other one."""
    if not is_of_rows(node):
        raise CodegenError(unsupported(node))
    return _Scatter(evaluator, node).emit()


def is_of_rows(node: Node) -> bool:
    """Whether a scatter combines rows of updates with rows of its operands, by one index each."""
    a = node.attrs
    dims = (tuple(a.update_window_dims), tuple(a.inserted_window_dims), tuple(a.scatter_dims_to_operand_dims))
    ranks = (node.operands[0].type.rank, node.operands[len(node.operands) // 2].type.rank, a.index_vector_dim)
    return dims == ((1,), (0,), (0,)) and ranks == (2, 2, 1) and not a.input_batching_dims


class _Scatter:
    """State while one kernel is written."""

    def __init__(self, evaluator: Evaluator, node: Node) -> None:
        self.evaluator, self.node = evaluator, node
        self.count = len(node.operands) // 2
        self.operands, self.indices = node.operands[: self.count], node.operands[self.count]
        self.updates = node.operands[self.count + 1 :]
        self.rows, self.width = self.operands[0].type.sizes
        self.number = self.indices.type.sizes[0]
        self.combine = region_function(evaluator, node.regions[0], "combine")
        self.row, self.col = ZERO, ZERO
        self.launch = Launch((1, 1, 1), {}, 1, 1)

    def emit(self) -> Launch:
        self._begin()
        totals = self._operands()
        if self.number and self.node.attrs.indices_are_sorted:
            self._of_ordered(totals)
        elif self.number:
            self._of_all(totals)
        for number, value in enumerate(self.evaluator.body.outputs):
            text = totals[self.node.results.index(value)]
            code = given_back(text, value.type.dtype)
            self.evaluator.put(number, (self.row, self.col), code)
        return self.launch

    @property
    def _over(self) -> tuple[Var, ...]:
        """Tile variables with which the row varies."""
        return self.evaluator.over(self.row)

    def _begin(self) -> None:
        """Write the elements of a tile: in one row, or of several that are short."""
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
        """Registers of the whole tile with the operands' elements."""
        found = list[str]()
        for value in self.operands:
            text = held(self.evaluator.in_register(self.evaluator.value(value, (self.row, self.col))))
            if self.launch.constants and not self.evaluator.spans(text):
                text = f"tl.broadcast_to({text}, (BLOCK,))"
            found.append(self.evaluator.assign("total", text))
        return found

    def _update(self, values: Sequence[Value], at: Expr, guards: Guards = ()) -> list[str]:
        return [held(self.evaluator.in_register(self.evaluator.value(v, (at, self.col), guards))) for v in values]

    def _combined(self, totals: list[str], found: list[str], taken: str) -> None:
        """Write the totals with one more update, in the lanes that take it."""
        evaluator = self.evaluator
        call = f"{self.combine}({several([*totals, *found])})"
        if not taken:
            evaluator.write(f"{several(totals)} = {call}")
            return
        news = [evaluator.names.fresh("combined") for _ in totals]
        evaluator.write(f"{several(news)} = {call}")
        for total, new in zip(totals, news, strict=True):
            evaluator.write(f"{total} = tl.where({taken}, {new}, {total})")

    def _of_all(self, totals: list[str]) -> None:
        """Look at each update."""
        evaluator = self.evaluator
        evaluator.loop("k", 0, self.number)
        at = ex.variable("k", self.number)
        key = evaluator.value(self.indices, (at, ZERO))
        taken = evaluator.assign("taken", integer(key.text).compared("==", self.row))
        guard = Guard(taken, self._over)
        self._combined(totals, self._update(self.updates, at, (guard,)), taken)
        evaluator.close()

    def _of_ordered(self, totals: list[str]) -> None:
        """Search the first update of the row, and the first one after it."""
        evaluator = self.evaluator
        begin, end = self._search()
        length = f"{end} - {begin}"
        evaluator.loop("k", 0, f"tl.max({length}, axis=0)" if self._over else length)
        place = evaluator.assign("next", integer(begin) + "k")
        taken = evaluator.assign("taken", integer(place).below(end)) if self._over else ""
        guards = (Guard(taken, self._over),) if taken else ()
        self._combined(totals, self._update(self.updates, self._clamped(place), guards), taken)
        evaluator.close()

    def _search(self) -> tuple[str, str]:
        """Numbers of indices below the row, and not above it."""
        evaluator = self.evaluator
        row = ex.render(self.row)
        steps = self.number.bit_length()
        start = f"({row}) * 0" if self.row.terms else "tl.full([], 0, tl.int32)"
        bounds = [evaluator.assign(name, start) for name in ("begin", "end")]
        evaluator.loop("k", 0, steps)
        for bound, sign in zip(bounds, ("<", "<="), strict=True):
            probe = evaluator.assign("probe", f"{bound} + ({1 << steps - 1} >> k)")
            key = evaluator.value(self.indices, (self._clamped(f"{probe} - 1"), ZERO))
            evaluator.write(
                f"{bound} = tl.where(({probe} <= {self.number}) & ({key.text} {sign} {row}), {probe}, {bound})"
            )
        evaluator.close()
        return bounds[0], bounds[1]

    def _clamped(self, text: str) -> Expr:
        """A number of an update, as a variable of index expressions that is never out of range."""
        if self.number == 1:
            return ZERO
        number = integer(text).bracketed().to("tl.int32")
        name = self.evaluator.assign("at", clamped(number, 0, self.number - 1))
        var = Var(name, 0, self.number - 1)
        self.evaluator.data_over[var] = self._over
        return Expr(((var, 1),))
