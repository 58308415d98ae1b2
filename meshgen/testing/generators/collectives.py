"""Random per-device programs: collectives over any axes, and ops between them.

Every device ends with a defined value: what only some receive is passed on to the others of their group.
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
    """How values of each element type are reduced."""
    return dict.fromkeys(writer.variety.reals, _OF_REALS) | dict.fromkeys(writer.variety.wholes, _OF_WHOLES)


@dataclass
class Tiles:
    """A program of each device under construction. `varies` holds, per value, the axes along which devices differ."""

    writer: Writer
    axes: tuple[str, ...]
    varies: dict[Value, frozenset[str]]
    is_whole: bool  # the whole program, not a part of one that is written per device

    @property
    def kinds(self) -> dict[str, tuple[str, ...]]:
        return _kinds(self.writer)

    def pick(self, accept: Callable[[Value], bool] = lambda value: True) -> Value | None:
        return self.writer.pick(lambda v: v in self.varies and v.type.dtype in self.kinds and accept(v), empty=True)

    def some_axes(self) -> tuple[str, ...]:
        """One or more of the axes, in any order."""
        found = [self.axes[i] for i in self.writer.order(len(self.axes))]
        return tuple(found[: self.writer.integer(1, len(found) + 1)])

    def count(self, axes: Sequence[str]) -> int:
        return self.writer.mesh.group_size(axes)

    def emit(self, op: str, operands: list[Value], result: TensorType, axes: Sequence[str] = (), *, equal: bool = False,
             **attrs: Any) -> Value:  # fmt: skip
        """Append an op; along `axes` its results are all equal or all different."""
        rounds = attrs.get("kind") == "sum" and floats(operands[0])
        if op in _OVER_AXES:
            attrs["axes"] = tuple(axes)
        value = self.writer.add(op, operands, result, attrs, rounds=rounds)
        before = frozenset[str]().union(*(self.varies[v] for v in operands))
        self.varies[value] = before - {*axes} if equal else before | {*axes}
        return value


def elementwise(tiles: Tiles) -> None:
    if value := tiles.pick():
        alike = [v for v in tiles.varies if v.type == value.type]
        other = tiles.writer.one_of(alike)
        operands = [value] if tiles.writer.chance(0.4) else [value, other]
        tiles.emit(tiles.writer.one_of(smooth(value.type.dtype, len(operands))), operands, value.type)


def reduce_all(tiles: Tiles) -> None:
    if value := tiles.pick():
        kind = tiles.writer.one_of(tiles.kinds[value.type.dtype])
        tiles.emit("all_reduce", [value], value.type, tiles.some_axes(), equal=True, kind=kind)


def gather(tiles: Tiles) -> None:
    """For all devices of a group, or for one of them, which passes it on."""
    axes = tiles.some_axes()
    if value := tiles.pick(lambda v: v.type.rank > 0 and v.type.size * tiles.count(axes) <= MAX_ELEMENTS):
        dim, sizes = tiles.writer.integer(0, value.type.rank), value.type.sizes
        kind = value.type.with_shape(changed(sizes, dim, sizes[dim] * tiles.count(axes)))
        if not tiles.is_whole or tiles.writer.chance(0.5):
            tiles.emit("all_gather", [value], kind, axes, equal=True, dim=dim)
        else:
            _to_one(tiles, "gather_to", value, kind, axes, dim=dim)


def reduce_to_one(tiles: Tiles) -> None:
    if tiles.is_whole and (value := tiles.pick()):
        kind = tiles.writer.one_of(tiles.kinds[value.type.dtype])
        _to_one(tiles, "reduce_to", value, value.type, tiles.some_axes(), kind=kind)


def _to_one(tiles: Tiles, op: str, value: Value, result: TensorType, axes: tuple[str, ...], **attrs: Any) -> None:
    root = _device_of_group(tiles, axes)
    found = tiles.emit(op, [value], result, axes, root=root, **attrs)
    tiles.emit("broadcast", [found], result, axes, equal=True, root=root)


def _device_of_group(tiles: Tiles, axes: Sequence[str]) -> tuple[int, ...]:
    """A device of a group."""
    return tuple(tiles.writer.integer(0, tiles.writer.mesh.axis_size(axis)) for axis in axes)


def scatter(tiles: Tiles) -> None:
    """A tile of what each has, of what one has, or of what all have together."""
    axes = tiles.some_axes()
    count = tiles.count(axes)
    if value := tiles.pick(lambda v: any(n % count == 0 for n in v.type.sizes)):
        sizes = value.type.sizes
        dim = tiles.writer.one_of([d for d, n in enumerate(sizes) if n % count == 0])
        kind, op = value.type.with_shape(changed(sizes, dim, sizes[dim] // count)), tiles.writer.integer(0, 3)
        if op == 0:
            tiles.emit("all_slice", [value], kind, axes, dim=dim)
        elif op == 1 and tiles.is_whole:
            tiles.emit("scatter_from", [value], kind, axes, dim=dim, root=_device_of_group(tiles, axes))
        else:
            tiles.emit(
                "reduce_scatter", [value], kind, axes, dim=dim, kind=tiles.writer.one_of(tiles.kinds[kind.dtype])
            )


def exchange(tiles: Tiles) -> None:
    """Rows of one dim for rows of another, or the same."""
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
    """To the others of a group, around an axis, or from some devices to others."""
    if value := tiles.pick():
        axes, op, mesh = tiles.some_axes(), tiles.writer.integer(0, 3), tiles.writer.mesh
        if op == 0:
            tiles.emit("broadcast", [value], value.type, axes, equal=True, root=_device_of_group(tiles, axes))
        elif op == 1:
            offset = tiles.writer.integer(-2, 4)
            tiles.emit("shift", [value], value.type, axes, shift_axis=axes[0], offset=offset, rotate=True)
        elif {*tiles.axes} == {*mesh.names}:
            targets = tiles.writer.order(mesh.size)
            pairs = tuple((s, t) for s, t in enumerate(targets) if tiles.writer.chance(0.7))
            tiles.emit("permute_pairs", [value], value.type, tiles.axes, pairs=pairs)


def send(tiles: Tiles) -> None:
    """From one device of a group to another, which tells the others."""
    if tiles.is_whole and (value := tiles.pick()):
        axes = tiles.some_axes()
        source, target = _device_of_group(tiles, axes), _device_of_group(tiles, axes)
        sent = tiles.emit("send", [value], value.type, axes, destination=target)
        got = tiles.emit("recv", [sent], value.type, axes, source=source)
        tiles.emit("broadcast", [got], value.type, axes, equal=True, root=target)


def number(tiles: Tiles) -> None:
    """A device's number added."""
    if value := tiles.pick(lambda v: v.type.rank > 0):
        place = tiles.emit("process_index", [], TensorType((), "i32"), tiles.some_axes())
        if value.type.dtype != "i32":
            place = tiles.emit("convert", [place], TensorType((), value.type.dtype))
        wide = tiles.writer.add("broadcast_in_dim", [place], value.type, {"dims": ()})
        tiles.varies[wide] = tiles.varies[place]
        tiles.emit("add", [value, wide], value.type)


