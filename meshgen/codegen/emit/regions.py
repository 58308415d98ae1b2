"""Regions of element-wise ops as Triton functions: the combiner of a reduction or the comparator of a sort.

    ^(a: f32, b: f32): return maximum(a, b)        @triton.jit
                                                   def combine(a, b):
                                                       return tl.maximum(a, b, ...)

Booleans are passed as tl.int32, because Triton's reductions and scans do not support i1.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.codegen.emit.eval import Evaluator
from meshgen.ir.graph import Graph, Node
from meshgen.ir.predicates import is_constant
from meshgen.ops.classes import POINTWISE
from meshgen.ops.triton.registers import Code, register_type


def region_function(evaluator: Evaluator, region: Graph, preferred: str) -> str:
    """Add a Triton function to the kernel that computes the region's results, and return the function's name.

    The function's arguments have the order of the region's arguments.

    Raises:
        CodegenError: MG0301, if an op of the region is not element-wise.
    """
    inner = Evaluator(region, evaluator.mesh)
    names = [inner.names.fresh(chr(ord("a") + n % 26)) for n in range(len(region.inputs))]
    for value, name in zip(region.inputs, names, strict=True):
        dtype = value.type.dtype
        text = inner.assign("bit", f"{name} != 0") if dtype == "i1" else name
        inner.placed[value] = ((), Code(text, dtype))
    results = [_held(inner.in_register(inner.value(value, ()))) for value in region.outputs]
    for helper in inner.helpers:
        evaluator.helper(helper)
    name = evaluator.names.fresh(preferred)
    body = [f"@triton.jit\ndef {name}({', '.join(names)}):", *inner.lines, f"    return {', '.join(results)}"]
    evaluator.functions[name] = "\n".join(body) + "\n"
    return name


def non_elementwise_nodes(region: Graph) -> list[Node]:
    """Return the nodes of a region that a region function does not support: neither element-wise nor constant."""
    return [node for node in region.nodes if node.op not in POINTWISE and not is_constant(node)]


def held(code: Code) -> str:
    """Return the source of a register, converted to the dtype of region-function arguments (i1 becomes i32)."""
    return f"({code.text}).to(tl.int32)" if code.dtype == "i1" else code.text


def held_type(dtype: str) -> str:
    """Return the Triton dtype that region functions use for an element type."""
    return "tl.int32" if dtype == "i1" else register_type(dtype)


def from_region_dtype(text: str, dtype: str) -> Code:
    """Convert a result of a region function to a register of `dtype` (i32 becomes i1 if `dtype` is i1)."""
    return Code(f"{text} != 0" if dtype == "i1" else text, dtype)


def several(texts: Sequence[str]) -> str:
    """Join source texts with commas, for the left side of an assignment or for an argument list."""
    return ", ".join(texts)


def _held(code: Code) -> str:
    return f"({code.text}).to({held_type(code.dtype)})"
