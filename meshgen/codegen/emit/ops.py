"""Element-wise operations as Triton expressions, and the helper functions that some of them need.

Narrow floats (bf16, f16, f8) are held in f32 registers; all other types are held as they are. Triton without
libdevice has no tanh, expm1, erf_inv, ...: they are built from exp, log and polynomials here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meshgen.errors import CodegenError, Diagnostic
from meshgen.ir.graph import Node, is_float

TRITON_TYPES = {
    "i1": "int1", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64",
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "f8E4M3FN": "float8e4nv", "f8E5M2": "float8e5",
}  # fmt: skip
POINTER_TYPES = {
    "i1": "*i1", "i8": "*i8", "i16": "*i16", "i32": "*i32", "i64": "*i64",
    "ui8": "*u8", "ui16": "*u16", "ui32": "*u32", "ui64": "*u64",
    "f16": "*fp16", "bf16": "*bf16", "f32": "*fp32", "f64": "*fp64", "f8E4M3FN": "*fp8e4nv", "f8E5M2": "*fp8e5",
}  # fmt: skip
NARROW = frozenset({"bf16", "f16", "f8E4M3FN", "f8E5M2"})


@dataclass(frozen=True)
class Code:
    """A value in registers: the source text that names it, its element type in the program, and a constant's number."""

    text: str
    dtype: str
    number: float | int | None = None


def register_type(dtype: str) -> str:
    """Triton's name of the type in which values of an element type are held."""
    return "tl.float32" if dtype in NARROW else f"tl.{TRITON_TYPES[dtype]}"


def literal(value: float | int | bool, dtype: str) -> str:
    """A scalar constant as source. Floats keep all digits; only f32 and i32 are Triton's own literal types."""
    if is_float(dtype):
        number = float(value)
        text = repr(number) if number - number == 0 else f'float("{number}")'
        return text if dtype != "f64" else f"tl.full([], {text}, tl.float64)"
    if dtype == "i1":
        return f"tl.full([], {int(value)}, tl.int1)"
    return str(int(value)) if dtype == "i32" else f"tl.full([], {int(value)}, tl.{TRITON_TYPES[dtype]})"


def both(conditions: Sequence[str]) -> str:
    """All of the conditions as one; "" if there are none."""
    once = list(dict.fromkeys(conditions))
    return " & ".join(f"({c})" for c in once) if len(once) > 1 else "".join(once)


_SIMPLE = {
    "abs": "tl.abs({0})", "exponential": "tl.exp({0})", "log": "tl.log({0})",
    "logistic": "tl.sigmoid({0})", "sqrt": "tl.sqrt({0})", "rsqrt": "tl.rsqrt({0})", "sine": "tl.sin({0})",
    "cosine": "tl.cos({0})", "tan": "tl.sin({0}) / tl.cos({0})", "floor": "tl.floor({0})", "ceil": "tl.ceil({0})",
    "erf": "tl.erf({0})", "is_finite": 'tl.abs({0}) < float("inf")', "add": "{0} + {1}", "subtract": "{0} - {1}",
    "multiply": "{0} * {1}", "and": "{0} & {1}", "or": "{0} | {1}", "xor": "{0} ^ {1}",
    "select": "tl.where({0}, {1}, {2})",
}  # fmt: skip
_HELPED = {
    "exponential_minus_one": "expm1", "log_plus_one": "log1p", "cbrt": "cbrt", "round_nearest_afz": "round_away",
    "erf_inv": "erf_inv", "atan2": "arc_tangent",
}  # fmt: skip
_OF_F64 = {"erf_inv": "erf_inv_f64", "atan2": "arc_tangent_f64"}
_ROUND = {"f8E4M3FN": "to_f8e4m3fn", "f8E5M2": "to_f8e5m2"}  # what a conversion would saturate
_COMPARISONS = {"EQ": "==", "NE": "!=", "GE": ">=", "GT": ">", "LE": "<=", "LT": "<"}
_BITS = {"i8": 8, "ui8": 8, "i16": 16, "ui16": 16, "i32": 32, "ui32": 32, "i64": 64, "ui64": 64}


def expression(node: Node, args: Sequence[Code]) -> tuple[str, tuple[str, ...]]:
    """Source of an element-wise node over values in registers, and the helpers it calls.

    Raises CodegenError (MG0301) where Triton has no way to say it.
    """
    texts, dtype = [a.text for a in args], args[0].dtype
    if node.op in _SIMPLE:
        return _wrap_bool(node, _SIMPLE[node.op].format(*texts)), ()
    if node.op in _HELPED:
        helper = _OF_F64.get(node.op, _HELPED[node.op]) if dtype == "f64" else _HELPED[node.op]
        return f"{helper}({', '.join(texts)})", (helper,)
    maker = _SPECIAL.get(node.op)
    if maker is None or dtype not in TRITON_TYPES:
        raise CodegenError(unsupported(node))
    return maker(node, args)


