"""Rewrite a program with manual computations for one device: the work of all devices is written out in lockstep.

Before:  %y = manual %x {%t: tile; %g = all_gather %t; ...} After:   %t0 = slice %x, %t1 = slice %x, ..., %g =
concatenate %t0, %t1, ...

This defines the semantics of a manual computation in terms of plain ops. It is the reference for law 1: all ranks
together must compute what the program computes on one device.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from meshgen.ir.flatten_manual import meshes_of, settle_manual
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.loops import trip_count
from meshgen.ir.regions import captured
from meshgen.mesh import Mesh
from meshgen.ops.evaluate.common import neutral
from meshgen.spec import Sharding
from meshgen.testing.lockstep_collectives import COLLECTIVES, Row, Rows


def on_one_device(graph: Graph, *meshes: Mesh) -> Graph:
    """Return the graph without manual computations, or `graph` itself if it has none.

    A manual computation that names no mesh runs on the first of `meshes`.
    """
    return _written_out(settle_manual(graph, *meshes, keep_open=False), meshes, {}) if _has_manual(graph) else graph


def _written_out(graph: Graph, meshes: Sequence[Mesh], replacements: dict[Value, Value]) -> Graph:
    """Return the graph without manual computations.

    `replacements` maps values, also of outer regions, to the values that replace them.
    """
    result = Graph(graph.name, graph.inputs)
    for node in graph.nodes:
        operands = [replacements.get(value, value) for value in node.operands]
        if node.op == "manual":
            mesh = meshes_of(node, meshes)[0]
            results = _LockstepWriter(result, mesh=mesh, ranks=tuple(range(mesh.size))).manual(node, operands)
            replacements.update(zip(node.results, results, strict=True))
        else:
            regions = tuple(_written_out(region, meshes, replacements) for region in node.regions)
            result.nodes.append(replace(node, operands=operands, regions=regions))
    result.outputs = [replacements.get(value, value) for value in graph.outputs]
    return result


def _has_manual(graph: Graph) -> bool:
    return any(node.op == "manual" or any(map(_has_manual, node.regions)) for node in graph.nodes)


def _communicates(graph: Graph) -> bool:
    return any(node.op in COLLECTIVES or any(map(_communicates, node.regions)) for node in graph.nodes)


@dataclass
class _LockstepWriter(Rows):
    """Writes out the body of a manual computation for all devices. A row is a list with one value per device.

    Attributes:
        producers_of: defining node of each value in the bodies that are written out.
        rows_of: value in a body, or captured by it -> the corresponding value on each device.
    """

    producers_of: dict[Value, Node] = field(default_factory=dict[Value, Node])
    rows_of: dict[Value, Row] = field(default_factory=dict[Value, Row])

    def manual(self, node: Node, operands: Sequence[Value]) -> list[Value]:
        """Write out a manual computation of the global operands, and return its global results."""
        ins = zip(operands, node.attrs.in_shardings, strict=True)
        outs = zip(
            self.body(node.regions[0], [self._shards(*pair) for pair in ins]), node.attrs.out_shardings, strict=True
        )
        ends = zip(outs, node.results, strict=True)
        return [self._assembled(*pair, result.type) for pair, result in ends]

    def body(self, body: Graph, inputs: Sequence[Row]) -> list[Row]:
        """Write out a body for every device, and return the rows of its outputs."""
        rows = self.rows_of
        rows.update(zip(body.inputs, inputs, strict=True))
        self.producers_of |= body.index.producers
        for node in body.nodes:
            self.loc = node.loc
            operands = [rows[value] for value in node.operands]
            rows.update(zip(node.results, self._node(node, operands), strict=True))
        return [rows[value] for value in body.outputs]

    def _shards(self, value: Value, sharding: Sharding) -> Row:
        return [self._shard(value, sharding, rank) for rank in self.ranks]

    def _shard(self, value: Value, sharding: Sharding, rank: int) -> Value:
        """Return the tile of device `rank`. A partial value goes to the first device of each group, and the other
        devices get the neutral element.
        """
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

    def _assembled(self, row: Row, sharding: Sharding, type_: TensorType) -> Value:
        """Return the global value without padding. If several devices hold a tile, the first one provides it."""
        tiles: dict[tuple[int, ...], Value] = {}
        for rank in self.ranks:
            index = tuple(self.mesh.index(rank, axes) for axes in sharding.dims)
            if index not in tiles:
                tiles[index] = self._summed(row, sharding, rank)
        for dim in reversed(range(sharding.rank)):
            groups = itertools.groupby(sorted(tiles.items()), key=lambda item: item[0][:dim])
            tiles_along_dim = [(index, [value for _, value in group]) for index, group in groups]
            tiles = {index: self.concatenate(v, dim) if len(v) > 1 else v[0] for index, v in tiles_along_dim}
        global_value = tiles[()]
        for dim, size in enumerate(type_.sizes):
            global_value = self.rows(global_value, dim, 0, size)
        return global_value

    def _summed(self, row: Row, sharding: Sharding, rank: int) -> Value:
        """Return the tile of device `rank` without partial axes: it is reduced axis by axis with the values of the
        other devices.
        """
        if not sharding.partial:
            return row[rank]
        (axis, kind), *rest = sharding.partial
        line = next(group for group in self.mesh.groups((axis,)) if rank in group)
        reduced_sharding = sharding.with_partial(tuple(rest))
        return self.reduced([self._summed(row, reduced_sharding, member) for member in line], kind)

    def _node(self, node: Node, operands: list[Row]) -> list[Row]:
        if node.op == "process_index":
            indices = (self.mesh.index(rank, node.attrs.axes) for rank in self.ranks)
            return [[self.splat(index, node.result.type) for index in indices]]
        if node.op in COLLECTIVES:
            return [COLLECTIVES[node.op](self, node, operands[0])]
        if any(map(_communicates, node.regions)):
            return self._together(node, operands)
        rows = [self._alone(node, [row[i] for row in operands], rank) for i, rank in enumerate(self.ranks)]
        return [[results[i] for results in rows] for i in range(len(node.results))]

    def _alone(self, node: Node, operands: list[Value], rank: int) -> list[Value]:
        """Write out a node for one device."""
        key = (node, *operands) if not node.regions else (node, rank)
        if key not in self.seen:
            position = self.ranks.index(rank)
            captures = {value: [self.rows_of[value][position]] for value in captured(node)}
            regions = tuple(self._lockstep_region(region, (rank,), captures) for region in node.regions)
            results = [Value(value.type, "", None, value.loc) for value in node.results]
            self.graph.nodes.append(replace(node, operands=operands, results=results, regions=regions))
            self.seen[key] = results
        return self.seen[key]

    def _together(self, node: Node, operands: list[Row]) -> list[Row]:
        """Write control flow that communicates, for all devices together.

        Devices that exchange data take the same branch and run the same number of iterations; other devices may differ.
        The branch is executed once for each choice, by all devices. Each device then uses the results of the branch
        that it chose.
        """
        if node.op == "while":
            return self._looped(node, operands)
        results_by_choice: dict[Value, list[Row]] = {}
        for choice in operands[0]:
            if choice not in results_by_choice:
                regions = tuple(self._lockstep_region(region, self.ranks, self.rows_of) for region in node.regions)
                results_by_choice[choice] = self._append_control_flow(node, [choice], operands[1:], regions)
        picked = [[row[i] for row in results_by_choice[choice]] for i, choice in enumerate(operands[0])]
        return [list(row) for row in zip(*picked, strict=True)]

    def _looped(self, node: Node, inputs: list[Row]) -> list[Row]:
        """Write a loop that runs until every device has stopped. A device that has stopped keeps the values of its last
        iteration.
        """
        condition, body = node.regions
        condition_region, body_region = (
            self._lockstep_region(region, self.ranks, self.rows_of) for region in (condition, body)
        )
        # a loop with a constant trip count ends on all devices at once
        if trip_count(node, self.producers_of) is not None:
            condition_region.outputs = condition_region.outputs[:1]
            return self._append_control_flow(node, [], inputs, (condition_region, body_region))
        writer = _LockstepWriter(condition_region, node.loc, mesh=self.mesh, ranks=self.ranks)
        condition_region.outputs = [writer.reduced(list(dict.fromkeys(condition_region.outputs)), "or")]
        count, writer = (
            len(self.ranks),
            _LockstepWriter(body_region, node.loc, mesh=self.mesh, ranks=self.ranks, rows_of={**self.rows_of}),
        )
        rows = [body_region.inputs[i : i + count] for i in range(0, len(body_region.inputs), count)]
        flags = writer.body(condition, rows)[0] * len(rows)
        selections = zip(flags, body_region.outputs, body_region.inputs, strict=True)
        body_region.outputs = [writer.elementwise("select", *selection) for selection in selections]
        return self._append_control_flow(node, [], inputs, (condition_region, body_region))

    def _append_control_flow(
        self, node: Node, choice: list[Value], inputs: list[Row], regions: tuple[Graph, ...]
    ) -> list[Row]:
        """Append one control flow node for all devices together, and return the rows of its results."""
        flat = [value for row in inputs for value in row]
        results = [Value(value.type, "", None, value.loc) for value in node.results for _ in self.ranks]
        self.graph.nodes.append(replace(node, operands=[*choice, *flat], results=results, regions=regions))
        count = len(self.ranks)
        return [results[i : i + count] for i in range(0, len(results), count)]

    def _lockstep_region(self, region: Graph, ranks: tuple[int, ...], captures: Mapping[Value, Row]) -> Graph:
        """Return a region for the devices `ranks`. It has one input per original input and device, and one output per
        original output and device.
        """
        rows = [[Value(value.type, "", None, value.loc) for _ in ranks] for value in region.inputs]
        inner = Graph(region.name, [value for row in rows for value in row])
        outputs = _LockstepWriter(inner, mesh=self.mesh, ranks=ranks, rows_of={**captures}).body(region, rows)
        inner.outputs = [value for row in outputs for value in row]
        return inner
