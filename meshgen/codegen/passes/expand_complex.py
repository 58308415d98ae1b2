"""Replace complex values by pairs of real values, and Fourier transforms by dots: kernels have no complex numbers.

    before   %1 = complex %a, %b                              f32[8], f32[8] -> c64[8]
             %2 = multiply %1, %1
             %3 = real %2
    after    %2 = multiply %a, %a
             %3 = subtract %2, (multiply %b, %b)

Arguments and results of the program stay complex, and so do messages between devices: in memory they are real numbers
with an additional dim of 2, which a `view` exposes. Loops and branches carry both parts. The pass leaves a program
alone if it has an op without a rule (a factorization, a transform of a large prime length). It does not run for CPU
targets, because NumPy has complex numbers.
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
from meshgen.ops.dead_code import without_dead

# Ops that are linear in all of their complex operands, or that only move elements. The pass applies such an op to the
# real parts and to the imaginary parts separately.
_BY_PARTS = (
    ARRANGING | TAKING | LOCAL_OPS | {"add", "subtract", "negate", "select", "dynamic_update_slice", "mask_padding"}
)
# Ops that compare complex numbers, or that pair each number with other values. Neither works on the parts separately.
_ORDERED_OPS = {"select_and_scatter", "top_k"}


@module_pass("expand-complex", "partition", enables="`jnp.fft`: `fnet` and `spectral-flame` of `bench/models`")
def expand_complex(module: Module, context: Compilation) -> Module:
    """Return a local program whose kernels compute on real numbers only."""
    nodes = list(filter(_uses_complex, all_nodes(module.graph)))
    if not nodes or not all(map(_is_supported, nodes)):
        return module
    return replace(module, graph=without_dead(_Expansion().program(module.graph)))


def _has_complex(values: Sequence[Value]) -> bool:
    return any(is_complex(value.type.dtype) for value in values)


def _uses_complex(node: Node) -> bool:
    inner = (value for region in node.regions for value in (*region.inputs, *region.outputs))
    return _has_complex((*node.operands, *node.results, *inner))


def _is_supported(node: Node) -> bool:
    if isinstance(node.attrs, FFT):
        return can_transform(node.attrs.length)
    if node.op in REDUCTIONS:
        return node.attrs.kind in ("add", "multiply")
    supported = _BY_PARTS | COMMUNICATING | NESTS - _ORDERED_OPS
    return node.op in RULES or node.op in supported or is_control(node) or is_optimization_barrier(node)


def _is_by_parts(node: Node) -> bool:
    """Whether the node's regions contain only ops that apply to real and imaginary parts separately.

    The node must have one result and must be neither control flow, nor an optimization barrier, nor a sort.
    """
    inside = (inner for region in node.regions for inner in region.nodes)
    is_joint = is_control(node) or is_optimization_barrier(node) or node.op == "sort"
    is_one = len(node.results) == 1 and not is_joint
    return is_one and all(inner.op in _BY_PARTS for inner in inside)


@dataclass
class _Expansion:
    """Writes the graphs of the expanded program.

    Attributes:
        pairs: the (real, imaginary) values of each complex value so far, including values of enclosing graphs.
        whole: the complex values that exist in memory as such: arguments, and results of collectives.
    """

    pairs: dict[Value, Pair] = field(default_factory=dict[Value, Pair])
    whole: set[Value] = field(default_factory=set[Value])

    def program(self, graph: Graph) -> Graph:
        """Expand the outermost graph, whose arguments and results stay complex."""
        expanded = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
        self._take_apart(expanded, graph.inputs)
        self._write(graph, expanded)
        for value in filter(_is_complex_value, dict.fromkeys(graph.outputs)):
            if value not in self.whole:
                _join(Builder(expanded, value.loc), value, self.pairs[value])
        return expanded

    def _take_apart(self, graph: Graph, values: Sequence[Value]) -> None:
        """Append the nodes that extract the real and imaginary parts of complex values in memory."""
        for value in filter(_is_complex_value, values):
            self.pairs[value] = _parts_of(Builder(graph, value.loc), value)
            self.whole.add(value)

    def _region(self, graph: Graph, *, is_sort: bool = False) -> Graph:
        """Expand a region. Each complex input or output becomes two, the real part and the imaginary part.

        The comparator of a sort gets the real parts of a pair of elements first, then their imaginary parts.
        """
        expanded = Graph(graph.name)
        inputs = list(self._apart(graph.inputs))
        for first, second in zip(inputs[::2], inputs[1::2], strict=True) if is_sort else ():
            expanded.inputs += [value for pair in zip(first, second, strict=True) for value in pair]
        if not is_sort:
            expanded.inputs = [value for parts in inputs for value in parts]
        self._write(graph, expanded)
        expanded.outputs = [
            part for value in graph.outputs for part in self._parts(Builder(expanded, value.loc), value)
        ]
        return expanded

    def _apart(self, values: Sequence[Value]) -> Iterator[list[Value]]:
        """Yield for each value the list [value], or a list of two new values for the parts of a complex value."""
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

    def _write(self, graph: Graph, expanded: Graph) -> None:
        for node in graph.nodes:
            if not _uses_complex(node) and not any(
                _uses_complex(inner) for region in node.regions for inner in all_nodes(region)
            ):
                expanded.nodes.append(node)
            elif node.op in COMMUNICATING:
                self._communicate(expanded, node)
            elif node.op in RULES:
                self._by_rule(expanded, node)
            elif node.op in REDUCTIONS and node.attrs.kind == "multiply":
                self._with_both(expanded, _with_region(node))
            elif _is_by_parts(node):
                self._by_parts(expanded, node)
            else:
                self._with_both(expanded, node)

    def _by_rule(self, graph: Graph, node: Node) -> None:
        """Append the ops that the expansion rule of the node's op emits. A real result remains the same `Value`."""
        builder = Builder(graph, node.loc)
        operands = [self.pairs.get(value, (value, None)) for value in node.operands]
        real, imaginary = RULES[node.op](builder, node, operands)
        if _has_complex(node.results):
            self.pairs[node.result] = real, imaginary
        else:
            # Values in element-wise regions are scalars, which a reshape does not support.
            identity_op = "reshape" if real.type.rank else "convert"
            graph.nodes.append(Node(identity_op, [real], node.results, {}, node.loc))

    def _communicate(self, graph: Graph, node: Node) -> None:
        """Append a collective. It sends and receives complex values in memory, not their parts."""
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
        builder, part_results = Builder(graph, node.loc), list[Value]()
        operands = [self._parts(builder, value) for value in node.operands]
        for part in range(2):
            regions = tuple(map(_of_part, node.regions))
            part_operands = [parts[part if len(parts) > 1 else 0] for parts in operands]
            result = Value(part_type(node.result.type), node.result.name, loc=node.loc)
            part_node = _of_imaginary(node) if part else node
            graph.nodes.append(replace(part_node, operands=part_operands, results=[result], regions=regions))
            part_results.append(result)
        self.pairs[node.result] = part_results[0], part_results[1]

    def _with_both(self, graph: Graph, node: Node) -> None:
        """Append a loop, a branch or a custom reduction, with operands, results and region values replaced by both of
        their parts.
        """
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
    """Adapt an op for imaginary parts: constants in its attributes are real numbers, so their imaginary part is 0."""
    match node.op:
        case "mask_padding":
            return replace(node, attrs=replace(node.attrs, fill=0.0))
        case "to_partial" if node.attrs.kind == "product":
            return replace(node, attrs=replace(node.attrs, kind="sum"))
        case _:
            return node


