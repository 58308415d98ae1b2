"""Loop bounds of masked attention: the blocks of keys or rows that a tile visits (`fusion/attention_bounds.py`)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.attention_bounds import Mask
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.codegen.index_code import Int, integer, lanes, maximum, minimum, where
from meshgen.ir.graph import Value


def write_block_ranges(evaluator: Evaluator, mask: Mask, m: Var, whole: int, blocks: int) -> None:
    """Write the block ranges of a masked tile: [begin, end) contains an unmasked element, and [full_begin, full_end) is
    unmasked in all rows.

    Args:
        m: the row variable. The generated variable `first` is the first row of the tile.
        whole: the number of blocks that end at or before the last key.
        blocks: the number of all blocks.
    """
    let, begin, end = evaluator.let, integer("begin"), integer("end")
    let("last", minimum(integer("first") + "BLOCK_M", m.high + 1) - 1)
    full, stop = integer(0), integer(whole)
    if mask.least:
        low, high = (_tightest(mask.least, m, greatest, maximum) for greatest in (False, True))
        let("begin", minimum(maximum(low, 0) // "BLOCK_N", blocks - 1))
        full = maximum(high + (integer("BLOCK_N") - 1).bracketed(), 0) // "BLOCK_N"
    else:
        let("begin", integer(0))
    if mask.most:
        low, high = (_tightest(mask.most, m, greatest, minimum) for greatest in (False, True))
        let("end", maximum(high + "BLOCK_N", 0) // "BLOCK_N")
        let("end", maximum(minimum(end, blocks), begin))
        stop = maximum(low + 1, 0) // "BLOCK_N"
    else:
        let("end", integer(blocks))
    let("whole", minimum(end, whole))
    let("full_begin", maximum(minimum(full, "whole"), begin))
    let("full_end", maximum(minimum(stop, "whole"), "full_begin"))


def _tightest(bounds: Sequence[Expr], m: Var, greatest: bool, pick: Callable[[Int, Int], Int]) -> Int:
    """Return the tightest of `bounds`, where each bound takes its least or greatest value over the rows of the tile."""
    return functools.reduce(pick, (integer(_extreme(bound, m, greatest)) for bound in bounds))


def _extreme(bound: Expr, m: Var, greatest: bool) -> Expr:
    total = ex.constant(bound.const)
    for atom, factor in bound.terms:
        end = Var("last" if (factor > 0) == greatest else "first", 0, m.high)
        total = total + ex.substitute(Expr(((atom, factor),)), {m: Expr(((end, 1),))})
    return total


def widen_bounds_for_low_rows(
    evaluator: Evaluator, mask: Mask, shift: Value, index: Index, n: Var, blocks: int
) -> None:
    """Widen the block range to all blocks if the maximum score of some row is not above the mask's limit.

    Masked keys then have non-zero weights in this row.

    Args:
        shift: the maximum score of each row, loaded at `index`.
        n: the variable over a block. If `index` varies with `n`, the loop visits blocks of rows. Otherwise the rows are
            the rows of the tile.
    """
    let, limit = evaluator.let, repr(mask.limit) if math.isfinite(mask.limit) else 'float("-inf")'

    def low(variable: str) -> Int:
        text = evaluator.value(shift, index).text
        return integer(f"tl.max(tl.max(tl.where(({variable} >= 0) & ({text} > {limit}), 0, 1), 1), 0)").to("tl.int32")

    sides = [(integer(0), integer("begin"), "begin", 0)] if mask.least else []
    sides += [(integer("end"), integer(blocks), "end", blocks)] if mask.most else []
    if not any(n in ex.variables(e) for e in index):
        let("is_low", low("m"))
        for _, _, name, outermost in sides:
            let(name, where("is_low > 0", outermost, name))
        return
    for start, stop, name, outermost in sides:
        let("is_low", integer(0))
        evaluator.loop("block", start, stop)
        let("n", (integer("block") * "BLOCK_N" + evaluator.widened(lanes("BLOCK_N"))).turned("[None, :]"))
        let("is_low", maximum("is_low", low("n")))
        evaluator.close()
        let(name, where("is_low > 0", outermost, name))
