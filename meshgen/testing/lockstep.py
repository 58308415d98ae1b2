"""A program with manual computations as one for a single device: the work of all devices, written out in lock-step.

Before:  %y = manual %x {%t: tile; %g = all_gather %t; ...}
After:   %t0 = slice %x, %t1 = slice %x, ..., %g = concatenate %t0, %t1, ...

This defines the semantics of a manual computation by plain operations: the reference of law 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.loops import trip_count
from meshgen.ir.manual import meshes_of, settle_manual
from meshgen.ir.regions import captured
from meshgen.mesh import Mesh
from meshgen.ops.evaluate.common import neutral
from meshgen.spec import Sharding
from meshgen.testing.lockstep_collectives import COLLECTIVES, Row, Rows


def on_one_device(graph: Graph, *meshes: Mesh) -> Graph:
    """The graph without manual computations; itself if it has none. What names none of the meshes is on the first."""
    return _written_out(settle_manual(graph, *meshes, keep_open=False), meshes, {}) if _has_manual(graph) else graph


def _written_out(graph: Graph, meshes: Sequence[Mesh], made: dict[Value, Value]) -> Graph:
    """The graph without manual computations; `made` are the values that took the place of others, around it too."""
    result = Graph(graph.name, graph.inputs)
    for node in graph.nodes:
        operands = [made.get(value, value) for value in node.operands]
        if node.op == "manual":
            mesh = meshes_of(node, meshes)[0]
            results = _LockstepWriter(result, mesh=mesh, ranks=tuple(range(mesh.size))).manual(node, operands)
            made.update(zip(node.results, results, strict=True))
        else:
            regions = tuple(_written_out(region, meshes, made) for region in node.regions)
            result.nodes.append(replace(node, operands=operands, regions=regions))
    result.outputs = [made.get(value, value) for value in graph.outputs]
    return result


def _has_manual(graph: Graph) -> bool:
    return any(node.op == "manual" or any(map(_has_manual, node.regions)) for node in graph.nodes)


def _communicates(graph: Graph) -> bool:
    return any(node.op in COLLECTIVES or any(map(_communicates, node.regions)) for node in graph.nodes)


@dataclass
class _LockstepWriter(Rows):
    """Writes bodies; `makers` has the nodes of those that were written, `known` the values of regions and around them."""

    makers: dict[Value, Node] = field(default_factory=dict[Value, Node])
    known: dict[Value, Row] = field(default_factory=dict[Value, Row])

    def manual(self, node: Node, operands: Sequence[Value]) -> list[Value]:
        """The whole results of a manual computation on whole operands."""
        ins = zip(operands, node.attrs.in_shardings, strict=True)
        outs = zip(
            self.body(node.regions[0], [self._shards(*each) for each in ins]), node.attrs.out_shardings, strict=True
        )
        ends = zip(outs, node.results, strict=True)
        return [self._assembled(*each, result.type) for each, result in ends]

    def body(self, body: Graph, inputs: Sequence[Row]) -> list[Row]:
        """The outputs of a body on every device."""
        rows = self.known
        rows.update(zip(body.inputs, inputs, strict=True))
        self.makers |= body.index.producers
        for node in body.nodes:
            self.loc = node.loc
            operands = [rows[value] for value in node.operands]
            rows.update(zip(node.results, self._node(node, operands), strict=True))
        return [rows[value] for value in body.outputs]

    def _shards(self, value: Value, sharding: Sharding) -> Row:
        return [self._shard(value, sharding, rank) for rank in self.ranks]

    def _shard(self, value: Value, sharding: Sharding, rank: int) -> Value:
        """The tile of a device; of a partial value the first device of a group has all, the others nothing."""
        for axis, kind in sharding.partial:
            if self.mesh.coordinate(rank, axis):
                return self.splat(
                    neutral(kind, value.type.dtype),
                    value.type.with_shape(sharding.local_shape(value.type.sizes, self.mesh)),
                )
        for dim, axes in enumerate(sharding.dims):
            if axes:
                tile = sharding.tile(dim, value.type.sizes[dim], self.mesh)
                start = self.mesh.index(rank, axes) * tile
                value = self.rows(value, dim, start, start + tile)
        return value

    def _assembled(self, row: Row, sharding: Sharding, kind: TensorType) -> Value:
        """The whole value without padding; of equal tiles the one on the first device counts."""
        tiles: dict[tuple[int, ...], Value] = {}
        for rank in self.ranks:
            index = tuple(self.mesh.index(rank, axes) for axes in sharding.dims)
            if index not in tiles:
                tiles[index] = self._summed(row, sharding, rank)
        for dim in reversed(range(sharding.rank)):
            groups = itertools.groupby(sorted(tiles.items()), key=lambda item: item[0][:dim])
            lines = [(index, [value for _, value in group]) for index, group in groups]
            tiles = {index: self.concatenate(v, dim) if len(v) > 1 else v[0] for index, v in lines}
        whole = tiles[()]
        for dim, size in enumerate(kind.sizes):
            whole = self.rows(whole, dim, 0, size)
        return whole

    def _summed(self, row: Row, sharding: Sharding, rank: int) -> Value:
        """The tile of a device, whole: combined with those of the devices that have parts of it, axis by axis."""
        if not sharding.partial:
            return row[rank]
        (axis, kind), *rest = sharding.partial
        line = next(group for group in self.mesh.groups((axis,)) if rank in group)
        less = sharding.with_partial(tuple(rest))
        return self.reduced([self._summed(row, less, other) for other in line], kind)

    def _node(self, node: Node, operands: list[Row]) -> list[Row]:
        if node.op == "process_index":
            numbers = (self.mesh.index(rank, node.attrs.axes) for rank in self.ranks)
            return [[self.splat(number, node.result.type) for number in numbers]]
        if node.op in COLLECTIVES:
            return [COLLECTIVES[node.op](self, node, operands[0])]
        if any(map(_communicates, node.regions)):
            return self._together(node, operands)
        rows = [self._alone(node, [row[i] for row in operands], rank) for i, rank in enumerate(self.ranks)]
        return [[results[i] for results in rows] for i in range(len(node.results))]

    def _alone(self, node: Node, operands: list[Value], rank: int) -> list[Value]:
        """A node on one device."""
        key = (node, *operands) if not node.regions else (node, rank)
        if key not in self.seen:
            place = self.ranks.index(rank)
            around = {value: [self.known[value][place]] for value in captured(node)}
            regions = tuple(self._lockstep_region(region, (rank,), around) for region in node.regions)
            results = [Value(value.type, "", None, value.loc) for value in node.results]
            self.graph.nodes.append(replace(node, operands=operands, results=results, regions=regions))
            self.seen[key] = results
        return self.seen[key]

    def _together(self, node: Node, operands: list[Row]) -> list[Row]:
        """Control flow that communicates: devices that exchange data go the same way, others may go another.

        So a device has what it has where all take the branch that it takes, and what it has after its own last trip.
        """
        if node.op == "while":
            return self._looped(node, operands)
        ways: dict[Value, list[Row]] = {}
        for choice in operands[0]:
            if choice not in ways:
                regions = tuple(self._lockstep_region(region, self.ranks, self.known) for region in node.regions)
                ways[choice] = self._gone(node, [choice], operands[1:], regions)
        picked = [[row[i] for row in ways[choice]] for i, choice in enumerate(operands[0])]
        return [list(row) for row in zip(*picked, strict=True)]

    def _looped(self, node: Node, inputs: list[Row]) -> list[Row]:
        """A loop that runs until no device goes on; one that has stopped keeps what it has."""
        condition, body = node.regions
        tested, inside = (self._lockstep_region(region, self.ranks, self.known) for region in (condition, body))
        if trip_count(node, self.makers) is not None:  # as often on all devices
            tested.outputs = tested.outputs[:1]
            return self._gone(node, [], inputs, (tested, inside))
        writer = _LockstepWriter(tested, node.loc, mesh=self.mesh, ranks=self.ranks)
        tested.outputs = [writer.reduced(list(dict.fromkeys(tested.outputs)), "or")]
        count, writer = (
            len(self.ranks),
            _LockstepWriter(inside, node.loc, mesh=self.mesh, ranks=self.ranks, known={**self.known}),
        )
        rows = [inside.inputs[i : i + count] for i in range(0, len(inside.inputs), count)]
        flags = writer.body(condition, rows)[0] * len(rows)
        ends = zip(flags, inside.outputs, inside.inputs, strict=True)
        inside.outputs = [writer.elementwise("select", *each) for each in ends]
        return self._gone(node, [], inputs, (tested, inside))

    def _gone(self, node: Node, choice: list[Value], inputs: list[Row], regions: tuple[Graph, ...]) -> list[Row]:
        """The results on all devices of control flow that they go through together, by a choice or in a loop."""
        flat = [value for row in inputs for value in row]
        results = [Value(value.type, "", None, value.loc) for value in node.results for _ in self.ranks]
        self.graph.nodes.append(replace(node, operands=[*choice, *flat], results=results, regions=regions))
        count = len(self.ranks)
        return [results[i : i + count] for i in range(0, len(results), count)]

    def _lockstep_region(self, region: Graph, ranks: tuple[int, ...], around: Mapping[Value, Row]) -> Graph:
        """A region with an input for each of its inputs on each device, in this order; outputs alike."""
        rows = [[Value(value.type, "", None, value.loc) for _ in ranks] for value in region.inputs]
        inner = Graph(region.name, [value for row in rows for value in row])
        outputs = _LockstepWriter(inner, mesh=self.mesh, ranks=ranks, known={**around}).body(region, rows)
        inner.outputs = [value for row in outputs for value in row]
        return inner
