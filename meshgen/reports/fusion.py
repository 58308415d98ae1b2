"""For every value that one operation gives another: whether one kernel has both, and why or why not.

Edges inside kernels are those of their bodies, once for each distinct one. Of an edge between launches the reason is found again: whether any
template generates both as one kernel, whether something comes between them, and which moves fewer bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from meshgen.codegen.emit.plan import Template
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.kernel_nodes import recorded_template
from meshgen.codegen.product_fusion import joined_body
from meshgen.codegen.roofline.kernel_time import kernel_bytes, kernel_seconds
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.matchers import depends_on
from meshgen.ir.predicates import is_constant, is_kernel
from meshgen.ir.regions import captured, flow_graphs
from meshgen.ops.classes import COMMUNICATING, LAYOUT, LOOKUPS, PRODUCTS, REDUCTIONS, UNLAUNCHED, VIEWS
from meshgen.reports.interface import Compiled


@dataclass(frozen=True)
class FusionEdge:
    """A value on its way from its maker to a reader: operations of one kernel, or two launches.

    Attributes:
        maker, reader: names of ops inside of `kernel`; of kernels or ops that are launched where it is empty.
        nbytes: that the value has on a device.
    """

    value: str
    maker: str
    reader: str
    kernel: str
    nbytes: int
    is_fused: bool
    why: str


def fusion_records(executable: Compiled) -> list[dict[str, object]]:
    """All edges of a program's meshes, for `--json`: those between launches first, the largest values first."""
    found = [edge for part in executable.parts for edge in fusion_edges(part.fused, part.target)]
    return [asdict(edge) for edge in found]


def fusion_edges(module: Module, target: str) -> list[FusionEdge]:
    """The edges of a fused module."""
    between = [edge for graph in flow_graphs(module.graph) for edge in _Between(graph, module, target).edges()]
    inside = [edge for name, body in module.kernels.items() for edge in _edges_inside_kernel(name, body)]
    return [*sorted(between, key=lambda edge: -edge.nbytes), *inside]


def _edges_inside_kernel(name: str, body: Graph) -> Iterator[FusionEdge]:
    made = body.index.producers
    for node in body.nodes:
        for value in dict.fromkeys(node.operands):
            if (maker := made.get(value)) is not None and (maker.operands or maker.op in LOOKUPS):
                why = _why_fused(maker, node)
                yield FusionEdge(value.name, maker.op, node.op, name, value.type.nbytes, True, why)


def _why_fused(maker: Node, reader: Node) -> str:
    if maker.op in LAYOUT:
        return "an index map: the reader computes where the element is"
    if maker.op in PRODUCTS:
        return "an epilogue: the tile of the product is in registers"
    if maker.op in REDUCTIONS:
        return "the result of the row is in registers"
    if reader.op in REDUCTIONS or reader.op in PRODUCTS:
        return "each element is computed where it is summed"
    return "element by element: the value stays in registers"


