"""Windows: pooling, sums of neighbours, and cumulative reductions.

A cumulative one (a window that ends, or starts, at its own element and covers the whole dim) is a scan of rows; the rows are read once,
in chunks that pass their total on. Any other window is read element by element in a loop, by a tile of results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.guards import NEVER, Guard, Guards
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.regions import given_back, held, held_type, region_function, several
from meshgen.codegen.emit.rows import Rows, power
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.codegen.index_code import all_of, integer, lanes, program_id
from meshgen.ir.graph import Node, Value
from meshgen.ops.evaluate.window import cumulative_dim
from meshgen.ops.triton.registers import both

_BLOCK = 256  # results of a tile


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
    found = evaluator.assign("scanned", f"tl.associative_scan({part}, {rows.axis}, {combine}, reverse={is_reverse})")
    if carried:
        found = evaluator.assign("scanned", f"{combine}({carried}, {found})")
        total = f"tl.reduce({part}, {rows.axis}, {combine}{rows.keep_dims})"
        evaluator.write(f"{carried} = {combine}({carried}, {total})")
    evaluator.put(0, rows.index, given_back(found, dtype))
    if carried:
        evaluator.close()
    return rows.launch()


def _emit_windows(evaluator: Evaluator, node: Node) -> Launch:
    count, result = len(node.operands) // 2, node.results[0].type
    combine = region_function(evaluator, node.regions[0], "combine")
    index, launch = flat_tile(evaluator, result.sizes)
    inits = [held(evaluator.in_register(evaluator.value(v, ()))) for v in node.operands[count:]]
    totals = [full(evaluator, launch, text) for text in inits]
    places = math.prod(node.attrs.window_dimensions)
    evaluator.loop("w", 0, places)
    at = ex.delinearize(ex.variable("w", places), node.attrs.window_dimensions)
    inner, guards = _position(evaluator, node, index, at)
    found = elements(evaluator, node.operands[:count], inits, inner, guards)
    evaluator.write(f"{several(totals)} = {combine}({several([*totals, *found])})")
    evaluator.close()
    for number, value in enumerate(evaluator.body.outputs):
        evaluator.put(number, index, given_back(totals[node.results.index(value)], value.type.dtype))
    return launch


def flat_tile(evaluator: Evaluator, sizes: Sequence[int]) -> tuple[Index, Launch]:
    """Write a tile of elements of a value in memory's order; their index."""
    size = math.prod(sizes)
    if size == 1:
        return ex.delinearize(ex.ZERO, sizes), Launch((1, 1, 1), {}, 1, 1)
    block = min(power(size), _BLOCK)
    evaluator.let("i", evaluator.widened(program_id()) * "BLOCK" + lanes("BLOCK"), f"  # of {size}")
    evaluator.tile.edges = {Var("i", 0, size - 1): integer("i").below(size) if size % block else ""}
    index = ex.delinearize(ex.variable("i", size), sizes)
    return index, Launch((-(-size // block), 1, 1), {"BLOCK": block}, max(1, min(4, block // 64)), 1)


def full(evaluator: Evaluator, launch: Launch, text: str) -> str:
    """A register of the whole tile."""
    return evaluator.assign("total", f"tl.broadcast_to({text}, (BLOCK,))" if launch.constants else text)


def named(evaluator: Evaluator, guards: Guards, preferred: str) -> Guards:
    """Guards as one that has a name."""
    if NEVER in guards or not guards:
        return guards
    over = tuple(dict.fromkeys(v for g in guards for v in g.over))
    return (Guard(evaluator.assign(preferred, all_of([g.text for g in guards])), over),)


def elements(evaluator: Evaluator, values: Sequence[Value], fills: Sequence[str], index: Index, guards: Guards) -> list[str]:  # fmt: skip
    """Registers of values at an index, with a fill where a guard does not hold."""
    if NEVER in guards:
        return list(fills)
    found = [held(evaluator.in_register(evaluator.value(v, index, guards))) for v in values]
    inside = both([g.text for g in guards])
    if not inside:
        return found
    return [
        evaluator.assign("part", f"tl.where({inside}, {text}, {fill}).to({held_type(v.type.dtype)})")
        for v, text, fill in zip(values, found, fills, strict=True)
    ]


def _position(evaluator: Evaluator, node: Node, index: Index, at: Index) -> tuple[Index, Guards]:
    """The element of the operand at a place of a result's window, and where there is one."""
    a, found, guards = node.attrs, list[Expr](), list[Guard]()
    for d, size in enumerate(node.operands[0].type.sizes):
        place = index[d] * a.window_strides[d] + at[d] * a.window_dilations[d] - a.low[d]
        guards += evaluator.within(place, 0, max(size - 1, 0) * a.base_dilations[d] + min(size, 1))
        hole = place % a.base_dilations[d]
        if hole != ex.ZERO:
            guards.append(NEVER if hole.is_constant else Guard(integer(hole).compared("==", 0), evaluator.over(hole)))
        found.append(place // a.base_dilations[d])
    return tuple(found), named(evaluator, tuple(guards), "inside")
