"""Complex numbers inside a program become pairs of real ones, and Fourier transforms products of matrices: kernels have no complex numbers.

    before   %1 = complex %a, %b                              f32[8], f32[8] -> c64[8]
             %2 = multiply %1, %1
             %3 = real %2
    after    %2 = multiply %a, %a
             %3 = subtract %2, (multiply %b, %b)

Programs that take or return complex numbers, or send them, stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from meshgen.codegen.fourier import Pair, bilinear, can_transform, product, transform
from meshgen.codegen.passes.graphs import on_graphs
from meshgen.ir.attributes.linalg import FFT
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value, is_complex, real_dtype
from meshgen.ir.regions import captured
from meshgen.ops.classes import ARRANGING, REDUCTIONS, TAKING
from meshgen.ops.live import live_nodes


def expand_complex(module: Module) -> Module:
    """A local program without complex numbers."""
    return on_graphs(module, _expanded)


def _expanded(graph: Graph) -> Graph:
    if not any(_touches(node) for node in graph.nodes) or not _can_expand(graph):
        return graph
    found = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
    pairs: dict[Value, Pair] = {}
    for node in graph.nodes:
        if _touches(node):
            _expand(found, node, pairs)
        else:
            found.nodes.append(node)
    found.nodes = live_nodes(found)
    return found


def _of_complex(values: Sequence[Value]) -> bool:
    return any(is_complex(value.type.dtype) for value in values)


def _touches(node: Node) -> bool:
    return _of_complex((*node.operands, *node.results))


def _can_expand(graph: Graph) -> bool:
    made = {value for node in graph.nodes for value in node.results}
    if _of_complex(graph.inputs) or _of_complex(graph.outputs):
        return False
    for node in graph.nodes:
        if any(is_complex(value.type.dtype) for region in node.regions for value in (*region.inputs, *captured(node))):
            return False
        if _touches(node) and not (_is_known(node) and all(v in made for v in node.operands if _of_complex([v]))):
            return False
    return True


def _is_known(node: Node) -> bool:
    if isinstance(node.attrs, FFT):
        return can_transform(node.attrs.length)
    return node.op in RULES or node.op in _BY_PARTS or (node.op in REDUCTIONS and node.attrs.kind == "add")


def _expand(graph: Graph, node: Node, pairs: dict[Value, Pair]) -> None:
    """Append what makes the parts of the results; a real result keeps its identity."""
    builder = Builder(graph, node.loc)
    operands = [pairs.get(value, (value, None)) for value in node.operands]
    rule = RULES.get(node.op, _by_parts)
    real, imaginary = rule(builder, node, operands)
    if _of_complex(node.results):
        pairs[node.result] = real, imaginary
    else:
        graph.nodes.append(Node("reshape", [real], node.results, {}, node.loc))


Rule = Callable[[Builder, Node, list[Pair]], Pair]


def _part_type(node: Node) -> TensorType:
    return TensorType(node.result.type.shape, real_dtype(node.result.type.dtype))


def _imaginary(builder: Builder, pair: Pair) -> Value:
    return builder.splat(0, pair[0].type) if pair[1] is None else pair[1]


def _by_parts(builder: Builder, node: Node, operands: list[Pair]) -> Pair:
    """An op that is linear in all of its complex operands, or moves their elements."""
    like = _part_type(node)
    real = builder.emit(node.op, [pair[0] for pair in operands], like, **node.attrs)
    parts = [
        _imaginary(builder, pair) if is_complex(value.type.dtype) else pair[0]
        for value, pair in zip(node.operands, operands, strict=True)
    ]
    return real, builder.emit(node.op, parts, like, **node.attrs)


def _constant(builder: Builder, node: Node, operands: list[Pair]) -> Pair:
    like, value = _part_type(node), node.attrs.value
    parts = [
        builder.emit("constant", [], like, value=part.astype(like.numpy_dtype)) for part in (value.real, value.imag)
    ]
    return parts[0], parts[1]


def _convert(builder: Builder, node: Node, operands: list[Pair]) -> Pair:
    dtype = real_dtype(node.result.type.dtype)
    (real, imaginary), *_ = operands
    if not is_complex(node.result.type.dtype):
        return builder.convert(real, dtype), None
    return builder.convert(real, dtype), None if imaginary is None else builder.convert(imaginary, dtype)


def _bilinear(builder: Builder, node: Node, operands: list[Pair]) -> Pair:
    like, (left, right) = _part_type(node), operands
    return bilinear(builder, left, right, lambda x, y: builder.emit(node.op, [x, y], like, **node.attrs))


def _divide(builder: Builder, node: Node, operands: list[Pair]) -> Pair:
    """By a number without an imaginary part each part; else the product with the conjugate, over the square of its size."""
    left, (real, imaginary) = operands

    def over(by: Value, pair: Pair) -> Pair:
        parts = [None if part is None else builder.elementwise("divide", part, by) for part in pair]
        assert parts[0] is not None
        return parts[0], parts[1]

    if imaginary is None:
        return over(real, left)
    squares = [builder.elementwise("multiply", part, part) for part in (real, imaginary)]
    conjugate = real, builder.elementwise("negate", imaginary)
    return over(builder.elementwise("add", *squares), product(builder, left, conjugate))


def _abs(builder: Builder, node: Node, operands: list[Pair]) -> Pair:
    """The larger part times sqrt(1 + ratio^2), which does not overflow before the result."""
    (pair,) = operands
    sizes = [builder.elementwise("abs", part) for part in (pair[0], _imaginary(builder, pair))]
    high, low = builder.elementwise("maximum", *sizes), builder.elementwise("minimum", *sizes)
    one = builder.splat(1, high.type)
    is_zero = builder.compare("EQ", low, builder.splat(0, low.type))
    ratio = builder.elementwise("divide", low, builder.emit("select", [is_zero, one, high], high.type))
    root = builder.elementwise("sqrt", builder.elementwise("add", one, builder.elementwise("multiply", ratio, ratio)))
    return builder.elementwise("multiply", high, root), None


def _exponential(builder: Builder, node: Node, operands: list[Pair]) -> Pair:
    (pair,) = operands
    size, angle = builder.elementwise("exponential", pair[0]), _imaginary(builder, pair)
    parts = [builder.elementwise("multiply", size, builder.elementwise(op, angle)) for op in ("cosine", "sine")]
    return parts[0], parts[1]


def _fft(builder: Builder, node: Node, operands: list[Pair]) -> Pair:
    return transform(builder, operands[0], node.attrs.kind, node.attrs.length)


_BY_PARTS = ARRANGING | TAKING | {"add", "subtract", "negate", "select"}
RULES: dict[str, Rule] = {
    "constant": _constant,
    "convert": _convert,
    "complex": lambda builder, node, operands: (operands[0][0], operands[1][0]),
    "real": lambda builder, node, operands: operands[0],
    "imag": lambda builder, node, operands: (_imaginary(builder, operands[0]), None),
    **dict.fromkeys(("multiply", "dot_general", "convolution"), _bilinear),
    "divide": _divide,
    "abs": _abs,
    "exponential": _exponential,
    "fft": _fft,
}
