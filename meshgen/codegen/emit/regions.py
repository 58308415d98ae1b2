"""A region of element-wise ops as a function of a kernel's source: what a reduction combines with, what a sort compares by.

    ^(a: f32, b: f32): return maximum(a, b)        @triton.jit
                                                   def combine(a, b):
                                                       return tl.maximum(a, b, ...)

Truth values are passed as tl.int32: Triton's reductions and scans hold no i1.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.codegen.emit.eval import Evaluator
from meshgen.ir.graph import Graph, Node
from meshgen.ir.predicates import is_constant
from meshgen.ops.classes import POINTWISE
from meshgen.ops.triton.registers import Code, register_type


def region_function(evaluator: Evaluator, region: Graph, preferred: str) -> str:
    """The name of a helper function of the kernel that computes the region's results, in the order of its arguments.

    Raises CodegenError (MG0301) if an op of the region is not element-wise.
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


def lacking_in(region: Graph) -> list[Node]:
    """The nodes of a region that are not element-wise."""
    return [node for node in region.nodes if node.op not in POINTWISE and not is_constant(node)]


def held(code: Code) -> str:
    """A register as regions take it."""
    return f"({code.text}).to(tl.int32)" if code.dtype == "i1" else code.text


def held_type(dtype: str) -> str:
    """Triton's name of the type in which regions take an element type."""
    return "tl.int32" if dtype == "i1" else register_type(dtype)


def given_back(text: str, dtype: str) -> Code:
    """A result of a region as a register."""
    return Code(f"{text} != 0" if dtype == "i1" else text, dtype)


def several(texts: Sequence[str]) -> str:
    """Names on the left of an assignment, or arguments."""
    return ", ".join(texts)


def _held(code: Code) -> str:
    return f"({code.text}).to({held_type(code.dtype)})"