def _of_part(region: Graph) -> Graph:
    """Return a region that applies the same ops to one of the two parts of each value."""
    parts = {value: Value(part_type(value.type), value.name, loc=value.loc) for value in region.values()}
    nodes = [
        replace(
            node, operands=[parts[value] for value in node.operands], results=[parts[value] for value in node.results]
        )
        for node in region.nodes
    ]
    return Graph(region.name, [parts[v] for v in region.inputs], nodes, [parts[v] for v in region.outputs])


def _with_region(node: Node) -> Node:
    """Replace a multiply-reduction over dims by a reduction whose region multiplies two complex numbers."""
    region, scalar_type = Graph("product"), TensorType((), node.result.type.dtype)
    region.inputs = [Value(scalar_type, name) for name in ("x", "y")]
    region.outputs = [Builder(region, node.loc).emit("multiply", region.inputs, scalar_type)]
    return replace(node, op="reduce_region", attrs={"dims": node.attrs.dims}, regions=(region,))


def _renumbered(attrs: Scan, operands: Sequence[Sequence[Value]]) -> Scan:
    """Return the attributes of a scan after each complex operand became two operands, which are sliced in the same way."""
    first_part = [0]
    for parts in operands:
        first_part.append(first_part[-1] + len(parts))
    rows = [(first_part[n] + part, *step) for n, step in attrs.steps.items() for part in range(len(operands[n]))]
    sliced, offsets, strides = zip(*rows, strict=True) if rows else ((), (), ())
    return Scan(trips=attrs.trips, sliced=sliced, offsets=offsets, strides=strides)


def _with_parts(kind: TensorType) -> TensorType:
    """Return the real type of a complex value's memory: with a trailing dim of size 2 for the parts."""
    return part_type(kind).with_shape((*kind.shape, 2))


def _parts_of(builder: Builder, value: Value) -> Pair:
    seen = builder.emit("view", [value], _with_parts(value.type))
    parts = [builder.reshape(builder.rows(seen, value.type.rank, n, n + 1), value.type.shape) for n in range(2)]
    return parts[0], parts[1]


def _join(builder: Builder, value: Value, pair: Pair) -> None:
    """Emit ops that compute the complex value `value` from `pair`, its real and imaginary parts."""
    shape = (*value.type.shape, 1)
    parts = [builder.reshape(part, shape) for part in (pair[0], imaginary_part(builder, pair))]
    interleaved = builder.concatenate(parts, value.type.rank)
    builder.add(Node("view", [interleaved], [value], {}, value.loc))