def step(tiles: Tiles) -> None:
    """To the next device of an axis; the first one, which has no source, keeps its value."""
    if value := tiles.pick():
        axis = tiles.writer.one_of(tiles.axes)
        moved = tiles.emit("shift", [value], value.type, (axis,), shift_axis=axis, offset=1, rotate=False)
        place = tiles.emit("process_index", [], TensorType((), "i32"), (axis,))
        none = tiles.writer.scalar(0, "i32")
        tiles.varies[none] = frozenset()
        attrs: dict[str, Any] = {"direction": "EQ", "compare_type": ""}
        first = tiles.emit("compare", [place, none], TensorType((), "i1"), **attrs)
        tiles.emit("select", [first, value, moved], value.type)


def anything(tiles: Tiles) -> None:
    """Local ops of a per-device part: any op, loops and branches too."""
    graph = tiles.writer.graph
    known = len(graph.nodes)
    if not tiles.is_whole:
        tiles.writer.one_of(tiles.writer.ops)(tiles.writer)
    for node in graph.nodes[known:]:
        used = frozenset[str]().union(*(tiles.varies.get(value, frozenset()) for value in used_by(node)))
        tiles.varies |= dict.fromkeys(node.results, used)


_OVER_AXES = {"all_reduce", "all_gather", "gather_to", "broadcast", "reduce_to", "all_slice", "scatter_from", "send",
              "recv", "reduce_scatter", "all_to_all", "to_partial", "shift", "permute_pairs", "process_index"}  # fmt: skip
