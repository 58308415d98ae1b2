"""Candidate changes that reorder the stored columns of a weight, so that devices need not fetch slices of one another.

A GEMM with a fused weight, whose columns are split over 4 devices, is sliced into 3 parts (q, k and v). Each part
should be split over the same devices, but a device has columns of one or two parts and needs a quarter of each. Nothing
moves if the columns are stored so that each device's columns are a quarter of every part. No annotation expresses this:
the program and the stored weight have to change.

    %h = dot_general %x, %w : [8,3072]     split [{}, {tp}]       %r = reshape %h : [8,4,3,256]
    %q = slice %h [0:8, 0:1024]                              ->   %q = reshape (slice %r [0:8, 0:4, 0:1, 0:256])
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from meshgen.errors import location_text
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.op_names import WITH_PROGRAMS
from meshgen.ops.classes import COMMUNICATING
from meshgen.ops.registry import has_rule, rule_of
from meshgen.reports.annotation_changes import Change
from meshgen.reports.interface import Compiled, numbered_parts

Column = tuple[Value, int]  # a value, and the dim along which its elements would be stored in another order


@dataclass(frozen=True)
class _Cut:
    """A value that is sliced along a sharded dim into equal parts, each sharded over the same devices.

    Attributes:
        slices: the slice nodes that extract the parts, in the order of the parts.
        stored: the program inputs, with the dim, that would be stored in another order.
    """

    value: Value
    dim: int
    devices: int
    slices: tuple[Node, ...]
    stored: tuple[Column, ...]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Return the number of parts, the number of devices, and the elements that each device has of each part."""
        parts = len(self.slices)
        return parts, self.devices, self.value.type.sizes[self.dim] // parts // self.devices


def orders(executable: Compiled, numbers: Sequence[int] | None) -> Iterator[Change]:
    """Yield, for each group of equally sliced weights, the change that reorders their stored columns.

    The possible saving is the time of the collectives that the present order needs.

    Args:
        numbers: indices of the collectives to avoid; None for all.
    """
    for part, first in numbered_parts(executable):
        if module := part.stages.get("optimize"):
            groups: dict[tuple[object, ...], list[_Cut]] = {}
            for cut in _cuts(module.graph, part):
                groups.setdefault((cut.value.type, cut.value.sharding, cut.dim, cut.sizes), []).append(cut)
            for group in groups.values():
                if seconds := _fetch_seconds(part, group, None if numbers is None else {n - first for n in numbers}):
                    yield _change(executable, group, seconds)


def _fetch_seconds(part: Compiled, group: Sequence[_Cut], numbers: set[int] | None) -> float:
    """Return the total seconds of the collectives that fetch the slices of a group.

    Args:
        numbers: indices of the collectives to add up; None for all.
    """
    places = {location_text(node.loc) for cut in group for node in cut.slices}
    rows = (row for index, row in enumerate(part.comms) if numbers is None or index in numbers)
    return sum(row.seconds * row.times for row in rows if row.kind == "fetch_rows" and row.source in places)


def _cuts(graph: Graph, part: Compiled) -> Iterator[_Cut]:
    producers, uses = graph.index.producers, graph.index.uses
    for value, users in uses.items():
        slices = [node for node, _ in users if node.op == "slice"]
        if len(slices) > 1 and len(slices) == len(users) and (cut := _find_cut(value, slices, producers, part)):
            yield cut
    for node in graph.nodes:
        for region in node.regions if node.op in WITH_PROGRAMS else ():
            yield from _cuts(region, part)


