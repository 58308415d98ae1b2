"""Products whose results meet element by element become one kernel: sums in one accumulator, gated units in two.

    before   %d0 = kernel @dot(%q, %wq)    %d = kernel @dot_add(%k, %wk, %d0)
    after    %d = kernel @dot_dot_add(%q, %wq, %k, %wk)          one main loop goes on where the other ended; %d0 is not written

A kernel of products is delayed to the place of the one that reads its result, element-wise or as another product's epilogue, if nothing
in between reads it, both wait for the same collectives and come before the same ones, no more memory is needed, and the predicted time
is not longer: accumulators that wait take registers, with which tiles may have to be smaller.
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
from meshgen.ops.classes import COMMUNICATING, LOOPS, MATRIX_PRODUCTS, UNLAUNCHED


@module_pass("product-fusion", "fuse")
def product_fusion(module: Module, context: Compilation) -> Module:
    """A fused module whose products are joined; itself where none are."""
    kernels = Kernels.of(module.kernels)
    graph = _with_products_joined(module.graph, kernels)
    if graph is module.graph:
        return module
    used = {node.attrs.kernel for node in _all_kernels(graph)}
    found = replace(module, graph=graph, kernels={name: body for name, body in kernels.bodies.items() if name in used})
    needs = [sequential_bytes(each, DEFAULT_TARGET) for each in (module, found)]
    return found if needs[1] <= needs[0] else module


def _all_kernels(graph: Graph) -> list[Node]:
    inner = [kernel for node in graph.nodes for region in flow_regions(node) for kernel in _all_kernels(region)]
    return [*(node for node in graph.nodes if is_kernel(node)), *inner]


def _with_products_joined(graph: Graph, kernels: Kernels) -> Graph:
    """The graph with products joined, also in its regions."""
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
    """The launches of one graph; each join replaces two by one at the place of the second."""

    def __init__(self, graph: Graph, kernels: Kernels) -> None:
        self.nodes, self._graph, self._kernels = list(graph.nodes), graph, kernels
        self._refused: set[tuple[Node, Node]] = set()
        self._known: dict[str, tuple[int, bool]] = {}  # by kernel
        self._unlike: set[Hashable] = set()  # of pairs that stay apart, as those of equal layers
        self._look()

    def _look(self) -> None:
        """What is where, and needs what."""
        self._made = {value: node for node in self.nodes for value in node.results}
        self._place = {node: number for number, node in enumerate(self.nodes)}
        self._readers: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(_reads(node)):
                self._readers.setdefault(value, []).append(node)
        messages = {n: 1 << i for i, n in enumerate(node for node in self.nodes if node.op in COMMUNICATING)}
        self._waits = _reached(self.nodes, messages, lambda n: [self._made[v] for v in _reads(n) if v in self._made])
        readers = self._readers
        self._waited = _reached(
            self.nodes[::-1], messages, lambda n: [r for v in n.results for r in readers.get(v, ())]
        )

    def join_next(self) -> bool:
        """Join the first two launches that gain; whether there were any."""
        for reader in self.nodes:
            if not is_kernel(reader):
                continue
            for value in reader.operands:
                maker = self._made.get(value)
                if maker is not None and is_kernel(maker) and (maker, reader) not in self._refused:
                    place = self._place_of_both(maker, reader) if self._are_products(maker, reader) else None
                    if place is not None and (launch := self._joined(maker, reader)) is not None:
                        self._take(launch, place, (maker, reader))
                        return True
                    self._refused.add((maker, reader))
        return False

    def _take(self, launch: Node, place: Node, both: tuple[Node, Node]) -> None:
        """Put a launch at the place of one of the two that it computes; both come to the same collectives, so no other node comes to more."""
        self.nodes = [launch if n is place else n for n in self.nodes if n is place or n not in both]
        self._place = {node: number for number, node in enumerate(self.nodes)}
        self._made |= dict.fromkeys(launch.results, launch)
        for value in dict.fromkeys(value for node in both for value in _reads(node)):
            others = [node for node in self._readers[value] if node not in both]
            self._readers[value] = [*others, launch] if value in launch.operands else others
        self._waits[launch], self._waited[launch] = self._waits[place], self._waited[place]

    def _joined(self, maker: Node, reader: Node) -> Node | None:
        """One launch of both; None where they stay apart."""
        bodies = [self._kernels.bodies[node.attrs.kernel] for node in (maker, reader)]
        outside = {v for v in maker.results if any(r is not reader for r in self._readers.get(v, ()))}
        outside.update(v for v in maker.results if v in self._graph.outputs)
        if (key := _form_of_both(maker, reader, outside)) in self._unlike:
            return None
        reads, outputs, body = joined_body(maker, reader, outside, self._kernels.bodies)
        if not self._gains(body, bodies):
            self._unlike.add(key)
            return None
        return kernel_node(self._kernels, body, reads, outputs, reader.loc)

    def _gains(self, body: Graph, apart: Sequence[Graph]) -> bool:
        """Whether a kernel of both can be made, and takes no longer."""
        if not self._fits(body) or not joint_products(body):
            return False
        return kernel_seconds(body, DEFAULT_TARGET) <= sum(kernel_seconds(each, DEFAULT_TARGET) for each in apart)

    def _are_products(self, maker: Node, reader: Node) -> bool:
        """Whether several dots would be in the kernel, and no other loops."""
        (first, is_plain), (second, is_also_plain) = map(self._products_of, (maker.attrs.kernel, reader.attrs.kernel))
        return first > 0 and first + second > 1 and is_plain and is_also_plain

    def _products_of(self, kernel: str) -> tuple[int, bool]:
        """How many products a kernel has, and whether it has no other loops."""
        if (found := self._known.get(kernel)) is None:
            loops = [node.op in MATRIX_PRODUCTS for node in self._kernels.bodies[kernel].nodes if node.op in LOOPS]
            found = self._known[kernel] = sum(loops), all(loops)
        return found

    def _fits(self, body: Graph) -> bool:
        limits = DEFAULT.fusion
        if len(body.outputs) > limits.epilogue_outputs or len(body.inputs) > limits.inputs:
            return False
        if len(body.nodes) > limits.epilogue_nodes:
            return False
        template = recorded_template(body)
        return template is not None and template.form is KernelForm.GEMM

    def _place_of_both(self, maker: Node, reader: Node) -> Node | None:
        """The one of the two at whose place both may be launched."""
        if (self._waits[maker], self._waited[maker]) != (self._waits[reader], self._waited[reader]):
            return None
        between = self.nodes[self._place[maker] + 1 : self._place[reader]]
        made = {v for node in between for v in node.results}
        if made.isdisjoint(reader.operands) and _bytes(reader.results) <= _bytes(maker.results):
            return maker
        read = {v for node in between for v in _reads(node)}
        if not read.isdisjoint(maker.results):
            return None
        is_next = all(node.op in UNLAUNCHED for node in between)
        return reader if is_next or self._ending(maker, reader) <= _bytes(maker.results) else None

    def _ending(self, maker: Node, reader: Node) -> int:
        """Bytes of what the maker reads, and nothing at the place of the reader or later."""
        later = {v for node in self.nodes[self._place[reader] :] for v in _reads(node)} | {*self._graph.outputs}
        return _bytes(v for v in dict.fromkeys(maker.operands) if v in self._made and v not in later)


def _form_of_both(maker: Node, reader: Node, outside: set[Value]) -> Hashable:
    """What the body of both depends on, up to the names of values."""
    values = (*maker.operands, *maker.results, *reader.operands)
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    places = (*map(numbers.__getitem__, values), *(value in outside for value in maker.results))
    return maker.attrs.kernel, reader.attrs.kernel, places


def joined_body(
    maker: Node, reader: Node, outside: set[Value], bodies: Mapping[str, Graph]
) -> tuple[list[Value], list[Value], Graph]:
    """What a launch that computes both reads and makes, and its body; of what the maker makes others read `outside`."""
    body, now = Graph(""), dict[Value, Value]()
    for node in (maker, reader):
        given, inner = bodies[node.attrs.kernel], dict[Value, Value]()
        for value, formal in zip(node.operands, given.inputs, strict=True):
            if value not in now:
                now[value] = Value(formal.type, formal.name, loc=formal.loc)
                body.inputs.append(now[value])
            inner[formal] = now[value]
        for each in given.nodes:
            copy_node(each, body, inner)
        now |= {value: inner[own] for value, own in zip(node.results, given.outputs, strict=True)}
    reads = [value for value in (*maker.operands, *reader.operands) if value not in maker.results]
    outputs = [v for v in (*maker.results, *reader.results) if v not in maker.results or v in outside]
    body.outputs = [now[v] for v in outputs]
    return [*dict.fromkeys(reads)], outputs, body


def _bytes(values: Iterable[Value]) -> int:
    return sum(value.type.nbytes for value in values)


def _reads(node: Node) -> tuple[Value, ...]:
    return (*node.operands, *captured(node))


def _reached(
    nodes: Sequence[Node], own: Mapping[Node, int], following: Callable[[Node], Iterable[Node]]
) -> dict[Node, int]:
    """The collectives, as bits, that each node comes to over others: `nodes` are in an order in which those come first."""
    found: dict[Node, int] = {}
    for node in nodes:
        found[node] = 0
        for other in following(node):
            found[node] |= found[other] | own.get(other, 0)
    return found
