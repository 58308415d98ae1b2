"""Random per-device programs: collectives over any axes, and ops between them.

Every device ends with a defined value: a result that only some devices receive is broadcast to the other devices of the
group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.regions import used_by
from meshgen.mesh import Mesh
from meshgen.spec import Sharding
from meshgen.testing.generators.bodies import Body, depth_of
from meshgen.testing.generators.elementwise import smooth
from meshgen.testing.generators.shardings import open_body
from meshgen.testing.generators.writer import MAX_ELEMENTS, Variety, Writer, changed, floats

_OF_REALS, _OF_WHOLES = ("sum", "sum", "max", "min"), ("sum", "max", "min", "and", "or", "xor")


def _kinds(writer: Writer) -> dict[str, tuple[str, ...]]:
    """Map each element type to the reduction kinds that it supports."""
    return dict.fromkeys(writer.variety.reals, _OF_REALS) | dict.fromkeys(writer.variety.wholes, _OF_WHOLES)


@dataclass
class Tiles:
    """A per-device program under construction.

    `varies` maps each value to the axes along which devices have different values.
    """

    writer: Writer
    axes: tuple[str, ...]
    varies: dict[Value, frozenset[str]]
    is_whole: bool  # whether this is the entire program, not the body of a manual computation

    @property
    def kinds(self) -> dict[str, tuple[str, ...]]:
        return _kinds(self.writer)

    def pick(self, accept: Callable[[Value], bool] = lambda value: True) -> Value | None:
        return self.writer.pick(lambda v: v in self.varies and v.type.dtype in self.kinds and accept(v), empty=True)

    def some_axes(self) -> tuple[str, ...]:
        """Return one or more of the axes, in random order."""
        shuffled = [self.axes[i] for i in self.writer.order(len(self.axes))]
        return tuple(shuffled[: self.writer.integer(1, len(shuffled) + 1)])

    def count(self, axes: Sequence[str]) -> int:
        return self.writer.mesh.group_size(axes)

    def emit(self, op: str, operands: list[Value], result: TensorType, axes: Sequence[str] = (), *, equal: bool = False,
             **attrs: Any) -> Value:  # fmt: skip
        """Append an op, and record in `varies` along which axes its result differs.

        Args:
            axes: axes along which `equal` describes the results of the devices.
            equal: whether the results are equal along `axes`; otherwise they differ.
        """
        rounds = attrs.get("kind") == "sum" and floats(operands[0])
        if op in _OVER_AXES:
            attrs["axes"] = tuple(axes)
        value = self.writer.add(op, operands, result, attrs, rounds=rounds)
        before = frozenset[str]().union(*(self.varies[v] for v in operands))
        self.varies[value] = before - {*axes} if equal else before | {*axes}
        return value


def elementwise(tiles: Tiles) -> None:
    if value := tiles.pick():
        same_type = [v for v in tiles.varies if v.type == value.type]
        other = tiles.writer.one_of(same_type)
        operands = [value] if tiles.writer.chance(0.4) else [value, other]
        tiles.emit(tiles.writer.one_of(smooth(value.type.dtype, len(operands))), operands, value.type)


def reduce_all(tiles: Tiles) -> None:
    if value := tiles.pick():
        kind = tiles.writer.one_of(tiles.kinds[value.type.dtype])
        tiles.emit("all_reduce", [value], value.type, tiles.some_axes(), equal=True, kind=kind)


def gather(tiles: Tiles) -> None:
    """Append an `all_gather`, or a `gather_to` one device and a broadcast of the gathered value."""
    axes = tiles.some_axes()
    if value := tiles.pick(lambda v: v.type.rank > 0 and v.type.size * tiles.count(axes) <= MAX_ELEMENTS):
        dim, sizes = tiles.writer.integer(0, value.type.rank), value.type.sizes
        gathered_type = value.type.with_shape(changed(sizes, dim, sizes[dim] * tiles.count(axes)))
        if not tiles.is_whole or tiles.writer.chance(0.5):
            tiles.emit("all_gather", [value], gathered_type, axes, equal=True, dim=dim)
        else:
            _emit_to_root(tiles, "gather_to", value, gathered_type, axes, dim=dim)


def reduce_to_one(tiles: Tiles) -> None:
    if tiles.is_whole and (value := tiles.pick()):
        kind = tiles.writer.one_of(tiles.kinds[value.type.dtype])
        _emit_to_root(tiles, "reduce_to", value, value.type, tiles.some_axes(), kind=kind)


def _emit_to_root(tiles: Tiles, op: str, value: Value, result: TensorType, axes: tuple[str, ...], **attrs: Any) -> None:
    root = _random_root(tiles, axes)
    result_on_root = tiles.emit(op, [value], result, axes, root=root, **attrs)
    tiles.emit("broadcast", [result_on_root], result, axes, equal=True, root=root)


def _random_root(tiles: Tiles, axes: Sequence[str]) -> tuple[int, ...]:
    """Return the coordinates along `axes` of a random device."""
    return tuple(tiles.writer.integer(0, tiles.writer.mesh.axis_size(axis)) for axis in axes)


def scatter(tiles: Tiles) -> None:
    """Append an op that gives each device a tile: of the device's own value, of one root device's value, or of a sum
    over devices.
    """
    axes = tiles.some_axes()
    count = tiles.count(axes)
    if value := tiles.pick(lambda v: any(n % count == 0 for n in v.type.sizes)):
        sizes = value.type.sizes
        dim = tiles.writer.one_of([d for d, n in enumerate(sizes) if n % count == 0])
        tile_type, op = value.type.with_shape(changed(sizes, dim, sizes[dim] // count)), tiles.writer.integer(0, 3)
        if op == 0:
            tiles.emit("all_slice", [value], tile_type, axes, dim=dim)
        elif op == 1 and tiles.is_whole:
            tiles.emit("scatter_from", [value], tile_type, axes, dim=dim, root=_random_root(tiles, axes))
        else:
            tiles.emit(
                "reduce_scatter",
                [value],
                tile_type,
                axes,
                dim=dim,
                kind=tiles.writer.one_of(tiles.kinds[tile_type.dtype]),
            )


def exchange(tiles: Tiles) -> None:
    """Append an `all_to_all`, which splits one dim and concatenates along the same or another dim."""
    axes = tiles.some_axes()
    count = tiles.count(axes)
    if value := tiles.pick(lambda v: any(n % count == 0 for n in v.type.sizes)):
        sizes = value.type.sizes
        split = tiles.writer.one_of([d for d, n in enumerate(sizes) if n % count == 0])
        concat = tiles.writer.integer(0, len(sizes))
        shape = changed(sizes, split, sizes[split] // count)
        shape = changed(shape, concat, shape[concat] * count)
        tiles.emit("all_to_all", [value], value.type.with_shape(shape), axes, split_dim=split, concat_dim=concat)


def keep_on_one(tiles: Tiles) -> None:
    if value := tiles.pick():
        kind = tiles.writer.one_of(tiles.kinds[value.type.dtype])
        tiles.emit("to_partial", [value], value.type, tiles.some_axes(), kind=kind)


def pass_on(tiles: Tiles) -> None:
    """Append a collective that passes tiles on: a broadcast, a shift along an axis, or a permutation of devices."""
    if value := tiles.pick():
        axes, op, mesh = tiles.some_axes(), tiles.writer.integer(0, 3), tiles.writer.mesh
        if op == 0:
            tiles.emit("broadcast", [value], value.type, axes, equal=True, root=_random_root(tiles, axes))
        elif op == 1:
            offset = tiles.writer.integer(-2, 4)
            tiles.emit("shift", [value], value.type, axes, shift_axis=axes[0], offset=offset, rotate=True)
        elif {*tiles.axes} == {*mesh.names}:
            targets = tiles.writer.order(mesh.size)
            pairs = tuple((s, t) for s, t in enumerate(targets) if tiles.writer.chance(0.7))
            tiles.emit("permute_pairs", [value], value.type, tiles.axes, pairs=pairs)


def send(tiles: Tiles) -> None:
    """Append a `send` and `recv` between two devices of a group, and a broadcast of the result."""
    if tiles.is_whole and (value := tiles.pick()):
        axes = tiles.some_axes()
        source, target = _random_root(tiles, axes), _random_root(tiles, axes)
        sent = tiles.emit("send", [value], value.type, axes, destination=target)
        received = tiles.emit("recv", [sent], value.type, axes, source=source)
        tiles.emit("broadcast", [received], value.type, axes, equal=True, root=target)


def add_process_index(tiles: Tiles) -> None:
    """Append an addition of the device index to a value."""
    if value := tiles.pick(lambda v: v.type.rank > 0):
        index = tiles.emit("process_index", [], TensorType((), "i32"), tiles.some_axes())
        if value.type.dtype != "i32":
            index = tiles.emit("convert", [index], TensorType((), value.type.dtype))
        broadcast = tiles.writer.add("broadcast_in_dim", [index], value.type, {"dims": ()})
        tiles.varies[broadcast] = tiles.varies[index]
        tiles.emit("add", [value, broadcast], value.type)


def shift_without_wrap(tiles: Tiles) -> None:
    """Append a shift to the next device of an axis. The first device, which has no source, keeps its value."""
    if value := tiles.pick():
        axis = tiles.writer.one_of(tiles.axes)
        moved = tiles.emit("shift", [value], value.type, (axis,), shift_axis=axis, offset=1, rotate=False)
        index = tiles.emit("process_index", [], TensorType((), "i32"), (axis,))
        zero = tiles.writer.scalar(0, "i32")
        tiles.varies[zero] = frozenset()
        attrs: dict[str, Any] = {"direction": "EQ", "compare_type": ""}
        is_first = tiles.emit("compare", [index, zero], TensorType((), "i1"), **attrs)
        tiles.emit("select", [is_first, value, moved], value.type)


def any_local_op(tiles: Tiles) -> None:
    """Append any op to the body of a manual computation, including loops and branches."""
    graph = tiles.writer.graph
    first_new = len(graph.nodes)
    if not tiles.is_whole:
        tiles.writer.one_of(tiles.writer.ops)(tiles.writer)
    for node in graph.nodes[first_new:]:
        used = frozenset[str]().union(*(tiles.varies.get(value, frozenset()) for value in used_by(node)))
        tiles.varies |= dict.fromkeys(node.results, used)


_OVER_AXES = {"all_reduce", "all_gather", "gather_to", "broadcast", "reduce_to", "all_slice", "scatter_from", "send",
              "recv", "reduce_scatter", "all_to_all", "to_partial", "shift", "permute_pairs", "process_index"}  # fmt: skip
TILE_OPS = (elementwise, elementwise, reduce_all, reduce_to_one, gather, scatter, exchange, keep_on_one, pass_on, send,
            add_process_index, shift_without_wrap, any_local_op, any_local_op, any_local_op)  # fmt: skip


def manual(writer: Writer) -> None:
    """Append a manual computation whose operands are even tiles of one or two values, and whose results are tiles of a
    new value.
    """
    first = writer.pick(writer.numbers(rank=1), empty=True)
    if first is None or depth_of(writer):
        return
    operands = [first] + [v for v in [writer.pick(writer.numbers(rank=1), empty=True)] if v and writer.chance(0.5)]
    axes = tuple(axis for axis in writer.mesh.names if writer.chance(0.7)) or writer.mesh.names[:1]
    ins = [_even_tiles(writer, value.type, axes) for value in operands]
    kinds = [v.type.with_shape(s.local_shape(v.type.sizes, writer.mesh)) for v, s in zip(operands, ins, strict=True)]
    body = Graph("manual", [Value(kind, f"t{index}") for index, kind in enumerate(kinds)])
    inner = Body(writer.rng, writer.mesh, writer.ops, body, [*body.inputs], variety=writer.variety)
    varies = {v: frozenset(s.used_axes) for v, s in zip(body.inputs, ins, strict=True)}
    tiles = Tiles(inner, axes, varies, is_whole=False)
    _grow(tiles, writer.integer(2, 7))
    last = next(v for v in reversed(list(tiles.varies)) if v.type.rank and v.type.dtype in tiles.kinds)
    out = _differing_axes(writer, last.type, tiles.varies[last])
    global_type = last.type.with_shape(n * out.parts(d, writer.mesh) for d, n in enumerate(last.type.sizes))
    if global_type.size <= MAX_ELEMENTS:
        body.outputs = [last]
        attrs = {"in_shardings": tuple(ins), "out_shardings": (out,), "axes": axes}
        node = Node("manual", operands, [Value(global_type, f"v{len(writer.graph.nodes)}")], attrs, regions=(body,))
        writer.graph.nodes.append(node)
        writer.values += node.results
        if writer.chance(0.5):
            open_body(inner, node)


def local_program(rng: np.random.Generator, mesh: Mesh, variety: Variety) -> Graph:
    """Return a random per-device program, in which each device has a tile of every value."""
    writer = Writer(rng, mesh, variety=variety)
    tiles = Tiles(writer, mesh.names, {}, is_whole=True)
    for _ in range(writer.integer(1, 4)):
        type_ = TensorType(writer.shape(writer.integer(1, 4)), writer.one_of(tuple(tiles.kinds)))
        tiles.varies[writer.new_input(type_)] = frozenset(mesh.names)
    _grow(tiles, writer.integer(3, 10))
    candidates = [v for v in tiles.varies if v.type.rank and v.type.dtype in tiles.kinds]
    writer.graph.outputs = [candidates[-1], *(writer.one_of(candidates) for _ in range(writer.integer(0, 2)))]
    return writer.graph


def _grow(tiles: Tiles, count: int) -> None:
    while len(tiles.writer.graph.nodes) < count:
        tiles.writer.one_of(TILE_OPS)(tiles)


def _even_tiles(writer: Writer, type_: TensorType, axes: Sequence[str]) -> Sharding:
    """Return a sharding that uses some of the axes, each on a dim that the axis splits evenly."""
    mesh, sizes, dims = writer.mesh, [*type_.sizes], list[list[str]]([] for _ in type_.sizes)
    for index in writer.order(len(axes)):
        count = mesh.axis_size(axes[index])
        fitting = [dim for dim, size in enumerate(sizes) if size % count == 0]
        if fitting and writer.chance(0.8):
            dim = writer.one_of(fitting)
            dims[dim].append(axes[index])
            sizes[dim] //= count
    return Sharding(tuple(map(tuple, dims)))


def _differing_axes(writer: Writer, type_: TensorType, varies: frozenset[str]) -> Sharding:
    """Return a sharding with every axis along which devices differ, each on a random dim."""
    names = sorted(varies, key=writer.mesh.order)
    dims: list[list[str]] = [[] for _ in type_.sizes]
    for index in writer.order(len(names)):
        writer.one_of(dims).append(names[index])
    return Sharding(tuple(map(tuple, dims)))


OPS = (manual,)
