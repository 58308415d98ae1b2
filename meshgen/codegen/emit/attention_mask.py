"""Which keys a tile of rows attends to, where the mask says so by index: causal, windows, blocks of a sequence.

A mask is `select(condition, scores, fill)`. A condition that is a conjunction of comparisons of indices, `n <= m` and `n > m - 64`, bounds
the keys of a row from both sides. Outside of the bounds of all rows of a tile the scores are `fill`, inside those of each row
they are not masked. What is skipped adds exp(fill - maximum) to a row's sum: 0 if the row has a score well above the fill. The kernel
checks that and takes the rest in where it does not hold.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.expr import Expr, Quotient, Var
from meshgen.codegen.fusion.attention import splat
from meshgen.codegen.fusion.space import Index, backward
from meshgen.ir.graph import Value, is_float
from meshgen.ops.classes import LAYOUT, LEAVING
from meshgen.records import dataclass

_UNDERFLOW = 128.0  # exp(-104) is less than half of the least number of f32


@dataclass(frozen=True)
class Mask:
    """Bounds of the keys of a row.

    Attributes:
        least, most: of the keys of a row, inclusive, as expressions over rows and programs: each one holds.
        fill: the score outside of the bounds.
        inner: the scores inside; the masked ones where the bounds are not all of the condition.
    """

    least: tuple[Expr, ...]
    most: tuple[Expr, ...]
    fill: float
    inner: Value


def mask_of(evaluator: Evaluator, scores: Value, index: Index, n: Var, m: Var) -> Mask | None:
    """The bounds that the mask of the scores at an index sets to the keys `n` of the rows `m`; None if it sets none."""
    node = evaluator.producer.get(scores)
    if node is None or node.op != "select":
        return None
    condition, inner, fill = node.operands
    number = splat(fill, evaluator.producer.get)
    least, most, is_all = list[Expr](), list[Expr](), True
    for bound in _conjunction(evaluator, condition, index if condition.type.rank else ()):
        side = None if bound is None else _bound(bound, n, m)
        if side is None:
            is_all = False
        else:
            (least if side[0] else most).append(side[1])
    if number is None or number > 0 or not (least or most):
        return None
    return Mask(tuple(least), tuple(most), number, inner if is_all else scores)


def _conjunction(evaluator: Evaluator, condition: Value, index: Index) -> Iterator[Expr | None]:
    """Expressions that are not negative exactly where the condition holds; None for everything but comparisons of indices."""
    node = evaluator.producer.get(condition)
    if node is None:
        yield None
    elif node.op == "and":
        for operand in node.operands:
            yield from _conjunction(evaluator, operand, index)
    elif node.op == "select" and _is_itself(evaluator, node.operands[1:]):
        yield from _conjunction(evaluator, node.operands[0], index if node.operands[0].type.rank else ())
    elif node.op in LAYOUT - LEAVING and node.op != "mask_padding":
        yield from _conjunction(evaluator, node.operands[0], backward(node, index))
    elif node.op == "compare" and not is_float(node.operands[0].type.dtype):
        left, right = (_number(evaluator, v, index) for v in node.operands)
        yield None if left is None or right is None else _not_negative(left, right, node.attrs.direction)
    else:
        yield None


def _is_itself(evaluator: Evaluator, choices: list[Value]) -> bool:
    """Whether a select of these is its condition: true where it holds, else false."""
    return [splat(v, evaluator.producer.get) for v in choices] == [1.0, 0.0]


def _not_negative(left: Expr, right: Expr, direction: str) -> Expr | None:
    match direction:
        case "GE":
            return left - right
        case "GT":
            return left - right - 1
        case "LE":
            return right - left
        case "LT":
            return right - left - 1
        case _:
            return None


def _number(evaluator: Evaluator, value: Value, index: Index) -> Expr | None:
    """An integer as an expression over the tile; None if it is data."""
    node = evaluator.producer.get(value)
    if node is None:
        return None
    match node.op:
        case "iota":
            return index[node.attrs.dim]
        case "constant":
            array = np.asarray(node.attrs.value)
            return ex.constant(int(array.flat[0])) if (array == array.flat[0]).all() else None
        case "process_index":
            return evaluator.coordinate(tuple(node.attrs.axes))
        case "convert" if not is_float(node.operands[0].type.dtype):
            return _number(evaluator, node.operands[0], index)
        case "add" | "subtract" | "multiply":
            left, right = (_number(evaluator, v, index if v.type.rank else ()) for v in node.operands)
            if left is None or right is None:
                return None
            if node.op == "multiply":
                return left * right.const if right.is_constant else right * left.const if left.is_constant else None
            return left + right if node.op == "add" else left - right
        case op if op in LAYOUT - LEAVING and op != "mask_padding":
            return _number(evaluator, node.operands[0], backward(node, index))
        case _:
            return None


def _bound(expr: Expr, n: Var, m: Var) -> tuple[bool, Expr] | None:
    """Of `expr >= 0`: whether it is a lower bound of n, and the bound; None if it is not linear in n, or does not grow or fall with m."""
    factor = dict(expr.terms).get(n, 0)
    rest = Expr(tuple(term for term in expr.terms if term[0] != n), expr.const)
    if abs(factor) != 1 or n in ex.variables(rest) or any(not _is_monotonic(atom, m) for atom, _ in rest.terms):
        return None
    return (True, rest * -1) if factor == 1 else (False, rest)


def _is_monotonic(atom: Var | Quotient | ex.Remainder, m: Var) -> bool:
    match atom:
        case Var():
            return True
        case Quotient(of, _):
            return m not in ex.variables(of) or all(
                inner == m and f > 0 for inner, f in of.terms if isinstance(inner, Var)
            )
        case _:
            return m not in ex.variables(atom.of)


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


def well_above(fill: float) -> float:
    """A score from which on the exponential of the fill relative to it is 0 in f32; of large fills, what differs from them."""
    return fill + max(_UNDERFLOW, abs(fill) * 2.0**-20)
