"""Fuse GEMMs whose results are combined element-wise into one kernel: sums share one accumulator, gated units use two.

    before   %d0 = kernel @dot(%q, %wq)    %d = kernel @dot_add(%k, %wk, %d0)
    after    %d = kernel @dot_dot_add(%q, %wq, %k, %wk)       two main loops, one after the other; %d0 is never written

The user of a GEMM's result may be an element-wise kernel or the epilogue of another GEMM. The GEMM is delayed to the
position of that user. No launch in between may read the result, and the step may not need more memory. Both kernels
must depend on the same collectives and precede the same ones. The predicted time must not increase: an additional
accumulator takes registers, so tiles may have to be smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

from meshgen.codegen.fusion.accumulators import joint_products
from meshgen.codegen.fusion.bodies import Kernels, copy_node
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.kernel_nodes import kernel_node, recorded_template
from meshgen.codegen.roofline.kernel_time import kernel_seconds
from meshgen.codegen.scheduling.schedule import sequential_bytes
from meshgen.codegen.targets import DEFAULT_TARGET
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.predicates import is_kernel
from meshgen.ir.regions import captured, flow_regions
from meshgen.ops.classes import COMMUNICATING, GEMMS, LOOPS, UNLAUNCHED


@module_pass("product-fusion", "fuse")
def product_fusion(module: Module, context: Compilation) -> Module:
    """Return a fused module in which GEMMs with element-wise combined results are fused into one kernel.

    Returns the module itself if it has no such GEMMs, or if the step would need more memory.
    """
    kernels = Kernels.of(module.kernels)
    graph = _with_products_joined(module.graph, kernels)
    if graph is module.graph:
        return module
    used = {node.attrs.kernel for node in _all_kernels(graph)}
    fused = replace(module, graph=graph, kernels={name: body for name, body in kernels.bodies.items() if name in used})
    needs = [sequential_bytes(candidate, DEFAULT_TARGET) for candidate in (module, fused)]
    return fused if needs[1] <= needs[0] else module


def _all_kernels(graph: Graph) -> list[Node]:
    inner = [kernel for node in graph.nodes for region in flow_regions(node) for kernel in _all_kernels(region)]
    return [*(node for node in graph.nodes if is_kernel(node)), *inner]


def _with_products_joined(graph: Graph, kernels: Kernels) -> Graph:
    """Return the graph with GEMMs fused, including GEMMs in its regions."""
    nodes = [_with_regions(node, kernels) for node in graph.nodes]
    joins = _Joins(replace_nodes(graph, nodes), kernels)
    while joins.join_next():
        pass
    same = len(joins.nodes) == len(graph.nodes) and all(a is b for a, b in zip(joins.nodes, graph.nodes, strict=True))
    return graph if same else replace_nodes(graph, joins.nodes)


def replace_nodes(graph: Graph, nodes: list[Node]) -> Graph:
    return Graph(graph.name, graph.inputs, nodes, graph.outputs)


def _with_regions(node: Node, kernels: Kernels) -> Node:
    regions = [_with_products_joined(region, kernels) for region in flow_regions(node)]
    is_same = all(after is before for after, before in zip(regions, node.regions, strict=False))
    return node if is_same else replace(node, regions=tuple(regions))


class _Joins:
    """The launches of one graph. Each fusion replaces two launches by one, at the position of either."""

    def __init__(self, graph: Graph, kernels: Kernels) -> None:
        self.nodes, self._graph, self._kernels = list(graph.nodes), graph, kernels
        self._refused: set[tuple[Node, Node]] = set()
        # for each kernel name, the number of GEMMs, and whether the kernel has no other loops
        self._products_of_kernel: dict[str, tuple[int, bool]] = {}
        self._unprofitable_forms: set[Hashable] = (
            set()
        )  # Forms (`_form_of_both`) of pairs that are not profitable to fuse, so that equal layers are analyzed only once.
        self._analyze()

    def _analyze(self) -> None:
        """Analyze the graph: producers, positions, users, and the collectives before and after each node."""
        self._producers = {value: node for node in self.nodes for value in node.results}
        self._place = {node: index for index, node in enumerate(self.nodes)}
        self._readers: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(_reads(node)):
                self._readers.setdefault(value, []).append(node)
        messages = {n: 1 << i for i, n in enumerate(node for node in self.nodes if node.op in COMMUNICATING)}
        self._collectives_before = _reached(
            self.nodes, messages, lambda n: [self._producers[v] for v in _reads(n) if v in self._producers]
        )
        readers = self._readers
        self._collectives_after = _reached(
            self.nodes[::-1], messages, lambda n: [r for v in n.results for r in readers.get(v, ())]
        )

    def join_next(self) -> bool:
        """Fuse the first profitable pair of launches. Returns whether there was one."""
        for reader in self.nodes:
            if not is_kernel(reader):
                continue
            for value in reader.operands:
                producer = self._producers.get(value)
                if producer is not None and is_kernel(producer) and (producer, reader) not in self._refused:
                    position = self._fused_position(producer, reader) if self._are_products(producer, reader) else None
                    if position is not None and (launch := self._joined(producer, reader)) is not None:
                        self._replace_pair(launch, position, (producer, reader))
                        return True
                    self._refused.add((producer, reader))
        return False

    def _replace_pair(self, launch: Node, place: Node, pair: tuple[Node, Node]) -> None:
        """Replace the launches in `pair` by `launch`, at the position of `place`.

        Both depend on and precede the same collectives, so the sets of collectives of other nodes do not change.
        """
        self.nodes = [launch if n is place else n for n in self.nodes if n is place or n not in pair]
        self._place = {node: index for index, node in enumerate(self.nodes)}
        self._producers |= dict.fromkeys(launch.results, launch)
        for value in dict.fromkeys(value for node in pair for value in _reads(node)):
            other_readers = [node for node in self._readers[value] if node not in pair]
            self._readers[value] = [*other_readers, launch] if value in launch.operands else other_readers
        self._collectives_before[launch], self._collectives_after[launch] = (
            self._collectives_before[place],
            self._collectives_after[place],
        )

    def _joined(self, producer: Node, reader: Node) -> Node | None:
        """Return one launch that computes both kernels, or None if fusing them is unsupported or not profitable."""
        bodies = [self._kernels.bodies[node.attrs.kernel] for node in (producer, reader)]
        outside = {v for v in producer.results if any(r is not reader for r in self._readers.get(v, ()))}
        outside.update(v for v in producer.results if v in self._graph.outputs)
        if (key := _form_of_both(producer, reader, outside)) in self._unprofitable_forms:
            return None
        reads, outputs, body = fused_body(producer, reader, outside, self._kernels.bodies)
        if not self._is_profitable(body, bodies):
            self._unprofitable_forms.add(key)
            return None
        return kernel_node(self._kernels, body, reads, outputs, reader.loc)

    def _is_profitable(self, body: Graph, apart: Sequence[Graph]) -> bool:
        """Whether a kernel can compute the fused body `body` and takes no longer than the separate bodies `apart`."""
        if not self._fits(body) or not joint_products(body):
            return False
        return kernel_seconds(body, DEFAULT_TARGET) <= sum(
            kernel_seconds(separate_body, DEFAULT_TARGET) for separate_body in apart
        )

    def _are_products(self, producer: Node, reader: Node) -> bool:
        """Whether the fused kernel would have several dots and no other loops."""
        (first, is_plain), (second, is_also_plain) = map(
            self._products_of, (producer.attrs.kernel, reader.attrs.kernel)
        )
        return first > 0 and first + second > 1 and is_plain and is_also_plain

    def _products_of(self, kernel: str) -> tuple[int, bool]:
        """Return the number of GEMMs in a kernel, and whether it has no other loops."""
        if (counted := self._products_of_kernel.get(kernel)) is None:
            loops = [node.op in GEMMS for node in self._kernels.bodies[kernel].nodes if node.op in LOOPS]
            counted = self._products_of_kernel[kernel] = sum(loops), all(loops)
        return counted

    def _fits(self, body: Graph) -> bool:
        limits = DEFAULT.fusion
        if len(body.outputs) > limits.epilogue_outputs or len(body.inputs) > limits.inputs:
            return False
        if len(body.nodes) > limits.epilogue_nodes:
            return False
        template = recorded_template(body)
        return template is not None and template.form is KernelForm.GEMM

    def _fused_position(self, producer: Node, reader: Node) -> Node | None:
        """Return the launch (`producer` or `reader`) whose position the fused launch can take, or None if neither is
        possible.
        """
        if (self._collectives_before[producer], self._collectives_after[producer]) != (
            self._collectives_before[reader],
            self._collectives_after[reader],
        ):
            return None
        between = self.nodes[self._place[producer] + 1 : self._place[reader]]
        results_between = {v for node in between for v in node.results}
        if results_between.isdisjoint(reader.operands) and _bytes(reader.results) <= _bytes(producer.results):
            return producer
        reads_between = {v for node in between for v in _reads(node)}
        if not reads_between.isdisjoint(producer.results):
            return None
        is_next = all(node.op in UNLAUNCHED for node in between)
        return reader if is_next or self._ending(producer, reader) <= _bytes(producer.results) else None

    def _ending(self, producer: Node, reader: Node) -> int:
        """Return the bytes of the operands of `producer` that no launch reads from the position of `reader` on."""
        later = {v for node in self.nodes[self._place[reader] :] for v in _reads(node)} | {*self._graph.outputs}
        return _bytes(v for v in dict.fromkeys(producer.operands) if v in self._producers and v not in later)


def _form_of_both(producer: Node, reader: Node, outside: set[Value]) -> Hashable:
    """Return a key of everything that the fused body depends on, except the names of values."""
    values = (*producer.operands, *producer.results, *reader.operands)
    indices = {value: index for index, value in enumerate(dict.fromkeys(values))}
    pattern = (*map(indices.__getitem__, values), *(value in outside for value in producer.results))
    return producer.attrs.kernel, reader.attrs.kernel, pattern


def fused_body(
    producer: Node, reader: Node, outside: set[Value], bodies: Mapping[str, Graph]
) -> tuple[list[Value], list[Value], Graph]:
    """Return the operands, the results and the body of a launch that computes both kernels.

    `outside` are the results of `producer` that other nodes read.
    """
    body, copied = Graph(""), dict[Value, Value]()
    for node in (producer, reader):
        kernel_body, inner = bodies[node.attrs.kernel], dict[Value, Value]()
        for value, formal in zip(node.operands, kernel_body.inputs, strict=True):
            if value not in copied:
                copied[value] = Value(formal.type, formal.name, loc=formal.loc)
                body.inputs.append(copied[value])
            inner[formal] = copied[value]
        for inner_node in kernel_body.nodes:
            copy_node(inner_node, body, inner)
        copied |= {
            value: inner[formal_result] for value, formal_result in zip(node.results, kernel_body.outputs, strict=True)
        }
    reads = [value for value in (*producer.operands, *reader.operands) if value not in producer.results]
    outputs = [v for v in (*producer.results, *reader.results) if v not in producer.results or v in outside]
    body.outputs = [copied[v] for v in outputs]
    return [*dict.fromkeys(reads)], outputs, body


def _bytes(values: Iterable[Value]) -> int:
    return sum(value.type.nbytes for value in values)


def _reads(node: Node) -> tuple[Value, ...]:
    return (*node.operands, *captured(node))


def _reached(
    nodes: Sequence[Node], bits: Mapping[Node, int], following: Callable[[Node], Iterable[Node]]
) -> dict[Node, int]:
    """Return for each node the bit set of collectives that it reaches through the edges `following`.

    `nodes` must be in an order in which the nodes in `following` come first. `bits` has the bit of each collective.
    """
    reached: dict[Node, int] = {}
    for node in nodes:
        reached[node] = 0
        for neighbor in following(node):
            reached[node] |= reached[neighbor] | bits.get(neighbor, 0)
    return reached
