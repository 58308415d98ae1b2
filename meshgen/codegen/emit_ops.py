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
    """A value in registers: the source text that names it, and its element type in the program."""

    text: str
    dtype: str


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


HELPERS: dict[str, str] = {
    "tanh_f32": '''
@triton.jit
def tanh_f32(x):
    """Hyperbolic tangent to 2 ulp; a polynomial near 0, where 1 - 2 / (exp(2x) + 1) cancels (Cephes' tanhf)."""
    s = x * x
    p = (((-5.70498872745e-3 * s + 2.06390887954e-2) * s - 5.37397155531e-2) * s + 1.33314422036e-1) * s - 3.33332819422e-1
    far = 2 * tl.sigmoid(2 * x) - 1
    return tl.where(tl.abs(x) < 0.625, p * s * x + x, far)
''',
    "expm1": '''
@triton.jit
def expm1(x):
    """exp(x) - 1 without cancellation (Kahan)."""
    u = tl.exp(x)
    near = tl.where(u == 1, x, (u - 1) * x / tl.log(tl.where((u == 1) | (u == 0), 2, u)))
    return tl.where(tl.abs(x) < 1, near, u - 1)
''',
    "log1p": '''
@triton.jit
def log1p(x):
    """log(1 + x) without cancellation (Kahan)."""
    u = 1 + x
    near = tl.where(u == 1, x, tl.log(u) * x / tl.where(u == 1, 1, u - 1))
    return tl.where(tl.abs(x) < 1, near, tl.log(u))
''',
    "tanh_f64": '''
@triton.jit
def tanh_f64(x):
    """Hyperbolic tangent from exp(-2|x|) - 1."""
    a = tl.abs(x)
    e = expm1(-2 * a)
    t = -e / (e + 2)
    return tl.where(x < 0, -t, t)
''',
    "cbrt": '''
@triton.jit
def cbrt(x):
    """Cube root: exp and log give a start, one Newton step the rest."""
    a = tl.abs(x)
    safe = tl.where(a == 0, 1, a)
    y = tl.exp(tl.log(safe) / 3)
    y = y - (y - safe / (y * y)) / 3
    y = tl.where((a == 0) | (a == float("inf")), a, y)
    return tl.where(x < 0, -y, y)
''',
    "round_even": '''
@triton.jit
def round_even(x, big):
    """Round to nearest, ties to even: adding and taking away `big` = 2^(mantissa bits) drops the fraction."""
    a = tl.abs(x)
    r = tl.where(a < big, (a + big) - big, a)
    return tl.where(x < 0, -r, r)
''',
    "round_away": '''
@triton.jit
def round_away(x):
    """Round to nearest, ties away from zero."""
    a = tl.abs(x)
    r = tl.floor(a)
    r = tl.where(a - r >= 0.5, r + 1, r)
    return tl.where(x < 0, -r, r)
''',
    "sign_of": '''
@triton.jit
def sign_of(x):
    """-1, 0 or 1; NaN stays NaN."""
    return tl.where(x > 0, x * 0 + 1, tl.where(x < 0, x * 0 - 1, x))
''',
    "sign_of_float": '''
@triton.jit
def sign_of_float(x):
    """-1, 0 or 1; NaN stays NaN. Infinity must not be multiplied by 0."""
    return tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, x))
''',
    "power": '''
@triton.jit
def power(x, y):
    """x ** y for floats: a negative base needs an integral exponent."""
    a = tl.abs(x)
    r = tl.exp2(y * tl.log2(tl.where(a == 0, 1, a)))
    r = tl.where(a == 0, tl.where(y > 0, 0.0, float("inf")), r)
    whole = tl.floor(y) == y
    odd = tl.floor(y * 0.5) * 2 != y
    r = tl.where(x < 0, tl.where(whole, tl.where(odd, -r, r), float("nan")), r)
    return tl.where((y == 0) | (x == 1), 1.0, r)
''',
    "integer_power": '''
@triton.jit
def integer_power(x, y):
    """x ** y for integers by squaring; a negative exponent gives 0, or a power of -1 or 1."""
    r = x * 0 + 1
    base = x
    left = tl.where(y < 0, 0 - y, y)
    for _ in range(6):
        r = tl.where(left % 2 == 1, r * base, r)
        base = base * base
        left = left // 2
    inverse = tl.where(x == 1, x, tl.where(x == -1, tl.where(y % 2 == 0, x * x, x), x * 0))
    return tl.where(y < 0, inverse, r)
''',
    "erf_inv": '''
@triton.jit
def erf_inv(x):
    """Inverse error function in single precision (Giles, "Approximating the erfinv function", 2010)."""
    w = -tl.log((1 - x) * (1 + x))
    c = w - 2.5
    p = 2.81022636e-08 * c + 3.43273939e-07
    p = p * c - 3.5233877e-06
    p = p * c - 4.39150654e-06
    p = p * c + 0.00021858087
    p = p * c - 0.00125372503
    p = p * c - 0.00417768164
    p = p * c + 0.246640727
    p = p * c + 1.50140941
    t = tl.sqrt(tl.maximum(w, 5.0)) - 3
    q = -0.000200214257 * t + 0.000100950558
    q = q * t + 0.00134934322
    q = q * t - 0.00367342844
    q = q * t + 0.00573950773
    q = q * t - 0.0076224613
    q = q * t + 0.00943887047
    q = q * t + 1.00167406
    q = q * t + 2.83297682
    r = tl.where(w < 5, p, q) * x
    return tl.where(tl.abs(x) == 1, x * float("inf"), r)
''',
    "popcount": '''
@triton.jit
def popcount(x):
    """Number of set bits of an unsigned 32-bit integer."""
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return (x * 0x01010101) >> 24
''',
    "smear": '''
@triton.jit
def smear(x):
    """All bits below the highest set bit of an unsigned 32-bit integer are set too."""
    x = x | (x >> 1)
    x = x | (x >> 2)
    x = x | (x >> 4)
    x = x | (x >> 8)
    return x | (x >> 16)
''',
    "arc_tangent": '''
@triton.jit
def arc_tangent(y, x):
    """Angle of (x, y): a polynomial for the octant (Cephes' atanf), then its place in the circle."""
    a = tl.abs(x)
    b = tl.abs(y)
    low = tl.minimum(a, b)
    high = tl.maximum(a, b)
    t = tl.where(high == 0, 0.0, tl.where(low == high, 1.0, low / tl.where(high == 0, 1.0, high)))
    steep = t > 0.4142135623730950
    z = tl.where(steep, (t - 1) / (t + 1), t)
    s = z * z
    p = ((8.05374449538e-2 * s - 1.38776856032e-1) * s + 1.99777106478e-1) * s - 3.33329491539e-1
    r = p * s * z + z + tl.where(steep, 0.7853981633974483, 0.0)
    r = tl.where(b > a, 1.5707963267948966 - r, r)
    r = tl.where(x < 0, 3.141592653589793 - r, r)
    return tl.where(y < 0, -r, r)
''',
    "nan_maximum": '''
@triton.jit
def nan_maximum(a, b):
    """Maximum that keeps NaN."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "nan_minimum": '''
@triton.jit
def nan_minimum(a, b):
    """Minimum that keeps NaN."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "product": '''
@triton.jit
def product(a, b):
    return a * b
''',
    "both": '''
@triton.jit
def both(a, b):
    return a & b
''',
    "either": '''
@triton.jit
def either(a, b):
    return a | b
''',
}
NEEDS = {"tanh_f64": ("expm1",)}
_SIMPLE = {
    "abs": "tl.abs({0})", "negate": "-{0}", "exponential": "tl.exp({0})", "log": "tl.log({0})",
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
        helper = _HELPED[node.op]
        return f"{helper}({', '.join(texts)})", (helper,)
    maker = _SPECIAL.get(node.op)
    if maker is None or dtype not in TRITON_TYPES:
        raise CodegenError(unsupported(node))
    return maker(node, args)


def unsupported(node: Node) -> Diagnostic:
    types = ", ".join(str(v.type) for v in node.operands)
    return Diagnostic("MG0301", f"no kernel can be generated for '{node.op}' of {types}", node.loc,
                      hint="run this program with --device reference")  # fmt: skip


def _wrap_bool(node: Node, text: str) -> str:
    """On i1 add is or, multiply is and (StableHLO)."""
    if node.result.type.dtype != "i1" or node.op not in ("add", "multiply"):
        return text
    return text.replace(" * ", " & ").replace(" + ", " | ")


Made = tuple[str, tuple[str, ...]]


def _tanh(node: Node, args: Sequence[Code]) -> Made:
    if args[0].dtype == "f64":
        return f"tanh_f64({args[0].text})", ("tanh_f64",)
    if args[0].dtype in NARROW:  # 2^-24 of absolute error is far below half an ulp of these types
        return f"2 * tl.sigmoid(2 * {args[0].text}) - 1", ()
    return f"tanh_f32({args[0].text})", ("tanh_f32",)


def _divide(node: Node, args: Sequence[Code]) -> Made:
    sign = "/" if is_float(args[0].dtype) else "//"
    return f"{args[0].text} {sign} {args[1].text}", ()


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
    return (f"{args[0].text} == 0" if args[0].dtype == "i1" else f"~{args[0].text}"), ()


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
    return f"{args[0].text} % {args[1].text}", ()


def convert(text: str, source: str, target: str) -> str:
    """A register value in another element type; converting to a narrow float rounds."""
    if target == "i1":
        return f"{text} != 0"
    if target in NARROW:
        return f"{text}.to(tl.{TRITON_TYPES[target]}).to(tl.float32)"
    if register_type(source) == register_type(target):
        return text
    return f"{text}.to({register_type(target)})"


def _convert(node: Node, args: Sequence[Code]) -> Made:
    return convert(args[0].text, args[0].dtype, node.result.type.dtype), ()


def _bitcast(node: Node, args: Sequence[Code]) -> Made:
    if node.operands[0].type.shape != node.result.type.shape:
        raise CodegenError(unsupported(node))
    stored = narrow(args[0])
    target = node.result.type.dtype
    text = f"{stored}.to(tl.{TRITON_TYPES[target]}, bitcast=True)"
    return (f"{text}.to(tl.float32)" if target in NARROW else text), ()


def narrow(code: Code) -> str:
    """The value in the type that it has in memory."""
    return f"{code.text}.to(tl.{TRITON_TYPES[code.dtype]})" if code.dtype in NARROW else code.text


_SPECIAL = {
    "tanh": _tanh, "divide": _divide, "power": _power, "maximum": _extremum, "minimum": _extremum, "clamp": _clamp,
    "compare": _compare, "not": _not, "shift_left": _shift, "shift_right_logical": _shift,
    "shift_right_arithmetic": _shift, "round_nearest_even": _round_even, "sign": _sign, "popcnt": _popcnt,
    "count_leading_zeros": _leading_zeros, "remainder": _remainder, "convert": _convert, "bitcast_convert": _bitcast,
}  # fmt: skip
