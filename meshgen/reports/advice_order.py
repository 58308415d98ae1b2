"""Rows of other devices' tiles that need not be fetched: what if a weight's columns were stored in another order?

A product with a fused weight, its columns split over 4 devices, is cut into 3 parts (q, k and v), each to be split over the same
devices: a device has columns of one or two parts and needs a quarter of each. With the columns stored so that each
device's are a quarter of every part, nothing moves. No annotation says so: the program and what is stored have to change.

    %h = dot_general %x, %w : [8,3072]     split [{}, {tp}]       %r = reshape %h : [8,4,3,256]
    %q = slice %h [0:8, 0:1024]                              ->   %q = reshape (slice %r [0:8, 0:4, 0:1, 0:256])
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from meshgen.errors import place_text
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.op_names import WITH_PROGRAMS
from meshgen.ops.classes import COMMUNICATING
from meshgen.ops.registry import has_rule, rule_of
from meshgen.reports.changes import Change
from meshgen.reports.interface import Compiled, numbered_parts

Column = tuple[Value, int]  # a value, and the dim along which its elements would be stored in another order


@dataclass(frozen=True)
class _Cut:
    """A value that is cut along a split dim into equal parts (`slices`, in order), each split over the same devices."""

    value: Value
    dim: int
    devices: int
    slices: tuple[Node, ...]
    stored: tuple[Column, ...]  # what would be stored in another order

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Parts, devices, and the elements that a device has of a part."""
        parts = len(self.slices)
        return parts, self.devices, self.value.type.sizes[self.dim] // parts // self.devices


def orders(executable: Compiled, numbers: Sequence[int] | None) -> Iterator[Change]:
    """Weights in another order, those that are alike together, with the time of the fetches that they need now; for some collectives by number, or all."""
    for part, first in numbered_parts(executable):
        if module := part.stages.get("optimize"):
            groups: dict[tuple[object, ...], list[_Cut]] = {}
            for cut in _cuts(module.graph, part):
                groups.setdefault((cut.value.type, cut.value.sharding, cut.dim, cut.sizes), []).append(cut)
            for group in groups.values():
                if seconds := _fetch_seconds(part, group, None if numbers is None else {n - first for n in numbers}):
                    yield _change(executable, group, seconds)


def _fetch_seconds(part: Compiled, group: Sequence[_Cut], numbers: set[int] | None) -> float:
    """How long rows are fetched for the slices of a group; by some collectives only."""
    places = {place_text(node.loc) for cut in group for node in cut.slices}
    rows = (row for number, row in enumerate(part.comms) if numbers is None or number in numbers)
    return sum(row.seconds * row.times for row in rows if row.kind == "fetch_rows" and row.source in places)


def _cuts(graph: Graph, part: Compiled) -> Iterator[_Cut]:
    makers, uses = graph.index.producers, graph.index.uses
    for value, users in uses.items():
        slices = [node for node, _ in users if node.op == "slice"]
        if len(slices) > 1 and len(slices) == len(users) and (cut := _cut(value, slices, makers, part)):
            yield cut
    for node in graph.nodes:
        for region in node.regions if node.op in WITH_PROGRAMS else ():
            yield from _cuts(region, part)


def _cut(value: Value, slices: Sequence[Node], makers: Mapping[Value, Node], part: Compiled) -> _Cut | None:
    """The cut that slices make; None if they are not equal parts of a split dim that lie in order and are split alike."""
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
    stored = _stored((value, dim), makers)
    return _Cut(value, dim, devices, tuple(ordered), tuple(stored)) if stored else None


def _stored(column: Column, makers: Mapping[Value, Node]) -> list[Column] | None:
    """The inputs whose order is that of a dim; None if it is also that of other things, or is not theirs alone."""
    value, dim = column
    if value not in makers:
        return [column]
    node = makers[value]
    if node.op in COMMUNICATING or node.regions or not node.operands or not has_rule(node.op):
        return None
    rule = rule_of(node)
    walked = rule.results[node.results.index(value)][dim]
    if len(walked) != 1 or rule.factors[walked[0]].kind != "parallel" or any(w.factor in walked for w in rule.windows):
        return None
    found: dict[Column, None] = {}
    for operand, dims in zip(node.operands, rule.operands, strict=True):
        for number, factors in enumerate(dims):
            if walked[0] not in factors:
                continue
            origin = _stored((operand, number), makers) if factors == walked else None
            if origin is None:
                return None
            found |= dict.fromkeys(origin)
    return list(found)


def _change(executable: Compiled, group: Sequence[_Cut], seconds: float) -> Change:
    cut = group[0]
    parts, devices, width = cut.sizes
    name = f"%{cut.value.name}" if cut.value.name else "what is cut"
    stored = " and ".join(
        f"dim {dim} of {f'%{value.name}' if value.name else 'its operand'}" for value, dim in cut.stored
    )
    what = (
        f"store {stored} as [{devices}, {parts}, {width}] instead of [{parts}, {devices}, {width}], and cut {name} so"
    )
    what += f"; {len(group) - 1} more alike" if group[1:] else ""
    program = partial(_recut, executable.stages["import"], group)
    return Change(
        "reorder",
        what,
        cut.value.name,
        f"order {cut.value.id}",
        seconds,
        program,
        lambda _: (str(cut.value.sharding), ""),
    )


def _recut(module: Module, group: Sequence[_Cut]) -> Module | None:
    """The program in which parts are cut out of a device's own elements."""
    cuts = {node.result.id: (cut, number) for cut in group for number, node in enumerate(cut.slices)}
    done: set[int] = set()
    graph = _recut_graph(module.graph, cuts, done)
    return replace(module, graph=graph) if done == cuts.keys() else None


def _recut_graph(graph: Graph, cuts: Mapping[int, tuple[_Cut, int]], done: set[int]) -> Graph:
    builder = Builder(Graph(graph.name, graph.inputs, [], graph.outputs))
    for node in graph.nodes:
        made = node.results[0].id if node.results else -1
        if made not in cuts:
            regions = tuple(_recut_graph(region, cuts, done) for region in node.regions)
            builder.add(replace(node, regions=regions))
            continue
        (cut, number), whole = cuts[made], node.operands[0]
        parts, devices, width = cut.sizes
        sizes = whole.type.sizes
        builder.loc = node.loc
        seen = builder.reshape(whole, (*sizes[: cut.dim], devices, parts, width, *sizes[cut.dim + 1 :]))
        builder.reshape(builder.rows(seen, cut.dim + 1, number, number + 1), node.result.type.sizes)
        builder.make(node.results)
        done.add(made)
    return builder.graph
