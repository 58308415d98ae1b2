"""Sort and top-k kernels: each element counts the elements of its row that come before it, and is stored at
this rank.

    x = [3, 1, 2]   rank(3) = 2, rank(1) = 0, rank(2) = 1

Equal elements are ordered by index, so the sort is stable. For a strict weak order, which StableHLO
requires, ranks are distinct and no two stores write the same position. A row of n elements takes n^2
comparisons, spread over the entire device, in a single pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.guards import Guard, Guards
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.regions import held, region_function, several
from meshgen.codegen.emit.rows import power
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.codegen.index_code import clamped, integer, lanes, program_id
from meshgen.ir.graph import Graph, Node, Value, is_float
from meshgen.ir.regions import needed_nodes
from meshgen.ops.triton.registers import Code

_SIDE = 64  # elements that a block ranks
_COMPARED = 128  # bytes of keys that a block compares with each of its elements at once; chosen: more would spill
_LONG = 256  # A block ranks elements of one row if rows have at least this many elements. Shorter rows share a block.
_WARPS = 4  # warps of a block: one for each scheduler of a multiprocessor


@dataclass(frozen=True)
class _RankedElement:
    """The element that a lane ranks, and the rank.

    Attributes:
        index: index of the element in the sorted value.
        position: position of the element in its row before sorting.
        rank: position of the element in the sorted row.
        over: the tile variables that the element varies with.
    """

    index: Index
    position: Expr
    rank: Expr
    over: tuple[Var, ...]


def emit_sort(evaluator: Evaluator, node: Node) -> Launch:
    """Write the kernel of a `sort`."""
    (region,), dim = node.regions, node.attrs.dim
    compared = _compared(region)
    before = region_function(evaluator, region, "before")
    operands = node.operands

    def keys(index: Index) -> list[str]:
        return [_held(evaluator, v, index) if n in compared else "0" for n, v in enumerate(operands)]

    key_bytes = sum(max(4, operands[n].type.numpy_dtype.itemsize) for n in compared)
    element, launch = _ranked(evaluator, operands[0].type.sizes, dim, keys, key_bytes, before)
    for position, value in enumerate(evaluator.body.outputs):
        code = evaluator.value(operands[node.results.index(value)], element.index)
        evaluator.put(position, _at(element.index, dim, element.rank), code, element.over)
    return launch


def emit_top_k(evaluator: Evaluator, node: Node) -> Launch:
    """Write the kernel of a `top_k`, which returns the largest values and their positions."""
    (x,), dim = node.operands, node.operands[0].type.rank - 1
    greater = evaluator.helper("comes_first")
    order = "total_order_f64" if x.type.dtype == "f64" else "total_order"

    def keys(index: Index) -> list[str]:
        text = _held(evaluator, x, index)
        return [f"{evaluator.helper(order)}({text})" if is_float(x.type.dtype) else text]

    key_bytes = max(4, x.type.numpy_dtype.itemsize)
    element, launch = _ranked(evaluator, x.type.sizes, dim, keys, key_bytes, greater)
    is_taken: Guards = ()
    if node.attrs.k < x.type.sizes[dim]:
        is_taken = (Guard(integer(element.rank).below(node.attrs.k), element.over),)
    for output_position, value in enumerate(evaluator.body.outputs):
        is_value = value is node.results[0]
        code = evaluator.value(x, element.index) if is_value else Code(f"({ex.render(element.position)})", "i32")
        if not is_value:
            code = Code(evaluator.assign("at", f"{code.text} + tl.full([], 0, tl.int32)"), "i32")
        evaluator.put(output_position, _at(element.index, dim, element.rank), code, element.over, is_taken)
    return launch


def _compared(region: Graph) -> set[int]:
    """Return the positions of the sort operands that the comparator `region` reads."""
    used = {v for node in needed_nodes(region.nodes, region.outputs, lambda _: False) for v in node.operands}
    return {n // 2 for n, value in enumerate(region.inputs) if value in used or value in region.outputs}


def _held(evaluator: Evaluator, value: Value, index: Index) -> str:
    return held(evaluator.in_register(evaluator.value(value, index)))


def _at(index: Index, dim: int, position: Expr) -> Index:
    return (*index[:dim], position, *index[dim + 1 :])


def _ranked(evaluator: Evaluator, sizes: Sequence[int], dim: int, keys: Callable[[Index], list[str]], key_bytes: int, before: str) -> tuple[_RankedElement, Launch]:  # fmt: skip
    """Write the computation of the ranks of a block of elements.

    Args:
        keys: returns the registers with the sort keys at an index.
        key_bytes: bytes of the sort keys of one element.
        before: name of the comparator function.
    """
    count, rows = sizes[dim], math.prod(s for d, s in enumerate(sizes) if d != dim)
    row, position, launch = _begin(evaluator, count, rows, key_bytes)
    coordinates = iter(ex.delinearize(row, [s for d, s in enumerate(sizes) if d != dim]))
    index = tuple(position if d == dim else next(coordinates) for d in range(len(sizes)))
    over = tuple(v for v in evaluator.tile.edges if v.text != "other")
    if count == 1:
        return _RankedElement(index, position, ex.ZERO, over), launch
    own_keys = keys(index)
    block = launch.constants["OTHERS"]
    evaluator.write("rank = tl.zeros((ELEMENTS, 1), tl.int32)")
    evaluator.loop("start", 0, -(-count // block) * block, "OTHERS")
    other = integer("start") + evaluator.widened(lanes("OTHERS").turned("[None, :]"))
    evaluator.let("other", other, f"  # over a row of {count}")
    other_keys = keys(_at(index, dim, ex.variable("other", count)))
    evaluator.write(f"earlier = other < {ex.render(position)}")
    first = [_where_earlier(a, b) for a, b in zip(own_keys, other_keys, strict=True)]
    then = [_where_earlier(b, a) for a, b in zip(own_keys, other_keys, strict=True)]
    arguments = [text for pair in zip(first, then, strict=True) for text in pair]
    inside = f"(other != {ex.render(position)})" + (f" & (other < {count})" if count % block else "")
    evaluator.write(f"comes_before = {before}({several(arguments)}) ^ earlier.to(tl.int32)")
    evaluator.write(f"rank += tl.sum(tl.where({inside}, comes_before, 0), axis=1, keep_dims=True)")
    evaluator.close()
    name = evaluator.assign("at", clamped(integer("rank").to("tl.int32"), 0, count - 1))
    rank = Var(name, 0, count - 1)
    evaluator.data_over[rank] = over
    return _RankedElement(index, position, Expr(((rank, 1),)), over), launch


def _where_earlier(earlier: str, otherwise: str) -> str:
    return earlier if earlier == otherwise else f"tl.where(earlier, {earlier}, {otherwise})"


def _begin(evaluator: Evaluator, count: int, rows: int, key_bytes: int) -> tuple[Expr, Expr, Launch]:
    """Write the index variables of a block, and return the row and the position in the row of the block's elements.

    Several short rows share a block.
    """
    num_compared = min(power(count), max(1, _COMPARED // power(key_bytes)))
    constants = {"ELEMENTS": _SIDE, "OTHERS": num_compared} if count > 1 else {"ELEMENTS": _SIDE}
    program, inside = evaluator.widened(program_id()), lanes("ELEMENTS").turned("[:, None]")
    if count < _LONG:
        total = count * rows
        evaluator.let("i", program * "ELEMENTS" + inside, f"  # of {rows} rows")
        evaluator.tile.edges = {Var("i", 0, total - 1): integer("i").below(total) if total % _SIDE else ""}
        flat, blocks = ex.variable("i", total), -(-total // _SIDE)
        row, position = flat // count, flat % count
    else:
        per_row = -(-count // _SIDE)
        blocks = per_row * rows
        evaluator.let("tile", program)
        evaluator.let("batch", integer("tile") // per_row, f"  # of {rows} rows")
        evaluator.let("i", integer("tile") % per_row * "ELEMENTS" + inside, f"  # of {count}")
        evaluator.tile.edges = {Var("i", 0, count - 1): integer("i").below(count) if count % _SIDE else ""}
        row, position = ex.variable("batch", rows), ex.variable("i", count)
    if count > 1:
        evaluator.tile.edges[Var("other", 0, count - 1)] = integer("other").below(count) if count % num_compared else ""
    return row, position, Launch((blocks, 1, 1), constants, _WARPS, 1)
