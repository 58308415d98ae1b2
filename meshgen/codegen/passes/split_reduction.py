"""Split a long reduction with a small result into partial results and their combination, if that fills the device.

    before   %2 = dot_general %x, %w                           bf16[128,16384], bf16[16384,128] -> bf16[128,128]
    after    %1 = dot_general %x', %w' {batch = 1 with 0}      bf16[128,16,1024], bf16[16,1024,128] -> f32[16,128,128]
             %2 = convert (reduce add %1 over 0)

The op definition specifies the partial results and their combination (`ops/parts`). It does so for dots, convolutions,
attention, reductions, scans and `top_k`. The program alone decides the reduction order, so all runs give the same bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from meshgen.codegen.fusion.bodies import Cutter
from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.codegen.roofline.kernel_time import device_of, kernel_seconds
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.matchers import through
from meshgen.ir.node_keys import form_of
from meshgen.ir.rewriter import redefine_results
from meshgen.ops.classes import (
    ATTENTIONS,
    DOTS,
    GENERATED,
    LAYOUT,
    LOOPS,
    MADE,
    NEVER_STORED,
    POINTWISE,
    PRODUCTS,
    REDUCTIONS,
)
from meshgen.ops.parts.base import Parts
from meshgen.ops.registry import OPS

_TARGET = "cpu"  # Target of the time model; plans are the same for all targets.
_WITH_EPILOGUE = LOOPS | PRODUCTS
_COMPUTED = POINTWISE | REDUCTIONS  # Ops that a kernel can absorb in front of a reduction.
# Largest number of nodes that a reduction kernel absorbs (chosen: kernels with long chains of ops have about as many).
_MAX_ABSORBED = 64


@module_pass("split-reduction", "partition")
def split_reduction(module: Module, context: Compilation) -> Module:
    """Split long reductions into partial results and their combination."""
    return on_graphs(module, _with_splits)


def _with_splits(graph: Graph) -> Graph:
    splitter, siblings = _Folds(graph), _siblings(graph)
    split_graph = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
    for node in graph.nodes:
        split_graph.nodes += [node] if node in siblings else splitter.split(node)
    return split_graph


def _is_free(node: Node) -> bool:
    return node.op in NEVER_STORED


def _siblings(graph: Graph) -> set[Node]:
    """Return the dots that share their left operand with another dot of equal type.

    Such dots are not split, because together they fill the device in one kernel.
    """
    alike: dict[object, list[Node]] = {}
    for node in graph.nodes:
        if node.op in DOTS:
            alike.setdefault((node.operands[0], node.operands[1].type, node.attrs), []).append(node)
    return {node for dots in alike.values() if len(dots) > 1 for node in dots}


class _Folds:
    """Splits the reductions of a graph. Nodes of the same form (`form_of`) are split into the same number of parts."""

    def __init__(self, graph: Graph) -> None:
        self._producers, self._uses = graph.index.producers, graph.index.uses
        self._outputs = {*graph.outputs}
        self._counts: dict[object, int] = {}

    def split(self, node: Node) -> list[Node]:
        """Return the nodes that replace `node`: partial results and their combination, or `node` itself.

        The combination may be split again.
        """
        parts_of = OPS[node.op].parts if node.op in OPS else None
        if parts_of is None or (parts := parts_of(node, self._producers.get)) is None or not parts.counts:
            return [node]
        users = (user for result in node.results for user, _ in self._uses.get(result, ()))
        is_followed = node.op in PRODUCTS - ATTENTIONS and any(user.op in GENERATED for user in users)
        read = self._read_bytes(node)
        key = form_of(node) or node, read, is_followed
        if key not in self._counts:
            self._counts[key] = self._best_count(node, parts, read, is_followed)
        if self._counts[key] == 1:
            return [node]
        partial, combined = _written(node, parts, self._counts[key])
        return [*partial.nodes, *(part for node in combined.nodes for part in self.split(node))]

    def _best_count(self, node: Node, parts: Parts, read: int, is_followed: bool) -> int:
        """Return a number of parts with nearly the shortest predicted time, or 1 if splitting does not help.

        Among the fastest numbers, the result is the largest one for which the partial results are small, because
        kernels with more thread blocks can fuse more. If the partial results are never small, the result is the
        smallest number. An op that was fused into the epilogue of the GEMM may need an additional launch after the
        split.
        """
        launch = device_of(_TARGET).launch_seconds
        unsplit_seconds = self._seconds([node]) - launch * is_followed
        if unsplit_seconds <= 2 * launch:  # The launches of the two kernels alone would take at least as long.
            return 1
        written = {count: _written(node, parts, count) for count in parts.counts}
        seconds = {
            count: self._seconds(partial.nodes) + self._fold_seconds(node, combined)
            for count, (partial, combined) in written.items()
        }
        least = min(seconds.values())
        fast = [count for count in parts.counts if seconds[count] <= least * DEFAULT.fusion.same_product]
        small = [n for n in fast if sum(v.type.nbytes for v in written[n][0].outputs) * DEFAULT.fusion.smaller <= read]
        best = small[-1] if small else fast[0]
        return best if seconds[best] < unsplit_seconds else 1

    def _fold_seconds(self, node: Node, combined: Graph) -> float:
        """Return the predicted seconds to combine the parts.

        For attention, this is the launch time of two kernels, because these kernels move few bytes.
        """
        if node.op in ATTENTIONS:
            return 2 * device_of(_TARGET).launch_seconds
        return self._seconds(combined.nodes)

    def _read_bytes(self, node: Node) -> int:
        """Return the bytes per device that a node reads: the size of its operands.

        For a reduction with fused producers that read far fewer bytes, return those bytes. If they are not far fewer,
        the operands' size gives similar reductions the same number of parts, so that their kernels can be merged.
        """
        nbytes = sum(value.type.nbytes for value in node.operands)
        if node.op not in REDUCTIONS:
            return nbytes
        read = sum(value.type.nbytes for value in self._kernels([node])[-1].inputs)
        return read if read * DEFAULT.fusion.smaller < nbytes else nbytes

    def _seconds(self, nodes: list[Node]) -> float:
        return sum(kernel_seconds(body, _TARGET) for body in self._kernels(nodes))

    def _kernels(self, nodes: list[Node]) -> list[Graph]:
        """Return the kernel bodies for a few nodes, the last kernel first.

        Each body includes the element-wise ops of the kernel's epilogue.
        """
        local = {result: node for node in nodes for result in node.results}
        kernels: list[list[Node]] = []
        for node in nodes:
            source = local.get(through(node.operands[0], local.get, LAYOUT)) if node.operands else None
            if (
                source is not None
                and node.op in POINTWISE
                and source.op in _WITH_EPILOGUE
                and source is kernels[-1][-1]
            ):
                kernels[-1].append(node)
            elif not _is_free(node):
                kernels.append([node])
        uses = Counter(value for node in nodes for value in node.operands)
        bodies, done = list[Graph](), set[Node]()
        for members in reversed(kernels):
            if not done.issuperset(members):
                absorbed = self._absorbed(members, local, uses)
                inside = {result: node for node in (*members, *absorbed) for result in node.results}
                bodies.append(Cutter(inside, absorbed.__contains__).cut(members, members[-1].results)[0])
                done |= absorbed
        return bodies

    def _absorbed(self, members: Sequence[Node], local: Mapping[Value, Node], uses: Mapping[Value, int]) -> set[Node]:
        """Return the producers that the kernel of `members` computes itself, without storing their results.

        These are values that are never stored and, for a reduction, producers without other users.

        Args:
            local: the nodes that replace the reduction, by result.
            uses: how often these nodes use each value.
        """
        is_reducing, seen, absorbed, worklist = members[0].op in REDUCTIONS, Counter[Value](), set[Node](), [*members]
        while worklist and len(absorbed) < _MAX_ABSORBED:
            for value in worklist.pop().operands:
                seen[value] += 1
                producer = local.get(value) or self._producers.get(value)
                if producer is None or producer in absorbed or producer in members:
                    continue
                count = uses[value] if value in local else len(self._uses.get(value, ())) + (value in self._outputs)
                is_private = is_reducing and producer.op in _COMPUTED and seen[value] == count
                if is_private or producer.op in (NEVER_STORED if is_reducing else MADE):
                    absorbed.add(producer)
                    worklist.append(producer)
        return absorbed


def _written(node: Node, parts: Parts, count: int) -> tuple[Graph, Graph]:
    """Return two graphs: one computes `count` partial results of `node`, the other combines them into the node's
    results.
    """
    partial, combined = Builder(Graph(""), node.loc), Builder(Graph(""), node.loc)
    partial.graph.outputs = parts.partial(partial, count)
    results = parts.combine(combined, partial.graph.outputs)
    redefine_results(combined.graph, results, node.results)
    return partial.graph, combined.graph
