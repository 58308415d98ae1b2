"""Reductions of a register tile along one of its dims.

    greatest = tl.reduce(tile, 1, nan_maximum, keep_dims=True)          f32[128, 64] -> f32[128, 1]

The layout of the tile fixes the order in which Triton adds, so every run yields the same bits.
"""

from __future__ import annotations

from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.tile import neutral_number
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.ir.graph import DTYPES, Node, is_float
from meshgen.ops.classes import LAYOUT
from meshgen.ops.triton.registers import Code, literal, register_type

_COMBINE = {"add": "{a} + {b}", "multiply": "{a} * {b}", "and": "{a} & {b}", "or": "{a} | {b}", "xor": "{a} ^ {b}"}


def neutral_of(node: Node) -> float | int:
    return neutral_number(node.attrs.kind, node.result.type.dtype)


def partial_result_dtype(node: Node) -> str:
    """Return the Triton dtype of the partial results of a reduction. Booleans are reduced as integers."""
    dtype = node.result.type.dtype
    return "tl.int32" if dtype == "i1" else register_type(dtype)


def combined(evaluator: Evaluator, node: Node, left: str, right: str) -> str:
    """Return the source that combines two partial results of the reduction `node`."""
    kind = node.attrs.kind
    if kind in _COMBINE:
        return _COMBINE[kind].format(a=left, b=right)
    if is_float(node.result.type.dtype):
        return f"{evaluator.helper(f'nan_{kind}')}({left}, {right})"
    return f"tl.{kind}({left}, {right})"


def sums_products(evaluator: Evaluator, node: Node) -> bool:
    """Whether a reduction sums products, so that the compiler may contract multiply and add to an FMA.

    With FMAs, a x b + c x d and c x d + a x b round differently, so two threads that hold the same result would
    differ. Callers add 0.0 to each product, which rounds the product separately.
    """
    source = evaluator.producer.get(node.operands[0])
    while source is not None and (source.op in LAYOUT or source.op == "convert"):
        source = evaluator.producer.get(source.operands[0])
    is_sum = node.attrs.kind == "add" and is_float(node.result.type.dtype)
    return is_sum and source is not None and source.op == "multiply"


def reduced(evaluator: Evaluator, node: Node, part: str, axis: int, keep_dims: bool = True) -> str:
    """Return the source that reduces the tile `part` along `axis`. Booleans are reduced as integers."""
    dtype, kind = node.result.type.dtype, str(node.attrs.kind)
    if dtype == "i1":
        kind = {"or": "maximum", "and": "minimum", "add": "maximum", "multiply": "minimum"}.get(kind, kind)
    keep = ", keep_dims=True" if keep_dims else ""
    extremum = kind in ("maximum", "minimum")
    if kind in ("add", "xor") or (extremum and not is_float(dtype)):
        name = {"add": "sum", "xor": "xor_sum"}.get(kind, kind[:3])
        # Triton widens small integers to 32 bits in a reduction, so the result is converted back.
        small = dtype != "i1" and not is_float(dtype) and DTYPES[dtype].itemsize < 4
        return f"tl.{name}({part}, axis={axis}{keep})" + (f".to({register_type(dtype)})" if small else "")
    helper = {"multiply": "product", "and": "both", "or": "either"}.get(kind, f"nan_{kind}")
    return f"tl.reduce({part}, {axis}, {evaluator.helper(helper)}{keep})"


def place_reduced(evaluator: Evaluator, node: Node, text: str, index: Index) -> None:
    """Combine a reduced tile with the initial value, and bind it as the node's result at `index`."""
    dtype, kind = node.result.type.dtype, node.attrs.kind
    if dtype == "i1":
        text = f"({text}) != 0"
    name = evaluator.assign(evaluator.name_of(node.result, kind), text)
    init, neutral = evaluator.value(node.operands[1], ()), neutral_of(node)
    if init.text != literal(neutral, dtype) and not _is_neutral(init, neutral):
        sign = "&" if kind in ("and", "minimum", "multiply") else "^" if kind == "xor" else "|"
        text = f"{name} {sign} {init.text}" if dtype == "i1" else combined(evaluator, node, name, init.text)
        name = evaluator.assign(evaluator.name_of(node.result, kind), text)
    evaluator.spread_over(name, evaluator.over(*index))
    evaluator.placed[node.result] = (index, Code(name, dtype))


def _is_neutral(init: Code, neutral: float | int) -> bool:
    try:
        return float(init.text) == float(neutral)
    except ValueError:
        return init.text == literal(neutral, init.dtype)