TILE_OPS = (elementwise, elementwise, reduce_all, reduce_to_one, gather, scatter, exchange, keep_on_one, pass_on, send,
            number, step, anything, anything, anything)  # fmt: skip


def manual(writer: Writer) -> None:
    """A part written per device: tiles of one or two values in, tiles of another out. Tiles are even."""
    first = writer.pick(writer.numbers(rank=1), empty=True)
    if first is None or depth_of(writer):
        return
    operands = [first] + [v for v in [writer.pick(writer.numbers(rank=1), empty=True)] if v and writer.chance(0.5)]
    axes = tuple(axis for axis in writer.mesh.names if writer.chance(0.7)) or writer.mesh.names[:1]
    ins = [_even_tiles(writer, value.type, axes) for value in operands]
    kinds = [v.type.with_shape(s.local_shape(v.type.sizes, writer.mesh)) for v, s in zip(operands, ins, strict=True)]
    body = Graph("manual", [Value(kind, f"t{number}") for number, kind in enumerate(kinds)])
    inner = Body(writer.rng, writer.mesh, writer.ops, body, [*body.inputs], variety=writer.variety)
    varies = {v: frozenset(s.used_axes) for v, s in zip(body.inputs, ins, strict=True)}
    tiles = Tiles(inner, axes, varies, is_whole=False)
    _grow(tiles, writer.integer(2, 7))
    last = next(v for v in reversed(list(tiles.varies)) if v.type.rank and v.type.dtype in tiles.kinds)
    out = _differing_axes(writer, last.type, tiles.varies[last])
    whole = last.type.with_shape(n * out.parts(d, writer.mesh) for d, n in enumerate(last.type.sizes))
    if whole.size <= MAX_ELEMENTS:
        body.outputs = [last]
        attrs = {"in_shardings": tuple(ins), "out_shardings": (out,), "axes": axes}
        node = Node("manual", operands, [Value(whole, f"v{len(writer.graph.nodes)}")], attrs, regions=(body,))
        writer.graph.nodes.append(node)
        writer.values += node.results
        if writer.chance(0.5):
            open_body(inner, node)


def local_program(rng: np.random.Generator, mesh: Mesh, variety: Variety) -> Graph:
    """A whole program of tiles."""
    writer = Writer(rng, mesh, variety=variety)
    tiles = Tiles(writer, mesh.names, {}, is_whole=True)
    for _ in range(writer.integer(1, 4)):
        kind = TensorType(writer.shape(writer.integer(1, 4)), writer.one_of(tuple(tiles.kinds)))
        tiles.varies[writer.new_input(kind)] = frozenset(mesh.names)
    _grow(tiles, writer.integer(3, 10))
    ends = [v for v in tiles.varies if v.type.rank and v.type.dtype in tiles.kinds]
    writer.graph.outputs = [ends[-1], *(writer.one_of(ends) for _ in range(writer.integer(0, 2)))]
    return writer.graph


def _grow(tiles: Tiles, count: int) -> None:
    while len(tiles.writer.graph.nodes) < count:
        tiles.writer.one_of(TILE_OPS)(tiles)


def _even_tiles(writer: Writer, kind: TensorType, axes: Sequence[str]) -> Sharding:
    """Some of the axes, each on a dim that it splits evenly."""
    mesh, sizes, dims = writer.mesh, [*kind.sizes], list[list[str]]([] for _ in kind.sizes)
    for place in writer.order(len(axes)):
        count = mesh.axis_size(axes[place])
        fitting = [dim for dim, size in enumerate(sizes) if size % count == 0]
        if fitting and writer.chance(0.8):
            dim = writer.one_of(fitting)
            dims[dim].append(axes[place])
            sizes[dim] //= count
    return Sharding(tuple(map(tuple, dims)))


def _differing_axes(writer: Writer, kind: TensorType, varies: frozenset[str]) -> Sharding:
    """Every axis along which devices differ on some dim."""
    names = sorted(varies, key=writer.mesh.order)
    dims: list[list[str]] = [[] for _ in kind.sizes]
    for place in writer.order(len(names)):
        writer.one_of(dims).append(names[place])
    return Sharding(tuple(map(tuple, dims)))


OPS = (manual,)
