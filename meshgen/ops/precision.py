"""The precision of matmuls on GPUs: StableHLO's `precision`, interpreted as in XLA.

    DEFAULT   f32 operands are truncated to tf32 (8 exponent bits, 11 significand bits), exact on tensor cores
    HIGH      each operand is a sum of a high and a low tf32 number; the product of the two low ones is omitted
    HIGHEST   f32 on the FMA pipes

Accumulators are f32 in all cases. If the precisions of both operands differ, the higher one applies. Operands of other
types are multiplied without conversion. A CPU multiplies in the element type in all cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from meshgen.errors import Diagnostic, UsageError
from meshgen.ir.attributes.attention import Attention
from meshgen.ir.attributes.composites import ScaledDot
from meshgen.ir.attributes.contraction import ConvolutionDims, Dot, Ragged
from meshgen.ir.graph import Graph, Module, Node, is_float, is_inexact, real_dtype

TF32, TF32X3 = "tf32", "tf32x3"
# option value, named as in JAX -> StableHLO's precision
PRECISIONS: Mapping[str, str] = {"default": "DEFAULT", "high": "HIGH", "highest": "HIGHEST"}
EXACT = ("HIGHEST", "HIGHEST")  # for matmuls whose source requires f32 arithmetic
_PRODUCTS = (Dot, Ragged, ConvolutionDims, Attention, ScaledDot)
_FIELDS = ("precision", "value_precision", "gradient_precision")  # attributes that hold the precision of a matmul
_OF_F32 = {"DEFAULT": TF32, "HIGH": TF32X3, "HIGHEST": "f32"}


def accumulator_type(dtype: str) -> str:
    """Return the element type of accumulators for results of type `dtype`: f32 for narrow floats, else `dtype` itself."""
    return "f32" if is_float(dtype) and dtype != "f64" else dtype


def common_type(node: Node) -> str:
    """Return the element type to which a matmul or convolution converts both operands before it multiplies them."""
    operand_types = {value.type.dtype for value in node.operands[:2]}
    if node.results[0].type.dtype == "f64":
        return "f64"
    return (
        operand_types.pop()
        if len(operand_types) == 1
        else next((dtype for dtype in ("f64", "f32") if dtype in operand_types), "f32")
    )


def multiplied_as(node: Node) -> str:
    """Return the number format in which a GPU multiplies the operands of a node: an element type, `tf32` or `tf32x3`."""
    dtype = common_type(node)
    if not is_inexact(node.results[0].type.dtype):
        return dtype
    return multiplied(dtype, [word for name in _FIELDS for word in node.attrs.get(name, ())])


def multiplied(dtype: str, precision: Sequence[str]) -> str:
    """Return the number format in which a GPU multiplies operands of type `dtype` for a float result.

    The highest entry of `precision` applies.
    """
    if real_dtype(dtype) != "f32":
        return dtype
    return _OF_F32[max(precision or ["DEFAULT"], key=list(_OF_F32).index)]


def matmuls_of(graph: Graph) -> Iterator[Node]:
    """Yield the matmuls, convolutions and attention ops of a graph and its regions."""
    for node in graph.nodes:
        if isinstance(node.attrs, _PRODUCTS):
            yield node
        for region in node.regions:
            yield from matmuls_of(region)


def precision_of(graphs: Iterable[Graph]) -> str:
    """Return the precision (a key of `PRECISIONS`) of the f32 matmuls of the graphs.

    Returns "" if these matmuls have different precisions, or if there are none.
    """
    formats = {multiplied_as(node) for graph in graphs for node in matmuls_of(graph)}
    names = [name for name, word in PRECISIONS.items() if _OF_F32[word] in formats]
    return names[0] if len(names) == 1 else ""


def with_precision(module: Module, precision: str) -> Module:
    """Return the program with the precision of all matmuls and convolutions replaced by `precision`.

    Raises UsageError MG0001 if `precision` is not in `PRECISIONS`.
    """
    if precision not in PRECISIONS:
        hint = f"it is one of {', '.join(PRECISIONS)}"
        raise UsageError(Diagnostic("MG0001", f"unknown precision {precision!r:.60}", hint=hint))
    words = (PRECISIONS[precision],) * 2
    kernels = {name: _with_words(body, words) for name, body in module.kernels.items()}
    parts = [with_precision(part, precision) for part in module.parts]
    return replace(module, graph=_with_words(module.graph, words), kernels=kernels, parts=parts)


def _with_words(graph: Graph, words: tuple[str, ...]) -> Graph:
    return replace(graph, nodes=[_node_with_words(node, words) for node in graph.nodes])


def _node_with_words(node: Node, words: tuple[str, ...]) -> Node:
    if isinstance(node.attrs, _PRODUCTS):
        fields = [name for name in _FIELDS if name in node.attrs.field_types]
        return replace(node, attrs=node.attrs | dict.fromkeys(fields, words))
    if node.regions:
        return replace(node, regions=tuple(_with_words(region, words) for region in node.regions))
    return node
