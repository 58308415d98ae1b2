"""Reductions in a GEMM epilogue: each column subtile of a tile reduces its part of each row to one element.

part = tile_n * 2 + 1                                   the second half of a tile of 256 columns
column = tl.arange(0, BLOCK_N // 2)[None, :]
greatest = tl.reduce(z, 1, nan_maximum, keep_dims=True)
tl.store(greatest_out + m * 256 + part, greatest)       f32[4096,256], for a dot with 32768 columns
"""

from __future__ import annotations

from collections.abc import Mapping

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.attention_operands import LOG2_E
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.plan import where
from meshgen.codegen.emit.reduced_tile import partial_result_dtype, place_reduced, reduced, sums_products
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.codegen.fusion.row_passes import OnlineSum, online_sums
from meshgen.codegen.fusion.space import Space
from meshgen.codegen.index_code import integer, lanes
from meshgen.ir.graph import Graph, Node
from meshgen.ops.classes import REDUCTIONS


def begin_part(evaluator: Evaluator, space: Space, rows: Var, count: int, position: int) -> None:
    """Switch the tile to column subtile `position` of `count`. The rows do not change."""
    tile, (part, column) = evaluator.tile, space.parts
    tile.edges = {
        rows: tile.edges[rows],
        part: integer(part.text).compared("<=", part.high) if (part.high + 1) % count else "",
        column: "",
    }
    tile.lanes = {rows: tile.lanes[rows]}
    tile_n = integer("tile_n")
    evaluator.let(part.text, tile_n * count + position if count > 1 else tile_n)
    evaluator.let(column.text, evaluator.widened(lanes(space.columns)).turned("[None, :]"))


def reduce_parts(evaluator: Evaluator, body: Graph, space: Space, table: Mapping[Var, Expr]) -> None:
    """Write the reductions of a body, in the order of the body."""
    online = online_sums(body)
    for node in (node for node in body.nodes if node.op in REDUCTIONS):
        if node in online and node.result.type.dtype == "f32":
            text = _exponential(evaluator, online[node], where(space, node.operands[0], table))
        else:
            text = _operand(evaluator, node, where(space, node.operands[0], table))
        if not {v.text for v in evaluator.tile.edges if v is not space.parts[0]} <= evaluator.spans(text):
            text = f"tl.broadcast_to({text}, (BLOCK_M, {space.columns}))"
        place_reduced(evaluator, node, reduced(evaluator, node, text, 1), where(space, node.result, table))


def _operand(evaluator: Evaluator, node: Node, index: Index) -> str:
    """Return the register with the operand of a reduction at `index`. Booleans are converted to integers."""
    text = evaluator.value(node.operands[0], index).text
    if node.operands[0].type.dtype == "i1":
        return f"{text}.to({partial_result_dtype(node)})"
    return evaluator.assign("part_of_row", f"{text} + 0.0") if sums_products(evaluator, node) else text


def _exponential(evaluator: Evaluator, online: OnlineSum, index: Index) -> str:
    """Return exponentials relative to the running maximum, computed by `exp2`.

    `exp2` is accurate enough here, because the exponentials are only summed: elements near the maximum dominate the
    sum, and for these elements `exp2` is accurate.
    """
    difference = evaluator.producer[online.exponential.operands[0]]
    element, shift = (evaluator.value(v, index).text for v in difference.operands)
    return evaluator.assign("exponential", f"tl.exp2(({element} - {shift}) * {LOG2_E!r})")


def span_of(space: Space, index: Index, rows: Var, columns: Var) -> tuple[Var, ...]:
    """Return the tile variables that a value's registers vary with: `rows`, and `columns` unless the value is reduced
    over the columns.
    """
    column = space.parts[1] if space.parts else columns
    is_reduced = bool(space.parts) and not any(column in ex.variables(e) for e in index)
    return (rows,) if is_reduced else (rows, column)
