"""Rules of operations that make or move elements: constant, iota, broadcast, transpose, reshape, slice, ..."""

from __future__ import annotations

import itertools
import math

from meshgen.ir.graph import Node
from meshgen.ops.rules.rule import ALL_KINDS, Linear, Rule, letters, picked_kind, rule

_MOVES = (Linear((0,), ALL_KINDS),)  # an element stays the same: any kind of partial value passes


def source(node: Node) -> Rule:
    return rule(f"-> {' '.join(letters(node.result.type.rank)) or '()'}", [], [node.result.type])


def broadcast_in_dim(node: Node) -> Rule:
    """A size-1 dim that is expanded is not tied: each device has it all."""
    operand, result = node.operands[0].type, node.result.type
    names = letters(result.rank)
    words = [names[d] if operand.shape[i] == result.shape[d] else "1" for i, d in enumerate(node.attrs.dims)]
    return rule(f"{' '.join(words) or '()'} -> {' '.join(names) or '()'}", [operand], [result], linear=_MOVES)


def transpose(node: Node) -> Rule:
    names = letters(node.operands[0].type.rank)
    target = " ".join(names[d] for d in node.attrs.perm) or "()"
    return rule(f"{' '.join(names) or '()'} -> {target}", [node.operands[0].type], [node.result.type], linear=_MOVES)


def reverse(node: Node) -> Rule:
    """A tile of a reversed dim is made of the rows as far from the other end."""
    operand = node.operands[0].type
    names = letters(operand.rank)
    dims = " ".join(names) or "()"
    rows = {(names[d], 0): (operand.sizes[d] - 1, -1, 1) for d in node.attrs.dims if operand.sizes[d]}
    return rule(f"{dims} -> {dims}", [operand], [operand], linear=_MOVES, windows=rows)


def window(node: Node) -> Rule:
    """Dims that are taken whole are tied; of those that are cut, padded or joined a tile needs other rows.

    Few rows of a split dim may be left a partial sum.
    """
    operands, result = [value.type for value in node.operands], node.result.type
    data = operands if node.op == "concatenate" else operands[:1]
    names = letters(result.rank)
    moved = {(names[d], i): found for (d, i), found in _moved_windows(node).items()}
    dims = " ".join(names) or "()"
    scalars = ["()"] * (len(operands) - len(data))
    linear = Linear(tuple(range(len(operands))), ALL_KINDS)  # pad: its padding value is combined like the rest
    text = f"{', '.join([*[dims] * len(data), *scalars])} -> {dims}"
    picks = picked_kind(result.dtype) if node.op == "slice" else ""
    return rule(text, operands, [result], linear=(linear,), windows=moved, picks=picks)


def _moved_windows(node: Node) -> dict[tuple[int, int], tuple[int, ...]]:
    """The window of each dim and operand that is not taken row by row."""
    attrs, shape = node.attrs, node.operands[0].type.shape
    if node.op == "slice":
        parts = zip(attrs.start, attrs.limit, attrs.stride, shape, strict=True)
        cut = {d: (p[0], p[2], 1) for d, p in enumerate(parts) if (p[0], p[1], p[2]) != (0, p[3], 1)}
        return {(d, 0): found for d, found in cut.items()}
    if node.op == "pad":
        parts = zip(attrs.low, attrs.high, attrs.interior, strict=True)
        return {(d, 0): (-low, 1, 1, inner + 1) for d, (low, high, inner) in enumerate(parts) if low or high or inner}
    starts = itertools.accumulate((v.type.sizes[attrs.dim] for v in node.operands), initial=0)
    return {(attrs.dim, i): (-start, 1, 1) for i, start in zip(range(len(node.operands)), starts, strict=False)}


def reshape(node: Node) -> Rule:
    """Both shapes as products of common factors, in row-major order; what has none stays whole.

    8x16x64 -> 128x64 is `a b c -> (a b) c`; 6x4 -> 8x3 shares only a major 2.
    """
    source, target = node.operands[0].type, node.result.type
    sides, sizes, whole = reshape_factors(source.sizes, target.sizes)
    text = [
        " ".join(f"({' '.join(part)})" if len(part) > 1 else (part or ["1"])[0] for part in side) or "()"
        for side in sides
    ]
    return rule(f"{text[0]} -> {text[1]}", [source], [target], sizes=sizes, whole=whole, linear=_MOVES)


def reshape_factors(
    source: tuple[int, ...], target: tuple[int, ...]
) -> tuple[list[list[list[str]]], dict[str, int], list[str]]:
    """Factor names of each dim of both shapes, sizes of the factors, and those that must stay whole."""
    sides: list[list[list[str]]] = [[[] for _ in source], [[] for _ in target]]
    sizes: dict[str, int] = {}
    whole: list[str] = []
    if 0 in source:
        return sides, sizes, whole
    shapes, at, rest = (source, target), [0, 0], [0, 0]

    def new(size: int, *places: int) -> str:
        name = letters(1, len(sizes))[0]
        sizes[name] = size
        for side in places:
            sides[side][at[side]].append(name)
        return name

    while True:
        for side in (0, 1):  # go on to the next dim that has something left
            while at[side] < len(shapes[side]) and rest[side] in (0, 1):
                if rest[side] == 1:
                    at[side] += 1
                rest[side] = shapes[side][at[side]] if at[side] < len(shapes[side]) else 0
        if not rest[0] or not rest[1]:
            return sides, sizes, whole
        common = math.gcd(rest[0], rest[1])
        if common > 1:
            new(common, 0, 1)
            rest = [rest[0] // common, rest[1] // common]
            continue
        product = [1, 1]  # no common factor: leave dims whole until both sides have walked as many elements
        while True:
            side = 0 if product[0] * rest[0] <= product[1] * rest[1] else 1
            other = 1 - side
            whole.append(new(rest[side], side))
            product[side] *= rest[side]
            at[side] += 1
            rest[side] = shapes[side][at[side]] if at[side] < len(shapes[side]) else 1
            if product[side] == product[other] * rest[other]:
                whole.append(new(rest[other], other))
                rest = [1 if at[side] >= len(shapes[side]) else rest[side], 1]
                break
        if at[side] < len(shapes[side]):
            rest[side] = shapes[side][at[side]]
