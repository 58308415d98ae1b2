"""Kernels of `reduce_region`: reduce one or several tensors at once with an arbitrary combiner, such as argmax.

    index, value = reduce_region(x, iota) by (a, i, b, j) -> (a > b or (a == b and i < j)) ? (a, i) : (b, j)

The kernel scans each row and takes the last element; it processes long rows in chunks, one after the other. Unlike
Triton's reductions, a scan keeps the order, so regions need not be commutative: argmax returns the first of two
NaNs. The order depends on shapes only. A flag marks the lanes inside a row; lanes outside are never combined.
Initial values are combined last, so they need not be neutral.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.regions import from_region_dtype, held, held_type, region_function, several
from meshgen.codegen.emit.rows import Rows
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.ir.graph import Node


def emit_fold(evaluator: Evaluator, node: Node) -> Launch:
    """Write the kernel of a `reduce_region`."""
    count = len(node.operands) // 2
    rows = Rows(evaluator, node.operands[0].type.sizes, tuple(node.attrs.dims))
    combine = region_function(evaluator, node.regions[0], "combine")
    rows.begin()
    reduced = _reduced_rows(evaluator, rows, node, combine, count) if rows.shape.reduced else []
    inits = [held(evaluator.in_register(evaluator.value(v, ()))) for v in node.operands[count:]]
    if reduced:
        reduced = _assigned(evaluator, "folded", f"{combine}({several([*inits, *reduced])})", count)
    _store(evaluator, rows, node, reduced or inits)
    return rows.launch()


def _reduced_rows(evaluator: Evaluator, rows: Rows, node: Node, combine: str, count: int) -> list[str]:
    """Write the reduction of each row, and return the variables of its results."""
    if rows.shape.reduced == 1:
        return _elements(evaluator, rows, node, count)
    function = _with_flags(evaluator, combine, count) if rows.edge or rows.shape.loops else combine
    if not rows.shape.loops:
        return _last(evaluator, rows, _flagged(rows, _elements(evaluator, rows, node, count)), function)[:count]
    types = [*(held_type(v.type.dtype) for v in node.operands[:count]), "tl.int32"]
    carried = [evaluator.assign("carried", f"tl.full({rows.totals()}, 0, {dtype})") for dtype in types]
    rows.open_loop()
    chunk = _last(evaluator, rows, [*_elements(evaluator, rows, node, count), _flag(rows)], function)
    evaluator.write(f"{several(carried)} = {function}({several([*carried, *chunk])})")
    evaluator.close()
    return carried[:count]


def _last(evaluator: Evaluator, rows: Rows, lanes: Sequence[str], function: str) -> list[str]:
    """Write a scan along the rows of the tile `lanes`, and return the variables of each row's last element."""
    count = len(lanes)
    scanned = f"tl.associative_scan({_tuple(lanes)}, {rows.axis}, {function})"
    names = _assigned(evaluator, "scanned", scanned, count)
    is_last = f"tl.broadcast_to(tl.where({rows.position} == {rows.shape.reduced_block - 1}, 1, 0), {rows.tile()})"
    picked = f"tl.reduce({_tuple([*names, is_last])}, {rows.axis}, {_picking(evaluator, count)}{rows.keep_dims})"
    return _assigned(evaluator, "last", picked, count + 1)[:count]


def _tuple(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"({several(texts)})"


def _picking(evaluator: Evaluator, count: int) -> str:
    """Return the name of a Triton function that returns whichever of two elements has the flag 1.

    In each row only the last element has this flag, so a reduction with this function extracts the last element.
    """
    name = "picked"
    if name not in evaluator.functions:
        left, right = [f"a{n}" for n in range(count)], [f"b{n}" for n in range(count)]
        picks = [f"tl.where(has_a != 0, {a}, {b})" for a, b in zip(left, right, strict=True)]
        evaluator.functions[name] = (
            f"@triton.jit\ndef {name}({several([*left, 'has_a', *right, 'has_b'])}):\n"
            f"    return {several([*picks, 'has_a | has_b'])}\n"
        )
    return name


def _elements(evaluator: Evaluator, rows: Rows, node: Node, count: int) -> list[str]:
    return [rows.full(held(evaluator.in_register(evaluator.value(v, rows.index)))) for v in node.operands[:count]]


def _flagged(rows: Rows, lanes: list[str]) -> list[str]:
    return [*lanes, _flag(rows)] if rows.edge else lanes


def _flag(rows: Rows) -> str:
    """Return the source of a tile that is 1 in lanes inside the row and 0 outside."""
    text = f"tl.where({rows.edge}, 1, 0)" if rows.edge else "1"
    return f"tl.broadcast_to({text}, {rows.tile()})" if rows.edge else f"tl.full({rows.tile()}, 1, tl.int32)"


def _with_flags(evaluator: Evaluator, combine: str, count: int) -> str:
    """Return the name of a Triton function that applies `combine` to flagged elements and ignores elements with flag 0."""
    name = f"{combine}_flagged"
    if name not in evaluator.functions:
        left, right = [f"a{n}" for n in range(count)], [f"b{n}" for n in range(count)]
        both = [f"c{n}" for n in range(count)]
        lines = [f"@triton.jit\ndef {name}({several([*left, 'has_a', *right, 'has_b'])}):"]
        lines.append(f"    {several(both)} = {combine}({several([*left, *right])})")
        lines += [
            f"    {c} = tl.where(has_a != 0, tl.where(has_b != 0, {c}, {a}), {b})"
            for a, b, c in zip(left, right, both, strict=True)
        ]
        lines.append(f"    return {several([*both, 'has_a | has_b'])}")
        evaluator.functions[name] = "\n".join(lines) + "\n"
    return name


def _assigned(evaluator: Evaluator, preferred: str, call: str, count: int) -> list[str]:
    """Assign the `count` results of a call to new variables, and return these variables."""
    names = [evaluator.names.fresh(preferred) for _ in range(count)]
    evaluator.write(f"{several(names)} = {call}")
    return names


def _store(evaluator: Evaluator, rows: Rows, node: Node, results: Sequence[str]) -> None:
    index: Index = tuple(e for d, e in enumerate(rows.index) if d not in node.attrs.dims)
    for position, value in enumerate(evaluator.body.outputs):
        text = results[node.results.index(value)]
        evaluator.put(position, index, from_region_dtype(text, value.type.dtype))
