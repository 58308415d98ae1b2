"""How products are multiplied on a GPU: `precision` of StableHLO as XLA has it there.

    DEFAULT    f32 operands are cut to tf32 (8 bits of exponent, 11 of significand), which tensor cores multiply exactly
    HIGH       each is a sum of two tf32 numbers: three products, all but that of the two small parts
    HIGHEST    f32 as it is, on the FMA pipes

Sums are in f32 in all of them. Of two operands the higher precision counts, and operands of other types are multiplied as they
are. On a CPU all products are those of the element type.
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
PRECISIONS: Mapping[str, str] = {"default": "DEFAULT", "high": "HIGH", "highest": "HIGHEST"}  # as JAX's users name them
EXACT = ("HIGHEST", "HIGHEST")  # of products whose source says f32 and means it
_PRODUCTS = (Dot, Ragged, ConvolutionDims, Attention, ScaledDot)
_FIELDS = ("precision", "value_precision", "gradient_precision")  # of the products of a node
_OF_F32 = {"DEFAULT": TF32, "HIGH": TF32X3, "HIGHEST": "f32"}


def sum_type(dtype: str) -> str:
    """The element type in which elements are added up: narrow floats in f32, others in their own."""
    return "f32" if is_float(dtype) and dtype != "f64" else dtype


def common_type(node: Node) -> str:
    """The element type to which the operands of a dot or convolution are converted; a result of f64 is computed in f64."""
    kinds = {value.type.dtype for value in node.operands[:2]}
    if node.results[0].type.dtype == "f64":
        return "f64"
    return kinds.pop() if len(kinds) == 1 else next((kind for kind in ("f64", "f32") if kind in kinds), "f32")


def multiplied_as(node: Node) -> str:
    """In which numbers a GPU multiplies the operands of a dot, convolution or attention: an element type, or for f32 `tf32` or `tf32x3`."""
    dtype = common_type(node)
    if not is_inexact(node.results[0].type.dtype):
        return dtype
    return multiplied(dtype, [word for name in _FIELDS for word in node.attrs.get(name, ())])


def multiplied(dtype: str, precision: Sequence[str]) -> str:
    """Return in which numbers a GPU multiplies operands of an element type, with a float as result; the higher precision counts."""
    if real_dtype(dtype) != "f32":
        return dtype
    return _OF_F32[max(precision or ["DEFAULT"], key=list(_OF_F32).index)]


def products_of(graph: Graph) -> Iterator[Node]:
    """The dots, convolutions and attentions of a graph, also in regions."""
    for node in graph.nodes:
        if isinstance(node.attrs, _PRODUCTS):
            yield node
        for region in node.regions:
            yield from products_of(region)


def precision_of(graphs: Iterable[Graph]) -> str:
    """The precision that all f32 products of these graphs have; empty where they differ, or where there are none."""
    found = {multiplied_as(node) for graph in graphs for node in products_of(graph)}
    named = [name for name, word in PRECISIONS.items() if _OF_F32[word] in found]
    return named[0] if len(named) == 1 else ""


def with_precision(module: Module, precision: str) -> Module:
    """The program with this precision (`PRECISIONS`) for all of its dots and convolutions, whatever they say themselves.

    Raises UsageError MG0001 for another one.
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