def unsupported(node: Node) -> Diagnostic:
    types = ", ".join(str(v.type) for v in node.operands)
    return Diagnostic("MG0301", f"no kernel can be generated for '{node.op}' of {types}", node.loc,
                      hint="compile it with --target cpu: it runs on the reference device")  # fmt: skip


def _wrap_bool(node: Node, text: str) -> str:
    """On i1 add is or, multiply is and (StableHLO)."""
    if node.result.type.dtype != "i1" or node.op not in ("add", "multiply"):
        return text
    return text.replace(" * ", " & ").replace(" + ", " | ")


Made = tuple[str, tuple[str, ...]]


def _tanh(node: Node, args: Sequence[Code]) -> Made:
    if args[0].dtype == "f64":
        return f"tanh_f64({args[0].text})", ("tanh_f64",)
    return f"tanh_f32({args[0].text})", ("tanh_f32",)


def _negate(node: Node, args: Sequence[Code]) -> Made:
    """Triton's minus takes away from 0, which leaves 0 without a sign."""
    return (f"{args[0].text} * -1.0" if is_float(args[0].dtype) else f"-{args[0].text}"), ()


def _divide(node: Node, args: Sequence[Code]) -> Made:
    if is_float(args[0].dtype):
        return f"{args[0].text} / {args[1].text}", ()
    return _whole(args, "//", "quotient")


def _whole(args: Sequence[Code], sign: str, helper: str) -> Made:
    """Division of whole numbers: that by 0, and that of the least by -1, is defined by XLA and not by the device."""
    (x, by), dtype = args, args[0].dtype
    if by.number not in (None, 0, -1):
        return f"{x.text} {sign} {by.text}", ()
    kind = "unsigned" if dtype.startswith("ui") else "signed"
    return f"{kind}_{helper}({x.text}, {by.text})", (f"{kind}_{helper}",)


def _power(node: Node, args: Sequence[Code]) -> Made:
    helper = "power" if is_float(args[0].dtype) else "integer_power"
    return f"{helper}({args[0].text}, {args[1].text})", (helper,)


def _extremum(node: Node, args: Sequence[Code]) -> Made:
    name = f"tl.{node.op}"
    if args[0].dtype == "i1":
        return f"{args[0].text} {'|' if node.op == 'maximum' else '&'} {args[1].text}", ()
    nan = ", propagate_nan=tl.PropagateNan.ALL" if is_float(args[0].dtype) else ""
    return f"{name}({args[0].text}, {args[1].text}{nan})", ()


def _clamp(node: Node, args: Sequence[Code]) -> Made:
    low, x, high = (a.text for a in args)
    nan = ", propagate_nan=tl.PropagateNan.ALL" if is_float(args[1].dtype) else ""
    return f"tl.minimum(tl.maximum({x}, {low}{nan}), {high}{nan})", ()


def _compare(node: Node, args: Sequence[Code]) -> Made:
    if node.attrs.get("compare_type") == "TOTALORDER":
        raise CodegenError(unsupported(node))
    left, right = ((f"{a.text}.to(tl.int32)" if a.dtype == "i1" else a.text) for a in args)
    return f"{left} {_COMPARISONS[node.attrs['direction']]} {right}", ()


def _not(node: Node, args: Sequence[Code]) -> Made:
    x, dtype = args[0].text, args[0].dtype
    if dtype == "i1":
        return f"{x} == 0", ()
    return (f"{x} ^ {literal(2 ** _BITS[dtype] - 1, dtype)}" if dtype.startswith("ui") else f"~{x}"), ()


def _shift(node: Node, args: Sequence[Code]) -> Made:
    """StableHLO defines shifts by the width or more: zeros, or copies of the sign."""
    x, by, dtype = args[0].text, args[1].text, args[0].dtype
    width, kind, unsigned = _BITS[dtype], register_type(dtype), f"tl.uint{_BITS[dtype]}"
    inside = f"({by} >= 0) & ({by} < {width})"
    safe = f"tl.where({inside}, {by}, 0).to({kind})"
    if node.op == "shift_right_arithmetic":
        signed = f"tl.int{width}"
        last = f"tl.where({inside}, {by}, {width - 1}).to({signed})"
        return f"({x}.to({signed}) >> {last}).to({kind})", ()
    sign = "<<" if node.op == "shift_left" else ">>"
    return f"tl.where({inside}, ({x}.to({unsigned}) {sign} {safe}.to({unsigned})).to({kind}), 0).to({kind})", ()