class _Between:
    """The edges between the launches of one graph."""

    def __init__(self, graph: Graph, module: Module, target: str) -> None:
        self._graph, self._kernels = graph, module.kernels
        self._made = graph.index.producers
        self._launches = [node for node in graph.nodes if node.op not in UNLAUNCHED]
        self._number = {node: number for number, node in enumerate(self._launches)}
        self._target = target
        self._needs: list[int] = []
        for node in self._launches:
            makers = [self._number[maker] for value in _reads(node) for maker in self._makers(value)]
            self._needs.append(sum({1 << n for n in makers}) | self._over(makers))

    def _over(self, makers: list[int]) -> int:
        found = 0
        for maker in makers:
            found |= self._needs[maker]
        return found

    def edges(self) -> Iterator[FusionEdge]:
        """An edge for each value that a launch reads and another one makes."""
        readers: dict[Value, int] = {}
        for node in self._launches:
            for value in dict.fromkeys(_reads(node)):
                readers[value] = readers.get(value, 0) + 1
        for node in self._launches:
            for value in dict.fromkeys(_reads(node)):
                for maker in self._makers(value):
                    why = self._why_not(maker, node, value, readers[value])
                    names = _op_name(maker), _op_name(node)
                    yield FusionEdge(value.name, *names, "", value.type.nbytes, False, why)

    def _makers(self, value: Value) -> list[Node]:
        """The launches that make a value, seen through views and joins."""
        node = self._made.get(value)
        if node is None or is_constant(node):
            return []
        if node.op in VIEWS:
            return self._makers(node.operands[node.results.index(value)])
        if node.op == "join":
            return list(dict.fromkeys(maker for operand in node.operands for maker in self._makers(operand)))
        return [node]

    def _why_not(self, maker: Node, reader: Node, value: Value, readers: int) -> str:
        for node in (maker, reader):
            if not is_kernel(node):
                return f"'{node.op}' is {'a collective' if node.op in COMMUNICATING else 'control flow'}"
            template = self._template(node.attrs.kernel)
            if template is None or not template.fuses:
                name = "none" if template is None else template.name
                return f"'{_op_name(node)}' is made from template '{name}', which takes no operations of others in"
        if value not in maker.results:
            return "the reader has a part of what several launches make, or another part of it than the maker writes at a time"
        if (reason := self._order(maker, reader)) or (reason := self._product(reader, value)):
            return reason
        joined = self._joined(maker, reader)
        if not self._plans(joined):
            return self._no_template(maker, reader)
        return self._cost(maker, reader, joined, readers)

    def _order(self, maker: Node, reader: Node) -> str:
        """What has to run between the two."""
        first, last = self._number[maker], self._number[reader]
        needs = self._needs[last]
        for number in range(first + 1, last):
            if needs >> number & 1 and self._needs[number] >> first & 1:
                return f"'{_op_name(self._launches[number])}' comes between: it needs the one, and the other needs it"
        waits = needs & ~self._needs[first]
        for number, node in enumerate(self._launches):
            if waits >> number & 1 and node.op in COMMUNICATING:
                return f"the reader waits for a collective ('{node.op}') that the maker does not wait for"
        return ""

    def _product(self, reader: Node, value: Value) -> str:
        """Whether the reader multiplies what it makes of the value."""
        body = self._kernels[reader.attrs.kernel]
        read = [body.inputs[n] for n, operand in enumerate(reader.operands) if operand is value]
        products = (node for node in body.nodes if node.op in PRODUCTS)
        if any(depends_on(node.operands, read, body.index.producers.get) for node in products):
            return "an operand of a product: each tile that needs it would compute it again"
        return ""

    def _no_template(self, maker: Node, reader: Node) -> str:
        templates = [self._template(node.attrs.kernel) for node in (maker, reader)]
        forms = [template.form for template in templates if template is not None]
        if all(form.multiplies for form in forms):
            return (
                "each has a product of its own, and their tiles are of other sizes, or one is an operand of the other"
            )
        if forms[0].multiplies and KernelForm.REDUCE in forms:
            return "a program has a tile of the product, and the reader sums over whole rows"
        if forms == [KernelForm.REDUCE, KernelForm.REDUCE]:
            return "they reduce over different elements, or the reader needs sums of other rows than a program has"
        if KernelForm.SEGMENTED in forms:
            return "one of them is several kernels side by side"
        return "the reader needs elements that other programs of the maker have"

    def _cost(self, maker: Node, reader: Node, joined: Graph, readers: int) -> str:
        apart = sum(kernel_bytes(self._kernels[node.attrs.kernel]) for node in (maker, reader))
        if (together := kernel_bytes(joined)) >= apart:
            return f"one kernel would move {together} bytes, as two they move {apart}"
        limits = DEFAULT.fusion
        if len(joined.nodes) > limits.epilogue_nodes or len(joined.inputs) > limits.inputs:
            return f"one kernel would have {len(joined.nodes)} operations and {len(joined.inputs)} operands"
        if len(joined.outputs) > limits.epilogue_outputs:
            return f"one kernel would write {len(joined.outputs)} values"
        if readers > 1:
            return f"{readers} kernels read it: it is written in any case"
        rows = [n.result.type.size for n in joined.nodes if n.op in REDUCTIONS]
        if rows and min(rows) < limits.least_programs:
            return f"{min(rows)} rows are too few programs for the work of the maker"
        alone, one = self._seconds(maker, reader), kernel_seconds(joined, self._target)
        if one > alone:
            return f"one kernel would take {one * 1e6:.1f} us, as two they take {alone * 1e6:.1f} us"
        return "groups that have grown in program order were not joined, or more would be in memory at a time"

    def _seconds(self, *launches: Node) -> float:
        return sum(kernel_seconds(self._kernels[node.attrs.kernel], self._target) for node in launches)

    def _joined(self, maker: Node, reader: Node) -> Graph:
        """A body that computes both; what only the reader needs is not written."""
        outside = {v for n in self._graph.nodes if n is not reader for v in _reads(n)} | {*self._graph.outputs}
        return joined_body(maker, reader, outside, self._kernels)[2]

    def _plans(self, body: Graph) -> bool:
        template = recorded_template(body)
        return template is not None and template.form is not KernelForm.SEGMENTED

    def _template(self, kernel: str) -> Template | None:
        return recorded_template(self._kernels[kernel])


def _reads(node: Node) -> tuple[Value, ...]:
    return (*node.operands, *captured(node))


def _op_name(node: Node) -> str:
    return node.attrs.kernel if is_kernel(node) else node.op
