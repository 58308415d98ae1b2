"""Report for every value between two ops whether one kernel contains both, and why or why not.

Such a value is called an edge. Edges inside a kernel come from its body, once per distinct body. For an edge between
two launches the reason is computed again: whether a template generates both as one kernel, whether another launch must
run between them, and which choice moves fewer bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from meshgen.codegen.emit.plan import Template
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.kernel_nodes import recorded_template
from meshgen.codegen.product_fusion import fused_body
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
    """An edge from the producer of a value to a reader of it: both are ops of one kernel, or both are launches.

    Attributes:
        maker, reader: names of the producing and the reading op in `kernel`, or of the launches if `kernel` is empty.
        nbytes: size of the value on one device.
    """

    value: str
    maker: str
    reader: str
    kernel: str
    nbytes: int
    is_fused: bool
    why: str


def fusion_records(executable: Compiled) -> list[dict[str, object]]:
    """Return the producer-reader edges of all meshes, for `--json`.

    Edges between launches come first. Within both parts, the largest values come first.
    """
    edges = [edge for part in executable.parts for edge in fusion_edges(part.fused, part.target)]
    return [asdict(edge) for edge in edges]


def fusion_edges(module: Module, target: str) -> list[FusionEdge]:
    """Return the producer-reader edges of a fused module, edges between launches first."""
    between = [edge for graph in flow_graphs(module.graph) for edge in _Between(graph, module, target).edges()]
    inside = [edge for name, body in module.kernels.items() for edge in _edges_inside_kernel(name, body)]
    return [*sorted(between, key=lambda edge: -edge.nbytes), *inside]


def _edges_inside_kernel(name: str, body: Graph) -> Iterator[FusionEdge]:
    producers = body.index.producers
    for node in body.nodes:
        for value in dict.fromkeys(node.operands):
            if (producer := producers.get(value)) is not None and (producer.operands or producer.op in LOOKUPS):
                why = _why_fused(producer, node)
                yield FusionEdge(value.name, producer.op, node.op, name, value.type.nbytes, True, why)


def _why_fused(producer: Node, reader: Node) -> str:
    if producer.op in LAYOUT:
        return "an index map: the reader computes where the element is"
    if producer.op in PRODUCTS:
        return "an epilogue: the accumulator tile of the GEMM is in registers"
    if producer.op in REDUCTIONS:
        return "the result of the row is in registers"
    if reader.op in REDUCTIONS or reader.op in PRODUCTS:
        return "each element is computed where it is reduced"
    return "element by element: the value stays in registers"


class _Between:
    """Computes the edges between the launches of one graph, and why a pair of launches was not fused."""

    def __init__(self, graph: Graph, module: Module, target: str) -> None:
        self._graph, self._kernels = graph, module.kernels
        self._made = graph.index.producers
        self._launches = [node for node in graph.nodes if node.op not in UNLAUNCHED]
        self._number = {node: index for index, node in enumerate(self._launches)}
        self._target = target
        self._needs: list[int] = []
        for node in self._launches:
            predecessors = [self._number[producer] for value in _reads(node) for producer in self._makers(value)]
            self._needs.append(sum({1 << n for n in predecessors}) | self._over(predecessors))

    def _over(self, launches: list[int]) -> int:
        predecessors = 0
        for launch in launches:
            predecessors |= self._needs[launch]
        return predecessors

    def edges(self) -> Iterator[FusionEdge]:
        """Yield an edge for each value that one launch produces and another reads."""
        reader_counts: dict[Value, int] = {}
        for node in self._launches:
            for value in dict.fromkeys(_reads(node)):
                reader_counts[value] = reader_counts.get(value, 0) + 1
        for node in self._launches:
            for value in dict.fromkeys(_reads(node)):
                for producer in self._makers(value):
                    why = self._why_not(producer, node, value, reader_counts[value])
                    names = _op_name(producer), _op_name(node)
                    yield FusionEdge(value.name, *names, "", value.type.nbytes, False, why)

    def _makers(self, value: Value) -> list[Node]:
        """Return the launches that produce a value. Views and joins, which are not launched, are followed to their
        operands.
        """
        node = self._made.get(value)
        if node is None or is_constant(node):
            return []
        if node.op in VIEWS:
            return self._makers(node.operands[node.results.index(value)])
        if node.op == "join":
            return list(dict.fromkeys(producer for operand in node.operands for producer in self._makers(operand)))
        return [node]

    def _why_not(self, producer: Node, reader: Node, value: Value, readers: int) -> str:
        for node in (producer, reader):
            if not is_kernel(node):
                return f"'{node.op}' is {'a collective' if node.op in COMMUNICATING else 'control flow'}"
            template = self._template(node.attrs.kernel)
            if template is None or not template.fuses:
                name = "none" if template is None else template.name
                return f"'{_op_name(node)}' is generated from template '{name}', which does not fuse other ops"
        if value not in producer.results:
            return "the reader uses the joined results of several launches, or another part of the value than the producer writes at a time"
        if (reason := self._order(producer, reader)) or (reason := self._product(reader, value)):
            return reason
        joined = self._fused_body(producer, reader)
        if not self._has_template(joined):
            return self._no_template(producer, reader)
        return self._cost(producer, reader, joined, readers)

    def _order(self, producer: Node, reader: Node) -> str:
        """Return why another launch or collective must run between `producer` and `reader`, or "" if none must."""
        first, last = self._number[producer], self._number[reader]
        needs = self._needs[last]
        for index in range(first + 1, last):
            if needs >> index & 1 and self._needs[index] >> first & 1:
                return f"'{_op_name(self._launches[index])}' must run between them: it needs the producer, and the reader needs it"
        waits = needs & ~self._needs[first]
        for index, node in enumerate(self._launches):
            if waits >> index & 1 and node.op in COMMUNICATING:
                return f"the reader waits for a collective ('{node.op}') that the producer does not wait for"
        return ""

    def _product(self, reader: Node, value: Value) -> str:
        """Return the reason against fusion if the reader computes an operand of a GEMM from `value`, or "" if it does
        not.
        """
        body = self._kernels[reader.attrs.kernel]
        read = [body.inputs[n] for n, operand in enumerate(reader.operands) if operand is value]
        products = (node for node in body.nodes if node.op in PRODUCTS)
        if any(depends_on(node.operands, read, body.index.producers.get) for node in products):
            return "an operand of a GEMM: each tile that needs it would recompute it"
        return ""

    def _no_template(self, producer: Node, reader: Node) -> str:
        templates = [self._template(node.attrs.kernel) for node in (producer, reader)]
        forms = [template.form for template in templates if template is not None]
        if all(form.multiplies for form in forms):
            return "both have a GEMM, and their tiles differ in size or one GEMM is an operand of the other"
        if forms[0].multiplies and KernelForm.REDUCE in forms:
            return "a program has a tile of the GEMM, but the reader reduces over entire rows"
        if forms == [KernelForm.REDUCE, KernelForm.REDUCE]:
            return "they reduce over different elements, or the reader needs results of rows that other programs reduce"
        if KernelForm.SEGMENTED in forms:
            return "one of them already consists of several kernels"
        return "the reader needs elements that other programs of the producer compute"

    def _cost(self, producer: Node, reader: Node, fused: Graph, readers: int) -> str:
        separate_bytes = sum(kernel_bytes(self._kernels[node.attrs.kernel]) for node in (producer, reader))
        if (fused_bytes := kernel_bytes(fused)) >= separate_bytes:
            return f"one kernel would move {fused_bytes} bytes, as two they move {separate_bytes}"
        limits = DEFAULT.fusion
        if len(fused.nodes) > limits.epilogue_nodes or len(fused.inputs) > limits.inputs:
            return f"one kernel would have {len(fused.nodes)} operations and {len(fused.inputs)} operands"
        if len(fused.outputs) > limits.epilogue_outputs:
            return f"one kernel would write {len(fused.outputs)} values"
        if readers > 1:
            return f"{readers} kernels read it, so it is written in any case"
        rows = [n.result.type.size for n in fused.nodes if n.op in REDUCTIONS]
        if rows and min(rows) < limits.least_programs:
            return f"{min(rows)} rows are too few programs for the work of the producer"
        separate_seconds, fused_seconds = self._seconds(producer, reader), kernel_seconds(fused, self._target)
        if fused_seconds > separate_seconds:
            return (
                f"one kernel would take {fused_seconds * 1e6:.1f} us, as two they take {separate_seconds * 1e6:.1f} us"
            )
        return "groups were formed in program order and not merged, or merging them would keep more values in memory at a time"

    def _seconds(self, *nodes: Node) -> float:
        return sum(kernel_seconds(self._kernels[node.attrs.kernel], self._target) for node in nodes)

    def _fused_body(self, producer: Node, reader: Node) -> Graph:
        """Return a kernel body that computes both launches. Values that only `reader` needs are not outputs of the
        body.
        """
        read_elsewhere = {v for n in self._graph.nodes if n is not reader for v in _reads(n)} | {*self._graph.outputs}
        return fused_body(producer, reader, read_elsewhere, self._kernels)[2]

    def _has_template(self, body: Graph) -> bool:
        template = recorded_template(body)
        return template is not None and template.form is not KernelForm.SEGMENTED

    def _template(self, kernel: str) -> Template | None:
        return recorded_template(self._kernels[kernel])


def _reads(node: Node) -> tuple[Value, ...]:
    return (*node.operands, *captured(node))


def _op_name(node: Node) -> str:
    return node.attrs.kernel if is_kernel(node) else node.op
