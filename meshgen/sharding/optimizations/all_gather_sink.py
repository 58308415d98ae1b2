"""Sink an all_gather below an op that can compute tiles, if the gather then sends less (the RFC's AllGather Move Down).

    before   %1 = all_gather %x   %2 = all_gather %y   %3 = add %1, %2
    after    %1 = add %x, %y   %3 = all_gather %1

    before   %1 = all_gather %x : f32   %2 = convert %1 : bf16
    after    %1 = convert %x : bf16     %2 = all_gather %1 : bf16

On values with shardings, the op must be element-wise. In a local program (stage partition) it may be any op that its
sharding rule allows on tiles: layout changes, dots, reductions of other dims, collectives over other axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from meshgen.ccl.cost import link_axes
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Module, Node, Value
from meshgen.mesh import overlaps
from meshgen.ops.classes import ARRANGING, ELEMENTWISE, MOVES, REDUCED_EVERYWHERE
from meshgen.sharding.optimizations.loops_on_tiles import Loop, attrs_on_tiles, loop_of, tile_of
from meshgen.sharding.optimizations.walk import (
    Walk,
    merged_notes,
    price,
    price_of,
    walk,
)

# ops below which a gather sinks even if the bytes stay the same, since less is computed
_FREE = ELEMENTWISE | ARRANGING


@module_pass(
    "all-gather-sink", "materialize", "optimize", "partition", applies="unless more expensive", requires_ops=MOVES
)
def all_gather_sink(module: Module, context: Compilation) -> Module:
    """Return the module with gathers below the ops that can compute tiles.

    A gather sinks only if it has no other use. An operand that all devices hold is sliced, which is local. If the bytes
    stay the same, a gather still sinks where less is then computed. Results are bitwise equal.
    """
    return walk(module, context, _sink, after=MOVES)


def _sink(node: Node, walk: Walk) -> Sequence[Value] | None:
    results = _sink_gather(node, walk) if node.operands and node.operands[0].sharding is None else None
    return results or _sink_move(node, walk)


def _sink_gather(node: Node, walk: Walk) -> Sequence[Value] | None:
    """Sink a gather of a local program. The op's other operands must be the same on all devices, since each device
    computes with its own copy.
    """
    gathers = {v: m for v in node.operands if (m := walk.producers.get(v)) and m.op == "all_gather"}
    for index, value in enumerate(node.operands if gathers else ()):
        move = gathers.get(value)
        count = walk.mesh.group_size(tuple(move.attrs.axes)) if move else 1
        if move is None or count == 1:
            continue
        if value.type.sizes[move.attrs.dim] != count * move.operands[0].type.sizes[move.attrs.dim]:
            continue
        loop = _loop_below(node, index, move, count, walk)
        moved = loop and _moved_gathers(node, loop, move, gathers, walk)
        if loop and moved and _is_profitable_below(node, loop, count, [gathers[v] for v in moved], walk):
            return _emit_below(node, loop, count, moved, gathers, walk)
    return None


def _loop_below(node: Node, number: int, move: Node, count: int, walk: Walk) -> Loop | None:
    """Return the loop of `node` along the rows that `move` gathers, or None if `node` cannot compute tiles of these
    rows.

    `move` is the all_gather that produces operand `number`.
    """
    dim, axes = move.attrs.dim, tuple(move.attrs.axes)
    if node.op not in REDUCED_EVERYWHERE:
        return loop_of(node, dim, count, operand=number)
    is_other = node.attrs.get("dim") != dim and not any(overlaps(a, b) for a in axes for b in node.attrs.axes)
    return Loop((dim,), dim) if is_other else None


def _moved_gathers(node: Node, loop: Loop, move: Node, gathers: Mapping[Value, Node], walk: Walk) -> list[Value] | None:
    """Return the operands of `node` whose gathers sink below it, or None if another operand may differ between devices.

    An operand that occurs several times sinks only if the loop runs along its gathered rows at all of its positions.
    """
    axes = tuple(move.attrs.axes)
    matching: list[Value] = []
    for value, dim in zip(node.operands, loop.operands, strict=True):
        gather = gathers.get(value)
        if gather and dim is not None and gather.attrs == move.attrs | {"dim": dim}:
            matching.append(value)
    moved = [value for value in dict.fromkeys(matching) if walk.uses[value] == matching.count(value)]
    rest = [] if node.op in REDUCED_EVERYWHERE else [value for value in node.operands if value not in moved]
    return moved if all(walk.is_uniform(value, axes) for value in rest) else None


def _is_profitable_below(node: Node, loop: Loop, count: int, moves: Sequence[Node], walk: Walk) -> bool:
    before = sum(price_of(move, walk.mesh).ring_bytes for move in moves)
    tile = Value(tile_of(node.result.type, loop.result, count))
    attrs = {"axes": moves[0].attrs.axes, "dim": loop.result}
    after = price("all_gather", attrs, tile, node.result, walk.mesh).ring_bytes
    if node.op in REDUCED_EVERYWHERE:  # The collective `node` itself moves less, too.
        reduction_bytes = price(node.op, node.attrs, Value(moves[0].operands[0].type), tile, walk.mesh).ring_bytes
        before, after = before + price_of(node, walk.mesh).ring_bytes, after + reduction_bytes
    return after < before or (after == before and node.op in _FREE)


def _emit_below(
    node: Node, loop: Loop, count: int, moved: Sequence[Value], gathers: Mapping[Value, Node], walk: Walk
) -> Sequence[Value]:
    moves = [gathers[value] for value in moved]
    axes = moves[0].attrs.axes
    operands: list[Value] = []
    for value, dim in zip(node.operands, loop.operands, strict=True):
        if value in moved:
            operands.append(gathers[value].operands[0])
        elif dim is None:
            operands.append(value)
        else:
            tile = Value(tile_of(value.type, dim, count), value.name, None, value.loc)
            operands.append(walk.emit("all_slice", [value], {"axes": axes, "dim": dim}, tile, None, loc=node.loc))
    like = Value(tile_of(node.result.type, loop.result, count), node.result.name, None, node.result.loc)
    tiled = attrs_on_tiles(node, loop, count)
    computed = walk.emit(node.op, operands, tiled, like, None, loc=node.loc, notes=node.notes)
    attrs, notes = {"axes": axes, "dim": loop.result}, merged_notes(moves, f"moved below {node.op}")
    return [walk.emit("all_gather", [computed], attrs, node.result, None, loc=moves[0].loc, notes=notes)]


def _sink_move(node: Node, walk: Walk) -> Sequence[Value] | None:
    if node.op not in ELEMENTWISE:
        return None
    producers = [walk.producers.get(value) for value in node.operands]
    moves = [producer for producer in producers if producer and producer.op in MOVES]
    if not moves or any(m.op != moves[0].op or m.attrs != moves[0].attrs for m in moves):
        return None
    move = moves[0]
    start = move.operands[0]
    if any(m.operands[0].sharding != start.sharding or m.operands[0].type.shape != start.type.shape for m in moves):
        return None
    rest = [v for v, producer in zip(node.operands, producers, strict=True) if producer not in moves]
    if not all(_reshards_locally(value, move, start, walk) for value in rest):
        return None
    moved = [v for v, producer in zip(node.operands, producers, strict=True) if producer in moves]
    if any(walk.uses[value] != moved.count(value) for value in moved) or not _is_profitable(node, moves, start, walk):
        return None
    return _emit_sunk(node, moves, start, walk)


def _reshards_locally(value: Value, move: Node, start: Value, walk: Walk) -> bool:
    """Whether `value`, an operand without a gather, can be cut without communication into tiles like those of `start`.

    `start` is the value before the gather `move`. A scalar must be the same on all devices that exchange data, since
    each device applies its own scalar to rows that others receive.
    """
    if value.type.rank == 0:
        return value.sharding is not None or walk.is_uniform(value, link_axes(move.op, move.attrs, walk.mesh))
    if move.op != "all_gather" or value.sharding is None or start.sharding is None or value.sharding.partial:
        return False
    axes = move.attrs.axes
    return not any(overlaps(used, axis) for used in value.sharding.used_axes for axis in axes)


def _is_profitable(node: Node, moves: Sequence[Node], start: Value, walk: Walk) -> bool:
    before = sum(price_of(m, walk.mesh).ring_bytes for m in dict.fromkeys(moves))
    source = Value(node.result.type.with_shape(start.type.shape), "", start.sharding)
    after = price(moves[0].op, moves[0].attrs, source, node.result, walk.mesh).ring_bytes
    return after < before or (after == before and moves[0].op == "all_gather")


def _emit_sunk(node: Node, moves: Sequence[Node], start: Value, walk: Walk) -> Sequence[Value]:
    move = moves[0]
    results = {gather.result: gather.operands[0] for gather in moves}
    operands = [results[v] if v in results else _sliced_operand(v, move, start, walk) for v in node.operands]
    like = Value(node.result.type.with_shape(start.type.shape), node.result.name, None, node.result.loc)
    partial = (
        node.result.sharding.canonical(walk.mesh).partial if node.result.sharding else ()
    )  # canonical() drops axes of size 1
    sharding = start.sharding and replace(start.sharding, partial=partial)
    computed = walk.emit(node.op, operands, node.attrs, like, sharding, loc=node.loc, notes=node.notes)
    notes = merged_notes(moves, f"moved below {node.op}")
    return [walk.emit(move.op, [computed], move.attrs, node.result, node.result.sharding, loc=node.loc, notes=notes)]


def _sliced_operand(value: Value, move: Node, start: Value, walk: Walk) -> Value:
    if value.type.rank == 0:
        return value
    like = Value(value.type, value.name, None, value.loc)
    attrs = {"axes": move.attrs.axes, "dim": move.attrs.dim}
    return walk.emit(
        "all_slice", [value], attrs, like, start.sharding and start.sharding.without_partial(), loc=move.loc
    )
