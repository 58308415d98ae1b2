"""Rules of element-wise operations: all dims are tied, and some ops are linear."""

from __future__ import annotations

import ml_dtypes

from meshgen.ir.graph import DTYPES, Node, is_float, is_inexact
from meshgen.ops.rules.registry import letters, sharding_rule
from meshgen.ops.rules.rule import ALL_KINDS, Linear, Rule, rule

UNARY = (
    "abs", "exponential", "exponential_minus_one", "log", "log_plus_one", "logistic", "tanh", "sqrt", "rsqrt",
    "cbrt", "sine", "cosine", "tan", "floor", "ceil", "round_nearest_even", "round_nearest_afz", "sign", "not",
    "is_finite", "erf", "erf_inv", "erfc", "popcnt", "count_leading_zeros", "negate", "reduce_precision",
    "lgamma", "digamma", "bessel_i1e", "sinh", "cosh", "asin", "acos", "asinh", "acosh", "atanh",
    "real", "imag",
)  # fmt: skip
BINARY = (
    "add", "subtract", "multiply", "divide", "remainder", "power", "maximum", "minimum", "and", "or", "xor",
    "shift_left", "shift_right_logical", "shift_right_arithmetic", "atan2", "compare", "polygamma", "zeta", "next_after",
    "complex",
)  # fmt: skip

# add(partial, partial) is partial; multiply(partial, whole) too. max / min / ... combine with their own kind.
_LINEAR: dict[str, tuple[Linear, ...]] = {
    "negate": (Linear((0,)),),
    "real": (Linear((0,)),),
    "imag": (Linear((0,)),),
    "complex": (Linear((0, 1)),),
    "add": (Linear((0, 1)),),
    "subtract": (Linear((0, 1)),),
    "multiply": (Linear((0,)), Linear((1,)), Linear((0, 1), ("product",))),
    "divide": (Linear((0,)),),
    "maximum": (Linear((0, 1), ("max",)),),
    "minimum": (Linear((0, 1), ("min",)),),
    "and": (Linear((0, 1), ("and",)),),
    "or": (Linear((0, 1), ("or",)),),
    "xor": (Linear((0, 1), ("xor",)),),
}


@sharding_rule(*UNARY, *BINARY)
def elementwise(node: Node) -> Rule:
    dims = " ".join(letters(node.results[0].type.rank)) or "()"
    types = [value.type for value in node.operands]
    linear = _LINEAR.get(node.op, ()) if _is_exact(node) else ()
    return rule(f"{', '.join([dims] * len(types))} -> {dims}", types, [node.result.type], linear=linear)


def _is_exact(node: Node) -> bool:
    """Whether integer truncation cannot break linearity."""
    return node.op != "divide" or is_inexact(node.result.type.dtype)


@sharding_rule("convert")
def convert(node: Node) -> Rule:
    """Linear where the result is a float type that has all numbers of the operand's: another would round each part."""
    source, target = node.operands[0].type, node.result.type
    dims = " ".join(letters(target.rank)) or "()"
    widens = is_float(source.dtype) and is_float(target.dtype) and _has_all(target.dtype, source.dtype)
    return rule(
        f"{dims} -> {dims}", [source], [target], linear=(Linear((0,), ("sum", "max", "min")),) if widens else ()
    )


def _has_all(dtype: str, other: str) -> bool:
    """Whether a float type has all numbers of another one: bf16 and f16 are as long, and neither has those of the other."""
    wide, narrow = (ml_dtypes.finfo(DTYPES[name]) for name in (dtype, other))
    return wide.nmant >= narrow.nmant and wide.maxexp >= narrow.maxexp and wide.minexp <= narrow.minexp


@sharding_rule("bitcast_convert")
def bitcast_convert(node: Node) -> Rule:
    """A change of width adds or drops a minor dim, which stays whole."""
    source, target = node.operands[0].type, node.result.type
    shared = min(source.rank, target.rank)
    names = letters(shared)
    sides = [" ".join([*names, *(["w"] if kind.rank > shared else [])]) or "()" for kind in (source, target)]
    return rule(f"{sides[0]} -> {sides[1]}", [source], [target], whole=("w",) if source.rank != target.rank else ())


@sharding_rule("select", "clamp")
def select(node: Node) -> Rule:
    """A 0-d predicate or bound is read whole. select is linear in its two arms together."""
    types, result = [value.type for value in node.operands], node.result.type
    dims = " ".join(letters(result.rank)) or "()"
    sides = ", ".join(dims if kind.rank == result.rank else "()" for kind in types)
    linear = (Linear((1, 2), ALL_KINDS),) if node.op == "select" else ()
    return rule(f"{sides} -> {dims}", types, [result], linear=linear)
