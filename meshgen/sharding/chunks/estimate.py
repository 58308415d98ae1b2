"""Estimate the gain of running a chain in chunks before it is rewritten, to choose the chains to schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from meshgen.ccl.collective import Collective, leading
from meshgen.codegen.roofline.kernel_time import device_of, dot_seconds, memory_seconds
from meshgen.codegen.scheduling.costs import default_costs
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.node_keys import form_of
from meshgen.mesh import Mesh
from meshgen.ops.classes import ELEMENTWISE, GEMMS, LOOPS
from meshgen.sharding.chunks.chain import CHUNKED, Chain
from meshgen.sharding.optimizations.loops_on_tiles import Loop, tile_of

_BY_SIZE = GEMMS | CHUNKED  # ops whose chunks together take longer than the unsplit op


class Estimates:
    """Estimated gains of the chains of one program; times of equal operations are computed once."""

    def __init__(self, graph: Graph, mesh: Mesh, target: str, exposed: Mapping[Node, float]) -> None:
        """Prepare the estimates. `exposed` has the seconds of each collective during which no kernel runs."""
        self._graph, self._mesh, self._exposed = graph, mesh, exposed
        self._uses, self._outputs = graph.index.uses, {*graph.outputs}
        self._device, self._costs = device_of(target), default_costs(target)
        self._work: dict[object, float] = {}
        self._longer: dict[object, float] = {}

    def hideable_seconds(self, chain: Chain) -> float:
        """Return an upper bound on the exposed seconds that chunks can hide behind the dots of each part."""
        return sum(min(sum(exposed), work) for exposed, work in map(self._exposed_and_work, chain.parts))

    def extra_message_seconds(self, cut: Mapping[Node, Loop], count: int) -> float:
        """Return the extra seconds that the collectives in `cut` take in `count` chunks instead of one message."""
        return sum(self._chunk_overhead(node, loop, count) for node, loop in cut.items())

    def gain(self, chain: Chain) -> float:
        """Return the estimated seconds by which chunks of the chain shorten the step.

        These are the hidden seconds minus the seconds that launches, small dots, small messages and copies add.
        """
        # A loop nest becomes its own kernel; other operations are mostly fused into one.
        launches = sum(node.op in LOOPS for node in chain.loops) * self._device.launch_seconds * (chain.count - 1)
        slower_nodes = ((node, loop) for node, loop in chain.loops.items() if node.op in _BY_SIZE)
        slowdown = sum(self._chunk_overhead(node, loop, chain.count) for node, loop in slower_nodes)
        added = launches + slowdown + memory_seconds(self._copied_bytes(chain), self._device)
        hidden = self._hidden(chain.parts, chain.count)
        return (self._hidden(stretches(self._graph, chain), chain.count) if hidden > added else hidden) - added

    def _hidden(self, parts: Iterable[Sequence[Node]], count: int) -> float:
        """Return the seconds of communication that chunks can hide at best.

        In each part all exposed seconds can be hidden except those of one chunk, and at most as many seconds as the
        part's dots take.
        """
        part_seconds = map(self._exposed_and_work, parts)
        return sum(min(sum(exposed) - max(exposed, default=0.0) / count, work) for exposed, work in part_seconds)

    def _exposed_and_work(self, part: Sequence[Node]) -> tuple[list[float], float]:
        """Return the exposed seconds of a part's collectives, and the seconds of its dots."""
        work = sum(self._seconds(node) for node in part if node.op in GEMMS)
        return [self._exposed[node] for node in part if node in self._exposed], work

    def _seconds(self, dot: Node) -> float:
        key = form_of(dot) or dot
        if key not in self._work:
            self._work[key] = dot_seconds(dot, self._device)
        return self._work[key]

    def _chunk_overhead(self, node: Node, loop: Loop, count: int) -> float:
        """Return the seconds that all chunks of a dot or a collective together take in excess of the unsplit op.

        Small dots utilize a device less well, and each message has its own latency.
        """
        key = (form_of(node) or node, loop, count)
        if key not in self._longer:
            chunk = _chunk(node, loop, count)
            seconds = self._seconds if node.op in GEMMS else self._message
            self._longer[key] = count * seconds(chunk) - seconds(node)
        return self._longer[key]

    def _copied_bytes(self, chain: Chain) -> int:
        """Return the bytes per device that are read and written to concatenate chunks for users that need the complete
        value.

        Element-wise users read the chunks directly, and chunks of the outermost dim are written in place.
        """
        strided_results = (
            node.result for node, loop in chain.loops.items() if leading(node.result.type.sizes, loop.result) > 1
        )
        return 2 * sum(
            value.type.nbytes for value in strided_results if value in self._outputs or self._is_read(value, chain)
        )

    def _is_read(self, value: Value, chain: Chain) -> bool:
        """Whether an op outside of the chain reads a value from memory."""
        return any(user not in chain.loops and user.op not in ELEMENTWISE for user, _ in self._uses[value])

    def _message(self, collective: Node) -> float:
        return self._costs.collective(Collective.of(collective, self._mesh))


def stretches(graph: Graph, chain: Chain) -> list[list[Node]]:
    """Return the parts of a chain, split further at barriers, which are ops that need all rows at once.

    A barrier is outside of the chain. It reads all rows of a result of the chain, and a later node of the chain depends
    on the barrier.
    """
    part_of = {node: index for index, part in enumerate(chain.parts) for node in part}
    nodes_by_stretch: dict[tuple[int, int], list[Node]] = {}
    chain_results = {node.result for node in chain.loops}
    barriers_before: dict[Value, int] = {}  # value -> number of barriers that it depends on
    for node in graph.nodes:
        barrier_counts = [barriers_before[value] for value in node.operands if value in barriers_before]
        if node in part_of:
            nodes_by_stretch.setdefault((part_of[node], max(barrier_counts, default=0)), []).append(node)
            barriers_before[node.result] = max(barrier_counts, default=0)
        elif barrier_counts:
            is_barrier = any(value in chain_results for value in node.operands)
            barriers_before |= dict.fromkeys(node.results, max(barrier_counts) + is_barrier)
    return list(nodes_by_stretch.values())


def _chunk(node: Node, loop: Loop, count: int) -> Node:
    operands = [
        value if dim is None else Value(tile_of(value.type, dim, count))
        for value, dim in zip(node.operands, loop.operands, strict=True)
    ]
    return Node(node.op, operands, [Value(tile_of(node.result.type, loop.result, count))], node.attrs)
