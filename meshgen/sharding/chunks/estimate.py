"""Estimate the gain of a chain in chunks before it is rewritten, to find the chains that are worth scheduling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from meshgen.ccl.collective import Collective, leading
from meshgen.codegen.roofline.kernel_time import device_of, dot_seconds, memory_seconds
from meshgen.codegen.scheduling.costs import default_costs
from meshgen.ir.forms import form_of
from meshgen.ir.graph import Graph, Node, Value
from meshgen.mesh import Mesh
from meshgen.ops.classes import ELEMENTWISE, LOOPS, MATRIX_PRODUCTS
from meshgen.sharding.chunks.chain import CHUNKED, Chain
from meshgen.sharding.optimizations.tiled import Loop, tile_of

_BY_SIZE = MATRIX_PRODUCTS | CHUNKED  # ops whose chunks take longer than the whole


class Estimates:
    """What chains of one program gain; what equal operations take is found out once."""

    def __init__(self, graph: Graph, mesh: Mesh, target: str, exposed: Mapping[Node, float]) -> None:
        """`exposed`: seconds of collectives during which no kernel runs."""
        self._graph, self._mesh, self._exposed = graph, mesh, exposed
        self._uses, self._outputs = graph.index.uses, {*graph.outputs}
        self._device, self._costs = device_of(target), default_costs(target)
        self._work: dict[object, float] = {}
        self._longer: dict[object, float] = {}

    def could_hide(self, chain: Chain) -> float:
        """An upper bound on exposed seconds that chunks of a chain can hide: the time of dots that can run at the same time."""
        return sum(min(sum(shown), work) for shown, work in map(self._shown, chain.parts))

    def messages_longer(self, cut: Mapping[Node, Loop], count: int) -> float:
        """Seconds by which collectives in chunks take longer than the whole ones."""
        return sum(self._chunks_longer(node, loop, count) for node, loop in cut.items())

    def gain(self, chain: Chain) -> float:
        """Seconds by which the step may become shorter: hidden seconds, less those that launches, small dots and messages, and copies add."""
        # A loop nest makes a kernel of its own; other operations are mostly fused into one.
        launches = sum(node.op in LOOPS for node in chain.loops) * self._device.launch_seconds * (chain.count - 1)
        cut = ((node, loop) for node, loop in chain.loops.items() if node.op in _BY_SIZE)
        longer = sum(self._chunks_longer(node, loop, chain.count) for node, loop in cut)
        added = launches + longer + memory_seconds(self._copied_bytes(chain), self._device)
        hidden = self._hidden(chain.parts, chain.count)
        return (self._hidden(stretches(self._graph, chain), chain.count) if hidden > added else hidden) - added

    def _hidden(self, parts: Iterable[Sequence[Node]], count: int) -> float:
        """Seconds that chunks can hide at best: in each part all exposed seconds but those of one chunk, under dots of the part."""
        found = map(self._shown, parts)
        return sum(min(sum(shown) - max(shown, default=0.0) / count, work) for shown, work in found)

    def _shown(self, part: Sequence[Node]) -> tuple[list[float], float]:
        """Exposed seconds of a part's collectives, and seconds of its dots."""
        work = sum(self._seconds(node) for node in part if node.op in MATRIX_PRODUCTS)
        return [self._exposed[node] for node in part if node in self._exposed], work

    def _seconds(self, dot: Node) -> float:
        key = form_of(dot) or dot
        if key not in self._work:
            self._work[key] = dot_seconds(dot, self._device)
        return self._work[key]

    def _chunks_longer(self, node: Node, loop: Loop, count: int) -> float:
        """How much longer all chunks of a dot or a collective take than the whole: small dots use a device less well, and each
        message has its latency.
        """
        key = (form_of(node) or node, loop, count)
        if key not in self._longer:
            chunk = _chunk(node, loop, count)
            seconds = self._seconds if node.op in MATRIX_PRODUCTS else self._message
            self._longer[key] = count * seconds(chunk) - seconds(node)
        return self._longer[key]

    def _copied_bytes(self, chain: Chain) -> int:
        """Bytes read and written to join chunks that are read whole and cannot be made in place; element-wise operations read them where
        they are.
        """
        apart = (node.result for node, loop in chain.loops.items() if leading(node.result.type.sizes, loop.result) > 1)
        return 2 * sum(value.type.nbytes for value in apart if value in self._outputs or self._is_read(value, chain))

    def _is_read(self, value: Value, chain: Chain) -> bool:
        """Whether an op outside of the chain reads a value in memory."""
        return any(user not in chain.loops and user.op not in ELEMENTWISE for user, _ in self._uses[value])

    def _message(self, collective: Node) -> float:
        return self._costs.collective(Collective.of(collective, self._mesh))


def stretches(graph: Graph, chain: Chain) -> list[list[Node]]:
    """The parts of a chain, cut where all rows are needed: where an op outside of the chain reads them and makes a value that
    the chain reads.
    """
    part_of = {node: number for number, part in enumerate(chain.parts) for node in part}
    found: dict[tuple[int, int], list[Node]] = {}
    made = {node.result for node in chain.loops}
    gone: dict[Value, int] = {}  # before a value, how often all rows were needed
    for node in graph.nodes:
        times = [gone[value] for value in node.operands if value in gone]
        if node in part_of:
            found.setdefault((part_of[node], max(times, default=0)), []).append(node)
            gone[node.result] = max(times, default=0)
        elif times:
            ends = any(value in made for value in node.operands)
            gone |= dict.fromkeys(node.results, max(times) + ends)
    return list(found.values())


def _chunk(node: Node, loop: Loop, count: int) -> Node:
    operands = [
        value if dim is None else Value(tile_of(value.type, dim, count))
        for value, dim in zip(node.operands, loop.operands, strict=True)
    ]
    return Node(node.op, operands, [Value(tile_of(node.result.type, loop.result, count))], node.attrs)
