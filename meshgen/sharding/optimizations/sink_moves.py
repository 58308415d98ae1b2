"""Data moves after an element-wise op instead of before it, where that moves less (the RFC's AllGather Move Down)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meshgen.ir.graph import Module, Node, Value
from meshgen.mesh import overlaps
from meshgen.sharding.optimizations.rewrite import ELEMENTWISE, MOVES, Walk, meaning, merged_why, price, price_of, walk


def sink_moves(module: Module) -> Module:
    """Before: `add(all_gather(x), all_gather(y))`, `convert(all_gather(x : f32)) : bf16`.

    After: `all_gather(add(x, y))`, `all_gather(convert(x))`. The moves have no other use; an operand that all
    devices hold is sliced (which is local). A gather goes below also if the bytes stay the same: then less is
    computed. Moved data is not changed, so results are equal to the last bit.
    """
    return walk(module, _sink)


def _sink(node: Node, walk: Walk) -> Sequence[Value] | None:
    if node.op not in ELEMENTWISE:
        return None
    makers = [walk.producers.get(value) for value in node.operands]
    moves = [made for made in makers if made and made.op in MOVES]
    if not moves or any(m.op != moves[0].op or meaning(m.attrs) != meaning(moves[0].attrs) for m in moves):
        return None
    move = moves[0]
    start = move.operands[0]
    if any(m.operands[0].sharding != start.sharding or m.operands[0].type.shape != start.type.shape for m in moves):
        return None
    rest = [v for v, made in zip(node.operands, makers, strict=True) if made not in moves]
    if not all(_passes(value, move, start) for value in rest):
        return None
    moved = [v for v, made in zip(node.operands, makers, strict=True) if made in moves]
    if any(walk.uses[value] != moved.count(value) for value in moved) or not _pays(node, moves, start, walk):
        return None
    return _moved(node, moves, start, walk)


def _passes(value: Value, move: Node, start: Value) -> bool:
    """Whether an operand that is not moved can be brought to the form before the move without communication."""
    if value.type.rank == 0:
        return True
    if move.op != "all_gather" or value.sharding is None or start.sharding is None or value.sharding.partial:
        return False
    axes = move.attrs["axes"]
    return not any(overlaps(used, axis) for used in value.sharding.used_axes for axis in axes)


def _pays(node: Node, moves: Sequence[Node], start: Value, walk: Walk) -> bool:
    before = sum(price_of(m, walk.mesh).ring_bytes for m in {id(m): m for m in moves}.values())
    source = Value(node.result.type.with_shape(start.type.shape), "", start.sharding)
    after = price(moves[0].op, moves[0].attrs, source, node.result, walk.mesh).ring_bytes
    return after < before or (after == before and moves[0].op == "all_gather")


def _moved(node: Node, moves: Sequence[Node], start: Value, walk: Walk) -> Sequence[Value]:
    move = moves[0]
    results = {made.result: made.operands[0] for made in moves}
    operands = [results[v] if v in results else _slice(v, move, start, walk) for v in node.operands]
    like = Value(node.result.type.with_shape(start.type.shape), node.result.name, None, node.result.loc)
    lies = start.sharding and replace(
        start.sharding, partial=node.result.sharding.partial if node.result.sharding else ()
    )
    computed = walk.emit(node.op, operands, node.attrs, like, lies, loc=node.loc)
    attrs = meaning(move.attrs) | merged_why(moves, f"moved below {node.op}")
    return [walk.emit(move.op, [computed], attrs, node.result, node.result.sharding, loc=node.loc)]


def _slice(value: Value, move: Node, start: Value, walk: Walk) -> Value:
    if value.type.rank == 0:
        return value
    like = Value(value.type, value.name, None, value.loc)
    attrs = {"axes": move.attrs["axes"], "dim": move.attrs["dim"]}
    return walk.emit(
        "all_slice", [value], attrs, like, start.sharding and start.sharding.without_partial(), loc=move.loc
    )