def _round_even(node: Node, args: Sequence[Code]) -> Made:
    big = "4503599627370496.0" if args[0].dtype == "f64" else "8388608.0"
    return f"round_even({args[0].text}, {big})", ("round_even",)


def _sign(node: Node, args: Sequence[Code]) -> Made:
    helper = "sign_of_float" if is_float(args[0].dtype) else "sign_of"
    return f"{helper}({args[0].text})", (helper,)


def _popcnt(node: Node, args: Sequence[Code]) -> Made:
    if _BITS.get(args[0].dtype, 64) > 32:
        raise CodegenError(unsupported(node))
    return f"popcount({_bits32(args[0])}).to({register_type(args[0].dtype)})", ("popcount",)


def _leading_zeros(node: Node, args: Sequence[Code]) -> Made:
    if (width := _BITS.get(args[0].dtype, 64)) > 32:
        raise CodegenError(unsupported(node))
    text = f"({width} - popcount(smear({_bits32(args[0])}))).to({register_type(args[0].dtype)})"
    return text, ("popcount", "smear")


def _bits32(x: Code) -> str:
    return f"{x.text}.to(tl.uint{_BITS[x.dtype]}).to(tl.uint32)"


def _remainder(node: Node, args: Sequence[Code]) -> Made:
    if is_float(args[0].dtype):
        return f"{args[0].text} % {args[1].text}", ()
    return _whole(args, "%", "remainder")


def convert(text: str, source: str, target: str) -> Made:
    """A register value in another element type; converting to a narrow float rounds."""
    if target == "i1":
        return f"{text} != 0", ()
    if target in _ROUND:
        text, helpers = rounded(text if source in (*NARROW, "f32") else f"{text}.to(tl.float32)", target)
        return f"{text}.to(tl.float32)", helpers
    if target in NARROW:
        return f"{text}.to(tl.{TRITON_TYPES[target]}).to(tl.float32)", ()
    if register_type(source) == register_type(target):
        return text, ()
    if is_float(source) and _BITS.get(target, 32) < 32:  # a device goes over 32 bits, which are cut off
        low, high = (
            (0, 2 ** _BITS[target])
            if target.startswith("ui")
            else (-(2 ** (_BITS[target] - 1)), 2 ** (_BITS[target] - 1))
        )
        return f"saturated({text}, {low}.0, {high - 1}.0).to({register_type(target)})", ("saturated",)
    return f"{text}.to({register_type(target)})", ()


def _convert(node: Node, args: Sequence[Code]) -> Made:
    return convert(args[0].text, args[0].dtype, node.result.type.dtype)


def rounded(text: str, dtype: str) -> Made:
    """A register value in the type that it has in memory, and the helpers that this calls."""
    if dtype in _ROUND:
        return f"{_ROUND[dtype]}({text})", (_ROUND[dtype],)
    return f"{text}.to(tl.{TRITON_TYPES[dtype]})", ()


def zero(dtype: str) -> str:
    """What masked loads give: 8-bit floats are not made of whole numbers."""
    return "0.0" if dtype in _ROUND else "0"


def _bitcast(node: Node, args: Sequence[Code]) -> Made:
    if node.operands[0].type.shape != node.result.type.shape:
        raise CodegenError(unsupported(node))
    x, target = args[0], node.result.type.dtype
    stored, helpers = rounded(x.text, x.dtype) if x.dtype in NARROW else (x.text, ())
    text = f"{stored}.to(tl.{TRITON_TYPES[target]}, bitcast=True)"
    return (f"{text}.to(tl.float32)" if target in NARROW else text), helpers


_SPECIAL = {
    "tanh": _tanh, "negate": _negate, "divide": _divide, "power": _power, "maximum": _extremum, "minimum": _extremum, "clamp": _clamp,
    "compare": _compare, "not": _not, "shift_left": _shift, "shift_right_logical": _shift,
    "shift_right_arithmetic": _shift, "round_nearest_even": _round_even, "sign": _sign, "popcnt": _popcnt,
    "count_leading_zeros": _leading_zeros, "remainder": _remainder, "convert": _convert, "bitcast_convert": _bitcast,
}  # fmt: skip
