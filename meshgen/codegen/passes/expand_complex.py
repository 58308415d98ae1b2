"""Complex numbers of a program become pairs of real ones, and Fourier transforms products of matrices: kernels have no complex numbers.

    before   %1 = complex %a, %b                              f32[8], f32[8] -> c64[8]
             %2 = multiply %1, %1
             %3 = real %2
    after    %2 = multiply %a, %a
             %3 = subtract %2, (multiply %b, %b)

Arguments and results of the program stay complex: in memory they are real numbers with a further dim of 2, and a `view` says so.
So do messages between devices. Loops and branches carry both parts. A program with an op that has no rule (a factorisation, a
transform of a large prime length) stays as it is, and so does one for CPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from meshgen.codegen.algebra.complex_rules import RULES, imaginary_part, part_type
from meshgen.codegen.algebra.fourier import Pair, can_transform
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.attributes.control import Scan
from meshgen.ir.attributes.linalg import FFT
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value, is_complex
from meshgen.ir.predicates import is_control, is_optimization_barrier
from meshgen.ir.regions import all_nodes
from meshgen.ops.classes import ARRANGING, COMMUNICATING, LOCAL_OPS, NESTS, REDUCTIONS, TAKING
from meshgen.ops.live import without_dead

# Linear in all of their complex operands, or moving their elements.
_BY_PARTS = (
    ARRANGING | TAKING | LOCAL_OPS | {"add", "subtract", "negate", "select", "dynamic_update_slice", "mask_padding"}
)
# These compare numbers, of which complex ones have no order, or pair them up with others.
_OF_ORDERED = {"select_and_scatter", "top_k"}


@module_pass("expand-complex", "partition", enables="`jnp.fft`: `fnet` and `spectral-flame` of `bench/models`")
def expand_complex(module: Module, context: Compilation) -> Module:
    """A local program whose kernels work on real numbers only."""
    nodes = list(filter(_touches, all_nodes(module.graph)))
    if not nodes or not all(map(_is_known, nodes)):
        return module
    return replace(module, graph=without_dead(_Expansion().program(module.graph)))


def _of_complex(values: Sequence[Value]) -> bool:
    return any(is_complex(value.type.dtype) for value in values)


def _touches(node: Node) -> bool:
    inner = (value for region in node.regions for value in (*region.inputs, *region.outputs))
    return _of_complex((*node.operands, *node.results, *inner))


def _is_known(node: Node) -> bool:
    if isinstance(node.attrs, FFT):
        return can_transform(node.attrs.length)
    if node.op in REDUCTIONS:
        return node.attrs.kind in ("add", "multiply")
    known = _BY_PARTS | COMMUNICATING | NESTS - _OF_ORDERED
    return node.op in RULES or node.op in known or is_control(node) or is_optimization_barrier(node)


def _is_by_parts(node: Node) -> bool:
    """Whether each part of the result is the same op of these parts: with a region, if all that it does is so."""
    inside = (inner for region in node.regions for inner in region.nodes)
    is_joint = is_control(node) or is_optimization_barrier(node) or node.op == "sort"
    is_one = len(node.results) == 1 and not is_joint
    return is_one and all(inner.op in _BY_PARTS for inner in inside)


@dataclass
class _Expansion:
    """Writes graphs.

    Attributes:
        pairs: the parts of the complex values so far, those of the graphs around a region too.
        whole: the complex values that are in memory: arguments, and what came from other devices.
    """

    pairs: dict[Value, Pair] = field(default_factory=dict[Value, Pair])
    whole: set[Value] = field(default_factory=set[Value])

    def program(self, graph: Graph) -> Graph:
        """Arguments and results stay complex."""
        found = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
        self._take_apart(found, graph.inputs)
        self._write(graph, found)
        for value in filter(_is_complex_value, dict.fromkeys(graph.outputs)):
            if value not in self.whole:
                _join(Builder(found, value.loc), value, self.pairs[value])
        return found

    def _take_apart(self, graph: Graph, values: Sequence[Value]) -> None:
        """Have the parts of what is in memory."""
        for value in filter(_is_complex_value, values):
            self.pairs[value] = _parts_of(Builder(graph, value.loc), value)
            self.whole.add(value)

    def _region(self, graph: Graph, *, is_sort: bool = False) -> Graph:
        """Inputs and outputs are the parts; the comparison of a sort has first of a pair of elements one part, then the other."""
        found = Graph(graph.name)
        inputs = list(self._apart(graph.inputs))
        for first, second in zip(inputs[::2], inputs[1::2], strict=True) if is_sort else ():
            found.inputs += [value for pair in zip(first, second, strict=True) for value in pair]
        if not is_sort:
            found.inputs = [value for parts in inputs for value in parts]
        self._write(graph, found)
        found.outputs = [part for value in graph.outputs for part in self._parts(Builder(found, value.loc), value)]
        return found

    def _apart(self, values: Sequence[Value]) -> Iterator[list[Value]]:
        """Each value, or two new ones for its parts."""
        for value in values:
            if not is_complex(value.type.dtype):
                yield [value]
                continue
            real, imaginary = (Value(part_type(value.type), value.name, loc=value.loc) for _ in range(2))
            self.pairs[value] = real, imaginary
            yield [real, imaginary]

    def _parts(self, builder: Builder, value: Value) -> list[Value]:
        if not is_complex(value.type.dtype):
            return [value]
        pair = self.pairs[value]
        return [pair[0], imaginary_part(builder, pair)]

    def _write(self, graph: Graph, found: Graph) -> None:
        for node in graph.nodes:
            if not _touches(node) and not any(
                _touches(inner) for region in node.regions for inner in all_nodes(region)
            ):
                found.nodes.append(node)
            elif node.op in COMMUNICATING:
                self._communicate(found, node)
            elif node.op in RULES:
                self._by_rule(found, node)
            elif node.op in REDUCTIONS and node.attrs.kind == "multiply":
                self._with_both(found, _with_region(node))
            elif _is_by_parts(node):
                self._by_parts(found, node)
            else:
                self._with_both(found, node)

    def _by_rule(self, graph: Graph, node: Node) -> None:
        """A real result keeps its identity."""
        builder = Builder(graph, node.loc)
        operands = [self.pairs.get(value, (value, None)) for value in node.operands]
        real, imaginary = RULES[node.op](builder, node, operands)
        if _of_complex(node.results):
            self.pairs[node.result] = real, imaginary
        else:
            same = "reshape" if real.type.rank else "convert"  # what regions work on has no dims
            graph.nodes.append(Node(same, [real], node.results, {}, node.loc))

    def _communicate(self, graph: Graph, node: Node) -> None:
        """What is sent is whole."""
        operands: list[Value] = []
        for value in node.operands:
            sent = (
                value
                if not _is_complex_value(value) or value in self.whole
                else Value(value.type, value.name, loc=value.loc)
            )
            if sent is not value:
                _join(Builder(graph, node.loc), sent, self.pairs[value])
            operands.append(sent)
        graph.nodes.append(replace(node, operands=operands))
        self._take_apart(graph, node.results)

    def _by_parts(self, graph: Graph, node: Node) -> None:
        builder, found = Builder(graph, node.loc), list[Value]()
        operands = [self._parts(builder, value) for value in node.operands]
        for place in range(2):
            regions = tuple(map(_of_part, node.regions))
            chosen = [parts[place if len(parts) > 1 else 0] for parts in operands]
            result = Value(part_type(node.result.type), node.result.name, loc=node.loc)
            own = _of_imaginary(node) if place else node
            graph.nodes.append(replace(own, operands=chosen, results=[result], regions=regions))
            found.append(result)
        self.pairs[node.result] = found[0], found[1]

    def _with_both(self, graph: Graph, node: Node) -> None:
        """A loop, branches, or a reduction by a region of its own: operands, results and what regions take and give are both parts."""
        builder = Builder(graph, node.loc)
        operands = [self._parts(builder, value) for value in node.operands]
        regions = tuple(self._region(region, is_sort=node.op == "sort") for region in node.regions)
        results = [part for parts in self._apart(node.results) for part in parts]
        attrs = _renumbered(node.attrs, operands) if isinstance(node.attrs, Scan) else node.attrs
        flat = [part for parts in operands for part in parts]
        graph.nodes.append(replace(node, operands=flat, results=results, regions=regions, attrs=attrs))


def _is_complex_value(value: Value) -> bool:
    return is_complex(value.type.dtype)


def _of_imaginary(node: Node) -> Node:
    """The op on imaginary parts: numbers that its attributes name are real ones, such as the 1 that is neutral in products."""
    match node.op:
        case "mask_padding":
            return replace(node, attrs=replace(node.attrs, fill=0.0))
        case "to_partial" if node.attrs.kind == "product":
            return replace(node, attrs=replace(node.attrs, kind="sum"))
        case _:
            return node


def _of_part(region: Graph) -> Graph:
    """A region that does with each part what it does with the number."""
    now = {value: Value(part_type(value.type), value.name, loc=value.loc) for value in region.values()}
    nodes = [
        replace(node, operands=[now[value] for value in node.operands], results=[now[value] for value in node.results])
        for node in region.nodes
    ]
    return Graph(region.name, [now[v] for v in region.inputs], nodes, [now[v] for v in region.outputs])


def _with_region(node: Node) -> Node:
    """A product over dims, by a region that multiplies two numbers."""
    region, kind = Graph("product"), TensorType((), node.result.type.dtype)
    region.inputs = [Value(kind, name) for name in ("x", "y")]
    region.outputs = [Builder(region, node.loc).emit("multiply", region.inputs, kind)]
    return replace(node, op="reduce_region", attrs={"dims": node.attrs.dims}, regions=(region,))


def _renumbered(attrs: Scan, operands: Sequence[Sequence[Value]]) -> Scan:
    """The rows of both parts are those of the number."""
    first = [0]
    for parts in operands:
        first.append(first[-1] + len(parts))
    rows = [(first[n] + part, *step) for n, step in attrs.steps.items() for part in range(len(operands[n]))]
    sliced, offsets, strides = zip(*rows, strict=True) if rows else ((), (), ())
    return Scan(trips=attrs.trips, sliced=sliced, offsets=offsets, strides=strides)


def _with_parts(kind: TensorType) -> TensorType:
    """A complex type as it is in memory: the parts of a number beside each other."""
    return part_type(kind).with_shape((*kind.shape, 2))


def _parts_of(builder: Builder, value: Value) -> Pair:
    seen = builder.emit("view", [value], _with_parts(value.type))
    parts = [builder.reshape(builder.rows(seen, value.type.rank, n, n + 1), value.type.shape) for n in range(2)]
    return parts[0], parts[1]


def _join(builder: Builder, value: Value, pair: Pair) -> None:
    """The value itself, of its parts."""
    shape = (*value.type.shape, 1)
    parts = [builder.reshape(part, shape) for part in (pair[0], imaginary_part(builder, pair))]
    whole = builder.concatenate(parts, value.type.rank)
    builder.add(Node("view", [whole], [value], {}, value.loc))
