"""Which blocks of keys, or of rows, a tile takes in where a mask bounds them (`fusion/attention_mask.py`)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.attention_mask import Mask
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.ir.graph import Value


def write_ends(evaluator: Evaluator, mask: Mask, m: Var, whole: int, blocks: int) -> None:
    """Write which blocks of keys a tile takes in, [begin, end), and which of them no row masks, [full_begin, full_end).

    Args:
        m: the rows, the first of the tile in the variable `first`.
        whole, blocks: the number of blocks that do not reach past the last key, and of all.
    """
    write = evaluator.write
    write(f"last = tl.minimum(first + BLOCK_M, {m.high + 1}) - 1")
    full, stop = "0", str(whole)
    if mask.least:
        low, high = (_outermost(mask.least, m, greatest, "tl.maximum") for greatest in (False, True))
        write(f"begin = tl.minimum(tl.maximum({low}, 0) // BLOCK_N, {blocks - 1})")
        full = f"tl.maximum({high} + (BLOCK_N - 1), 0) // BLOCK_N"
    else:
        write("begin = 0")
    if mask.most:
        low, high = (_outermost(mask.most, m, greatest, "tl.minimum") for greatest in (False, True))
        write(f"end = tl.maximum({high} + BLOCK_N, 0) // BLOCK_N")
        write(f"end = tl.maximum(tl.minimum(end, {blocks}), begin)")
        stop = f"tl.maximum({low} + 1, 0) // BLOCK_N"
    else:
        write(f"end = {blocks}")
    write(f"whole = tl.minimum(end, {whole})")
    write(f"full_begin = tl.maximum(tl.minimum({full}, whole), begin)")
    write(f"full_end = tl.maximum(tl.minimum({stop}, whole), full_begin)")


def _outermost(bounds: Sequence[Expr], m: Var, greatest: bool, pick: str) -> str:
    """The least or greatest value of each bound over the rows of the tile, and of those the one that all bounds allow."""
    texts = [ex.render(_extreme(bound, m, greatest)) for bound in bounds]
    return functools.reduce(lambda left, right: f"{pick}({left}, {right})", texts)


def _extreme(bound: Expr, m: Var, greatest: bool) -> Expr:
    total = ex.constant(bound.const)
    for atom, factor in bound.terms:
        end = Var("last" if (factor > 0) == greatest else "first", 0, m.high)
        total = total + ex.substitute(Expr(((atom, factor),)), {m: Expr(((end, 1),))})
    return total


def write_low_rows(evaluator: Evaluator, mask: Mask, shift: Value, index: Index, n: Var, blocks: int) -> None:
    """Widen the bounds to all blocks where a row has no score above the mask's limit: there the exponentials outside are not 0.

    Args:
        shift: the maximum of a row, at `index`.
        n: the variable of a block; rows are those of blocks if `index` has it, else those of the tile.
    """
    write, limit = evaluator.write, repr(mask.limit) if math.isfinite(mask.limit) else 'float("-inf")'

    def low(variable: str) -> str:
        text = evaluator.value(shift, index).text
        return f"tl.max(tl.max(tl.where(({variable} >= 0) & ({text} > {limit}), 0, 1), 1), 0).to(tl.int32)"

    sides = [("0", "begin", "begin = tl.where(is_low > 0, 0, begin)")] if mask.least else []
    sides += [("end", str(blocks), f"end = tl.where(is_low > 0, {blocks}, end)")] if mask.most else []
    if not any(n in ex.variables(e) for e in index):
        write(f"is_low = {low('m')}")
        for _, _, taken in sides:
            write(taken)
        return
    for start, stop, taken in sides:
        write("is_low = 0")
        evaluator.open(f"for block in range({start}, {stop}):")
        write(f"n = (block * BLOCK_N + tl.arange(0, BLOCK_N){evaluator.wide})[None, :]")
        write(f"is_low = tl.maximum(is_low, {low('n')})")
        evaluator.close()
        write(taken)
