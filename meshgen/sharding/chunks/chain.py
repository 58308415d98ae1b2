"""Find operations to run in chunks: a chain grows from collectives along one dim, as far as sharding rules allow.

%h = dot_general %x, %w      f32[8,16] -> f32[8,16]     rows of %x are a loop of the dot: chunks of rows
%s = all_reduce %h                                      any rows
%n = reduce %s {dims = [0]}                             sums over the rows: not in the chain, reads all of %s
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from meshgen.ir.graph import Graph, Node
from meshgen.ir.node_keys import Form, form_of
from meshgen.ops.classes import COMMUNICATING, GEMMS
from meshgen.ops.op import Trait
from meshgen.ops.registry import Rules, with_trait
from meshgen.ops.rules.rule import Rule
from meshgen.sharding.optimizations.loops_on_tiles import Loop, loop_of

CHUNKED = with_trait(Trait.IN_BODIES) & COMMUNICATING  # Collectives that can run on a subset of the rows of a dim.
_WHOLE_DIMS = ("dim", "split_dim", "concat_dim")  # Attributes that name a dim of which the collective needs all rows.


class Seed(NamedTuple):
    """A collective from which a chain grows, and the dim of its result that is split into chunks."""

    node: Node
    dim: int


@dataclass(frozen=True)
class Chain:
    """Nodes that run in `count` chunks. `loops` maps each node to its loop that is split.

    `parts` are groups of nodes that do not depend on nodes of other groups.
    """

    count: int
    loops: Mapping[Node, Loop]
    parts: Sequence[Sequence[Node]]

    @property
    def key(self) -> Hashable:
        """Return a key that is equal for chains with the same nodes, dims and count, from whichever collectives they
        grew.
        """
        return self.count, self.cut

    @cached_property
    def cut(self) -> Hashable:
        """Return the nodes with their chunked dims, independent of the number of chunks."""
        return frozenset((node, loop.result) for node, loop in self.loops.items())

    def dim(self, node: Node) -> int:
        """Return the dim of a node's result that is split into chunks."""
        return self.loops[node].result


class Flow:
    """Index of a graph in which chains grow: producers and users of values, and the loops that can be split into
    chunks.
    """

    def __init__(self, graph: Graph, among: Set[Node]) -> None:
        """Index the graph. Only the nodes in `among` may be part of a chain."""
        self._producers, self._uses, self._among = graph.index.producers, graph.index.uses, among
        self._loops: dict[tuple[Node, int, int, int | None], Loop | None] = {}
        self._of_forms: dict[
            tuple[int, int, int, int | None], Loop | None
        ] = {}  # shared by nodes of equal form, such as those of identical layers
        self._numbers: dict[Form, int] = {}
        self._forms: dict[Node, int | None] = {}  # node -> id of its form
        self._rules = Rules()
        self._chains: dict[tuple[tuple[Seed, ...], int, bool], Chain] = {}
        self._near: dict[tuple[Node, int, int], list[tuple[Node, Loop]]] = {}

    def grow(self, seeds: Sequence[Seed], count: int, *, through_dots: bool) -> Chain:
        """Return the chain that grows from `seeds`, in `count` chunks. The chain is empty if none of the seeds can be
        split.

        Args:
            through_dots: continue past dots and other collectives. If False, the chain ends at dots and before
                collectives.
        """
        key = tuple(seeds), count, through_dots
        if key not in self._chains:
            self._chains[key] = self._grown(seeds, count, through_dots)
        return self._chains[key]

    def _grown(self, seeds: Sequence[Seed], count: int, through_dots: bool) -> Chain:
        loops: dict[Node, Loop] = {}
        parts: list[list[Node]] = []
        seed_nodes = {seed.node for seed in seeds}
        for seed in seeds:
            loop, part_start = self.loop(seed.node, seed.dim, count), len(loops)
            pending = [] if loop is None else [(seed.node, loop)]
            while pending:
                node, loop = pending.pop()
                if node in loops or (not through_dots and node.op in CHUNKED and node not in seed_nodes):
                    continue
                loops[node] = loop
                if through_dots or node.op not in GEMMS:
                    pending += self._neighbors(node, loop, count)
            parts.append([*loops][part_start:])
        return Chain(count, loops, [part for part in parts if part])

    def cut(self, seeds: Sequence[Seed], count: int) -> dict[Node, Loop]:
        """Return the loop of each seed that can be split into `count` chunks. Every chain that grows from `seeds` has
        these loops.
        """
        loops = {seed.node: self.loop(seed.node, seed.dim, count) for seed in seeds}
        return {node: loop for node, loop in loops.items() if loop is not None}

    def _neighbors(self, node: Node, loop: Loop, count: int) -> list[tuple[Node, Loop]]:
        """Return the producers and users of `node` that can run on the same chunks of rows, each with its loop over
        these rows.
        """
        key = node, loop.result, count  # `loop.result` identifies the loop, since each dim of the result has one.
        if (neighbors := self._near.get(key)) is None:
            neighbors = self._near[key] = [
                (neighbor, cut) for neighbor, cut in self._around(node, loop, count) if cut is not None
            ]
        return neighbors

    def _around(self, node: Node, loop: Loop, count: int) -> Iterator[tuple[Node, Loop | None]]:
        for value, dim in zip(node.operands, loop.operands, strict=True):
            producer = self._producers.get(value)
            if producer is not None and dim is not None:
                yield producer, self.loop(producer, dim, count)
        for user, operand in self._uses[node.result]:
            yield user, self.loop(user, loop.result, count, operand)

    def loop(self, node: Node, dim: int, count: int, operand: int | None = None) -> Loop | None:
        """Return the loop of `node` along `dim`, or None if the node cannot run in `count` chunks of this loop.

        `dim` is a dim of operand number `operand`, or of the result if `operand` is None. Constants and iotas never run
        in chunks, because slicing them is free.
        """
        key = node, dim, count, operand
        if key not in self._loops:
            may_join = node in self._among and node.operands and len(node.results) == 1
            self._loops[key] = self._loop_of_form(node, dim, count, operand) if may_join else None
        return self._loops[key]

    def _loop_of_form(self, node: Node, dim: int, count: int, operand: int | None) -> Loop | None:
        if node not in self._forms:
            form = form_of(node)
            self._forms[node] = None if form is None else self._numbers.setdefault(form, len(self._numbers))
        form = self._forms[node]
        if form is None:
            return _chunk_loop(node, dim, count, operand, self._rules.of)
        key = form, dim, count, operand
        if key not in self._of_forms:
            self._of_forms[key] = _chunk_loop(node, dim, count, operand, self._rules.of)
        return self._of_forms[key]


def _chunk_loop(
    node: Node, dim: int, count: int, operand: int | None, find_rule: Callable[[Node], Rule]
) -> Loop | None:
    if node.op not in CHUNKED:
        return loop_of(node, dim, count, operand=operand, find_rule=find_rule)
    unsplit_dims = [getattr(node.attrs, name) for name in _WHOLE_DIMS if name in node.attrs.given]
    return None if dim in unsplit_dims or node.result.type.sizes[dim] % count else Loop((dim,), dim)
