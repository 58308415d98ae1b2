"""Window reductions: pooling, sums of neighbors, and cumulative reductions.

A cumulative reduction has windows that start or end at the result's own element and cover the entire dim. Its kernel
scans the rows: it reads them once, in chunks, and passes the running total to the next chunk. For any other window,
a tile of results reads the window's elements in a loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.guards import NEVER, Guard, Guards
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.regions import from_region_dtype, held, held_type, region_function, several
from meshgen.codegen.emit.rows import Rows, power
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.codegen.index_code import all_of, integer, lanes, program_id
from meshgen.ir.graph import Node, Value
from meshgen.ops.evaluate.window import cumulative_dim
from meshgen.ops.triton.registers import both

_BLOCK = 256  # results of a tile; chosen: 2 per thread of 4 warps


def emit_reduce_window(evaluator: Evaluator, node: Node) -> Launch:
    """Write the kernel of a `reduce_window`."""
    if (along := cumulative_dim(node, evaluator.producer.get(node.operands[-1]))) is not None:
        return _emit_scan(evaluator, node, along, is_reverse=not node.attrs.low[along])
    return _emit_windows(evaluator, node)


def _emit_scan(evaluator: Evaluator, node: Node, dim: int, is_reverse: bool) -> Launch:
    value, dtype = node.operands[0], node.result.type.dtype
    rows = Rows(evaluator, value.type.sizes, (dim,))
    combine = region_function(evaluator, node.regions[0], "combine")
    init = held(evaluator.in_register(evaluator.value(node.operands[1], ())))
    rows.begin()
    if rows.shape.reduced == 1:
        evaluator.put(0, rows.index, evaluator.value(value, rows.index))
        return rows.launch()
    carried = ""
    if rows.shape.loops:
        carried = evaluator.assign("carried", f"tl.broadcast_to({init}, {rows.totals()})")
        rows.open_loop(is_reverse)
    part = rows.full(held(evaluator.in_register(evaluator.value(value, rows.index))))
    if rows.edge:
        part = evaluator.assign("part", f"tl.where({rows.edge}, {part}, {init})")
    scanned = evaluator.assign("scanned", f"tl.associative_scan({part}, {rows.axis}, {combine}, reverse={is_reverse})")
    if carried:
        scanned = evaluator.assign("scanned", f"{combine}({carried}, {scanned})")
        total = f"tl.reduce({part}, {rows.axis}, {combine}{rows.keep_dims})"
        evaluator.write(f"{carried} = {combine}({carried}, {total})")
    evaluator.put(0, rows.index, from_region_dtype(scanned, dtype))
    if carried:
        evaluator.close()
    return rows.launch()


def _emit_windows(evaluator: Evaluator, node: Node) -> Launch:
    count, result = len(node.operands) // 2, node.results[0].type
    combine = region_function(evaluator, node.regions[0], "combine")
    index, launch = flat_tile(evaluator, result.sizes)
    inits = [held(evaluator.in_register(evaluator.value(v, ()))) for v in node.operands[count:]]
    totals = [full(evaluator, launch, text) for text in inits]
    window_size = math.prod(node.attrs.window_dimensions)
    evaluator.loop("w", 0, window_size)
    offset = ex.delinearize(ex.variable("w", window_size), node.attrs.window_dimensions)
    inner, guards = _position(evaluator, node, index, offset)
    window_elements = elements(evaluator, node.operands[:count], inits, inner, guards)
    evaluator.write(f"{several(totals)} = {combine}({several([*totals, *window_elements])})")
    evaluator.close()
    for position, value in enumerate(evaluator.body.outputs):
        evaluator.put(position, index, from_region_dtype(totals[node.results.index(value)], value.type.dtype))
    return launch


def flat_tile(evaluator: Evaluator, sizes: Sequence[int]) -> tuple[Index, Launch]:
    """Write the index of a tile of consecutive elements of a value of shape `sizes`. Return the index and the launch
    parameters.
    """
    size = math.prod(sizes)
    if size == 1:
        return ex.delinearize(ex.ZERO, sizes), Launch((1, 1, 1), {}, 1, 1)
    block = min(power(size), _BLOCK)
    evaluator.let("i", evaluator.widened(program_id()) * "BLOCK" + lanes("BLOCK"), f"  # of {size}")
    evaluator.tile.edges = {Var("i", 0, size - 1): integer("i").below(size) if size % block else ""}
    index = ex.delinearize(ex.variable("i", size), sizes)
    return index, Launch((-(-size // block), 1, 1), {"BLOCK": block}, max(1, min(4, block // 64)), 1)


def full(evaluator: Evaluator, launch: Launch, text: str) -> str:
    """Broadcast the register `text` to the entire tile, and return the new variable."""
    return evaluator.assign("total", f"tl.broadcast_to({text}, (BLOCK,))" if launch.constants else text)


def named(evaluator: Evaluator, guards: Guards, preferred: str) -> Guards:
    """Combine guards into a single guard, whose condition is assigned to a variable."""
    if NEVER in guards or not guards:
        return guards
    over = tuple(dict.fromkeys(v for g in guards for v in g.over))
    return (Guard(evaluator.assign(preferred, all_of([g.text for g in guards])), over),)


def elements(evaluator: Evaluator, values: Sequence[Value], fills: Sequence[str], index: Index, guards: Guards) -> list[str]:  # fmt: skip
    """Return registers of `values` at `index`, with the corresponding element of `fills` in lanes where a guard does
    not hold.
    """
    if NEVER in guards:
        return list(fills)
    registers = [held(evaluator.in_register(evaluator.value(v, index, guards))) for v in values]
    inside = both([g.text for g in guards])
    if not inside:
        return registers
    return [
        evaluator.assign("part", f"tl.where({inside}, {text}, {fill}).to({held_type(v.type.dtype)})")
        for v, text, fill in zip(values, registers, fills, strict=True)
    ]


def _position(evaluator: Evaluator, node: Node, index: Index, at: Index) -> tuple[Index, Guards]:
    """Return the operand index at offset `at` of the window of the result element `index`.

    Also returns guards, which hold if the operand has an element at this index (outside of it is padding).
    """
    a, operand_index, guards = node.attrs, list[Expr](), list[Guard]()
    for d, size in enumerate(node.operands[0].type.sizes):
        padded_position = index[d] * a.window_strides[d] + at[d] * a.window_dilations[d] - a.low[d]
        guards += evaluator.within(padded_position, 0, max(size - 1, 0) * a.base_dilations[d] + min(size, 1))
        hole = padded_position % a.base_dilations[d]
        if hole != ex.ZERO:
            guards.append(NEVER if hole.is_constant else Guard(integer(hole).compared("==", 0), evaluator.over(hole)))
        operand_index.append(padded_position // a.base_dilations[d])
    return tuple(operand_index), named(evaluator, tuple(guards), "inside")