def _find_cut(value: Value, slices: Sequence[Node], producers: Mapping[Value, Node], part: Compiled) -> _Cut | None:
    """Describe how `slices` partition a value.

    Returns None unless the slices are equal, adjacent and equally sharded parts of a sharded dim.
    """
    sizes, count = value.type.sizes, len(slices)
    dims = {dim for node in slices for dim, size in enumerate(node.result.type.sizes) if size != sizes[dim]}
    if len(dims) != 1 or value.sharding is None:
        return None
    (dim,) = dims
    ordered = sorted(slices, key=lambda node: node.attrs.start[dim])
    width, axes = sizes[dim] // count, value.sharding.dims[dim]
    devices = math.prod(map(part.mesh.axis_size, axes))
    are_parts = all(
        (node.attrs.start[dim], node.attrs.limit[dim], node.attrs.stride[dim]) == (width * n, width * (n + 1), 1)
        and node.result.sharding == value.sharding
        for n, node in enumerate(ordered)
    )
    if devices == 1 or sizes[dim] % (count * devices) or not are_parts:
        return None
    stored = _stored_columns((value, dim), producers)
    return _Cut(value, dim, devices, tuple(ordered), tuple(stored)) if stored else None


def _stored_columns(column: Column, producers: Mapping[Value, Node]) -> list[Column] | None:
    """Return the program inputs, with the dim, whose stored order determines the element order of `column`.

    Returns None if reordering one of these inputs would also reorder a value other than `column`.
    """
    value, dim = column
    if value not in producers:
        return [column]
    node = producers[value]
    if node.op in COMMUNICATING or node.regions or not node.operands or not has_rule(node.op):
        return None
    rule = rule_of(node)
    column_factors = rule.results[node.results.index(value)][dim]
    if (
        len(column_factors) != 1
        or rule.factors[column_factors[0]].kind != "parallel"
        or any(w.factor in column_factors for w in rule.windows)
    ):
        return None
    columns: dict[Column, None] = {}
    for operand, dims in zip(node.operands, rule.operands, strict=True):
        for operand_dim, factors in enumerate(dims):
            if column_factors[0] not in factors:
                continue
            operand_columns = _stored_columns((operand, operand_dim), producers) if factors == column_factors else None
            if operand_columns is None:
                return None
            columns |= dict.fromkeys(operand_columns)
    return list(columns)


def _change(executable: Compiled, group: Sequence[_Cut], seconds: float) -> Change:
    cut = group[0]
    parts, devices, width = cut.sizes
    name = f"%{cut.value.name}" if cut.value.name else "what is cut"
    stored = " and ".join(
        f"dim {dim} of {f'%{value.name}' if value.name else 'its operand'}" for value, dim in cut.stored
    )
    action = (
        f"store {stored} as [{devices}, {parts}, {width}] instead of [{parts}, {devices}, {width}], and cut {name} so"
    )
    action += f"; {len(group) - 1} more alike" if group[1:] else ""
    program = partial(_reorder_columns, executable.stages["import"], group)
    return Change(
        "reorder",
        action,
        cut.value.name,
        f"order {cut.value.id}",
        seconds,
        program,
        lambda _: (str(cut.value.sharding), ""),
    )


def _reorder_columns(module: Module, group: Sequence[_Cut]) -> Module | None:
    """Return the program that reshapes the sliced value before slicing it, so that each device reads only elements that
    it holds.
    """
    cuts = {node.result.id: (cut, part_index) for cut in group for part_index, node in enumerate(cut.slices)}
    done: set[int] = set()
    graph = _reorder_graph(module.graph, cuts, done)
    return replace(module, graph=graph) if done == cuts.keys() else None


def _reorder_graph(graph: Graph, cuts: Mapping[int, tuple[_Cut, int]], done: set[int]) -> Graph:
    builder = Builder(Graph(graph.name, graph.inputs, [], graph.outputs))
    for node in graph.nodes:
        result_id = node.results[0].id if node.results else -1
        if result_id not in cuts:
            regions = tuple(_reorder_graph(region, cuts, done) for region in node.regions)
            builder.add(replace(node, regions=regions))
            continue
        (cut, part_index), fused = cuts[result_id], node.operands[0]
        parts, devices, width = cut.sizes
        sizes = fused.type.sizes
        builder.loc = node.loc
        reshaped = builder.reshape(fused, (*sizes[: cut.dim], devices, parts, width, *sizes[cut.dim + 1 :]))
        builder.reshape(builder.rows(reshaped, cut.dim + 1, part_index, part_index + 1), node.result.type.sizes)
        builder.make(node.results)
        done.add(result_id)
    return builder.graph
