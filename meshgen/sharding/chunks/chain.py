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

from meshgen.ir.forms import Form, form_of
from meshgen.ir.graph import Graph, Node
from meshgen.ops.classes import COMMUNICATING, MATRIX_PRODUCTS
from meshgen.ops.op import Trait
from meshgen.ops.registry import Rules, with_trait
from meshgen.ops.rules.rule import Rule
from meshgen.sharding.optimizations.tiled import Loop, loop_of

CHUNKED = with_trait(Trait.IN_BODIES) & COMMUNICATING  # collectives that may run on some rows of a dim at a time
_WHOLE_DIMS = ("dim", "split_dim", "concat_dim")  # attributes that name a dim of which they need all rows


class Seed(NamedTuple):
    """A collective, and the dim of its result along which it is cut."""

    node: Node
    dim: int


@dataclass(frozen=True)
class Chain:
    """The nodes that run in `count` chunks, with the loop of each that is cut; `parts` do not depend on each other."""

    count: int
    loops: Mapping[Node, Loop]
    parts: Sequence[Sequence[Node]]

    @property
    def key(self) -> Hashable:
        """A key: equal chains may grow from different collectives in them."""
        return self.count, self.cut

    @cached_property
    def cut(self) -> Hashable:
        """The nodes and their dims that are cut, in whatever number of chunks."""
        return frozenset((node, loop.result) for node, loop in self.loops.items())

    def dim(self, node: Node) -> int:
        """The dim of a node's result that is cut into chunks."""
        return self.loops[node].result


class Flow:
    """A graph in which chains grow: producers and users of values, and the loops that can be cut."""

    def __init__(self, graph: Graph, among: Set[Node]) -> None:
        """`among`: the nodes that may be in a chain."""
        self._producers, self._uses, self._among = graph.index.producers, graph.index.uses, among
        self._loops: dict[tuple[Node, int, int, int | None], Loop | None] = {}
        self._of_forms: dict[
            tuple[int, int, int, int | None], Loop | None
        ] = {}  # shared by equal nodes, as layers repeat them
        self._numbers: dict[Form, int] = {}
        self._forms: dict[Node, int | None] = {}  # the numbers of nodes' forms
        self._rules = Rules()
        self._chains: dict[tuple[tuple[Seed, ...], int, bool], Chain] = {}
        self._near: dict[tuple[Node, int, int], list[tuple[Node, Loop]]] = {}

    def grow(self, seeds: Sequence[Seed], count: int, *, through_dots: bool) -> Chain:
        """The chain of some collectives in `count` chunks; empty if none can be cut.

        Args:
            through_dots: continue after and before dots, and across other collectives; else the chain ends with dots.
        """
        key = tuple(seeds), count, through_dots
        if key not in self._chains:
            self._chains[key] = self._grown(seeds, count, through_dots)
        return self._chains[key]

    def _grown(self, seeds: Sequence[Seed], count: int, through_dots: bool) -> Chain:
        loops: dict[Node, Loop] = {}
        parts: list[list[Node]] = []
        first = {seed.node for seed in seeds}
        for seed in seeds:
            loop, before = self.loop(seed.node, seed.dim, count), len(loops)
            waiting = [] if loop is None else [(seed.node, loop)]
            while waiting:
                node, loop = waiting.pop()
                if node in loops or (not through_dots and node.op in CHUNKED and node not in first):
                    continue
                loops[node] = loop
                if through_dots or node.op not in MATRIX_PRODUCTS:
                    waiting += self._neighbours(node, loop, count)
            parts.append([*loops][before:])
        return Chain(count, loops, [part for part in parts if part])

    def cut(self, seeds: Sequence[Seed], count: int) -> dict[Node, Loop]:
        """Those of the seeds that can be cut into `count` chunks: every chain of them has these."""
        loops = {seed.node: self.loop(seed.node, seed.dim, count) for seed in seeds}
        return {node: loop for node, loop in loops.items() if loop is not None}

    def _neighbours(self, node: Node, loop: Loop, count: int) -> list[tuple[Node, Loop]]:
        """Producers and users of the rows of a node in chunks that can be cut, with the loops over these rows."""
        key = node, loop.result, count  # a dim of the result has one loop
        if (found := self._near.get(key)) is None:
            found = self._near[key] = [(near, cut) for near, cut in self._around(node, loop, count) if cut is not None]
        return found

    def _around(self, node: Node, loop: Loop, count: int) -> Iterator[tuple[Node, Loop | None]]:
        for value, dim in zip(node.operands, loop.operands, strict=True):
            maker = self._producers.get(value)
            if maker is not None and dim is not None:
                yield maker, self.loop(maker, dim, count)
        for user, number in self._uses[node.result]:
            yield user, self.loop(user, loop.result, count, number)

    def loop(self, node: Node, dim: int, count: int, operand: int | None = None) -> Loop | None:
        """The loop of a node along a dim of its result (of an operand), if it can be cut into chunks.

        Chunks of constants and iotas are slices, which cost nothing.
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
    whole = [getattr(node.attrs, name) for name in _WHOLE_DIMS if name in node.attrs.given]
    return None if dim in whole or node.result.type.sizes[dim] % count else Loop((dim,), dim)
