"""Sharding rules of operations that create or move elements: constant, iota, broadcast, transpose, reshape, slice, ..."""

from __future__ import annotations

import itertools
import math

from meshgen.ir.graph import Node
from meshgen.ops.rules.rule import ALL_KINDS, Linear, Rule, letters, picked_kind, rule

# The elements are only moved, so a partial operand of any kind gives a partial result of the same kind.
_MOVES = (Linear((0,), ALL_KINDS),)


def source(node: Node) -> Rule:
    return rule(f"-> {' '.join(letters(node.result.type.rank)) or '()'}", [], [node.result.type])


def broadcast_in_dim(node: Node) -> Rule:
    """Return the rule of a broadcast. An expanded dim of size 1 has no factor in the operand: every device has its
    element.
    """
    operand, result = node.operands[0].type, node.result.type
    result_factors = letters(result.rank)
    operand_factors = [
        result_factors[d] if operand.shape[i] == result.shape[d] else "1" for i, d in enumerate(node.attrs.dims)
    ]
    return rule(
        f"{' '.join(operand_factors) or '()'} -> {' '.join(result_factors) or '()'}", [operand], [result], linear=_MOVES
    )


def transpose(node: Node) -> Rule:
    names = letters(node.operands[0].type.rank)
    target = " ".join(names[d] for d in node.attrs.perm) or "()"
    return rule(f"{' '.join(names) or '()'} -> {target}", [node.operands[0].type], [node.result.type], linear=_MOVES)


def reverse(node: Node) -> Rule:
    """Return the rule of a reversal: each tile of a reversed dim is computed from the operand rows mirrored at the
    dim's middle.
    """
    operand = node.operands[0].type
    names = letters(operand.rank)
    dims = " ".join(names) or "()"
    windows = {(names[d], 0): (operand.sizes[d] - 1, -1, 1) for d in node.attrs.dims if operand.sizes[d]}
    return rule(f"{dims} -> {dims}", [operand], [operand], linear=_MOVES, windows=windows)


def window(node: Node) -> Rule:
    """Return the rule of `slice`, `pad` or `concatenate`.

    Unchanged dims share their factors. A tile of a sliced, padded or concatenated dim needs operand rows from the tiles
    of other devices. A slice of few rows of a sharded dim may instead leave a partial sum (see `Pick`).
    """
    operands, result = [value.type for value in node.operands], node.result.type
    data = operands if node.op == "concatenate" else operands[:1]
    names = letters(result.rank)
    windows = {(names[d], i): window_rows for (d, i), window_rows in _moved_windows(node).items()}
    dims = " ".join(names) or "()"
    scalars = ["()"] * (len(operands) - len(data))
    # The padding value of `pad` is also an operand, and is partial if the other operand is.
    linear = Linear(tuple(range(len(operands))), ALL_KINDS)
    text = f"{', '.join([*[dims] * len(data), *scalars])} -> {dims}"
    picks = picked_kind(result.dtype) if node.op == "slice" else ""
    return rule(text, operands, [result], linear=(linear,), windows=windows, picks=picks)


def _moved_windows(node: Node) -> dict[tuple[int, int], tuple[int, ...]]:
    """Return the window (base, stride, width, dilation) per (dim, operand index).

    Only dims along which the op slices, pads or shifts the rows of the operand are keys.
    """
    attrs, shape = node.attrs, node.operands[0].type.shape
    if node.op == "slice":
        parts = zip(attrs.start, attrs.limit, attrs.stride, shape, strict=True)
        sliced = {d: (p[0], p[2], 1) for d, p in enumerate(parts) if (p[0], p[1], p[2]) != (0, p[3], 1)}
        return {(d, 0): window for d, window in sliced.items()}
    if node.op == "pad":
        parts = zip(attrs.low, attrs.high, attrs.interior, strict=True)
        return {
            (d, 0): (-low, 1, 1, interior + 1)
            for d, (low, high, interior) in enumerate(parts)
            if low or high or interior
        }
    starts = itertools.accumulate((v.type.sizes[attrs.dim] for v in node.operands), initial=0)
    return {(attrs.dim, i): (-start, 1, 1) for i, start in zip(range(len(node.operands)), starts, strict=False)}


def reshape(node: Node) -> Rule:
    """Return the rule of a reshape: both shapes are written as products of common factors, in row-major order.

    8x16x64 -> 128x64 is `a b c -> (a b) c`. 6x4 -> 8x3 have only the major factor 2 in common; all other factors stay
    replicated.
    """
    source, target = node.operands[0].type, node.result.type
    sides, sizes, replicated = reshape_factors(source.sizes, target.sizes)
    text = [
        " ".join(f"({' '.join(part)})" if len(part) > 1 else (part or ["1"])[0] for part in side) or "()"
        for side in sides
    ]
    return rule(f"{text[0]} -> {text[1]}", [source], [target], sizes=sizes, whole=replicated, linear=_MOVES)


def reshape_factors(
    source: tuple[int, ...], target: tuple[int, ...]
) -> tuple[list[list[list[str]]], dict[str, int], list[str]]:
    """Return common factors of two shapes: names per dim of each shape, sizes by name, and the names of replicated
    factors.
    """
    sides: list[list[list[str]]] = [[[] for _ in source], [[] for _ in target]]
    sizes: dict[str, int] = {}
    replicated: list[str] = []
    if 0 in source:
        return sides, sizes, replicated
    shapes, dims, remaining = (source, target), [0, 0], [0, 0]

    def append_factor(size: int, *on_sides: int) -> str:
        name = letters(1, len(sizes))[0]
        sizes[name] = size
        for side in on_sides:
            sides[side][dims[side]].append(name)
        return name

    while True:
        for side in (0, 1):  # Advance to the next dim with a remaining size above 1.
            while dims[side] < len(shapes[side]) and remaining[side] in (0, 1):
                if remaining[side] == 1:
                    dims[side] += 1
                remaining[side] = shapes[side][dims[side]] if dims[side] < len(shapes[side]) else 0
        if not remaining[0] or not remaining[1]:
            return sides, sizes, replicated
        common = math.gcd(remaining[0], remaining[1])
        if common > 1:
            append_factor(common, 0, 1)
            remaining = [remaining[0] // common, remaining[1] // common]
            continue
        # The sizes are coprime. Keep the dims replicated up to the point where both shapes have covered equally many
        # elements.
        consumed = [1, 1]
        while True:
            side = 0 if consumed[0] * remaining[0] <= consumed[1] * remaining[1] else 1
            other = 1 - side
            replicated.append(append_factor(remaining[side], side))
            consumed[side] *= remaining[side]
            dims[side] += 1
            remaining[side] = shapes[side][dims[side]] if dims[side] < len(shapes[side]) else 1
            if consumed[side] == consumed[other] * remaining[other]:
                replicated.append(append_factor(remaining[other], other))
                remaining = [1 if dims[side] >= len(shapes[side]) else remaining[side], 1]
                break
        if dims[side] < len(shapes[side]):
            remaining[side] = shapes[side][dims[side]]
