"""Triton expressions of element-wise ops over registers.

Triton without libdevice has no tanh, expm1, erf_inv, ...: helper functions (`kernels/functions.py`) compute these
with exp, log and polynomials.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.errors import CodegenError
from meshgen.ir.graph import DTYPES, Node, is_float
from meshgen.ops.triton.registers import (
    BITS,
    NARROW,
    TRITON_TYPES,
    Code,
    Expression,
    Made,
    convert,
    literal,
    register_type,
    rounded,
    unsupported,
)

# Float remainder, by float type: (quotient bits per step, number of steps).
# A step computes so few bits that the error of its quotient is below 1. All steps together cover the longest quotients,
# which have 277 bits for f32 and 2098 for f64.
_QUOTIENT_BITS = {"f32": (20, 14), "f64": (50, 42)}
_FORMAT = {"f64": (11, 52), "f32": (8, 23), "bf16": (8, 7), "f16": (5, 10), "f8E4M3FN": (4, 3), "f8E5M2": (5, 2)}
"""Bits of the exponent and of the mantissa."""
_COMPARISONS = {"EQ": "==", "NE": "!=", "GE": ">=", "GT": ">", "LE": "<=", "LT": "<"}


def plain(source: str, of_bits: str = "") -> Expression:
    """Return an expression that formats `source`, with `{0}`, `{1}`, ... for the operands.

    For an i1 result, `of_bits` is formatted instead, unless it is empty.
    """

    def formatted(node: Node, args: Sequence[Code]) -> Made:
        template = of_bits if of_bits and node.result.type.dtype == "i1" else source
        return template.format(*(arg.text for arg in args)), ()

    return formatted


def helper(name: str, of_f64: str = "", of_narrow: str = "") -> Expression:
    """Return an expression that calls a helper function.

    `of_f64` and `of_narrow`, if not empty, name the helpers for f64 and for floats below 32 bits. A name that starts
    with `tl.` is a function of Triton.
    """

    def call(node: Node, args: Sequence[Code]) -> Made:
        dtype = args[0].dtype
        function = (of_f64 if dtype == "f64" else of_narrow if dtype in NARROW else "") or name
        return f"{function}({', '.join(arg.text for arg in args)})", () if function.startswith("tl.") else (function,)

    return call


def in_f64(name: str) -> Expression:
    """Return an expression that calls a helper function in f64 for all element types."""

    def call(node: Node, args: Sequence[Code]) -> Made:
        return _in_f64(name, args), (name,)

    return call


def _in_f64(name: str, args: Sequence[Code]) -> str:
    if args[0].dtype == "f64":
        return f"{name}({', '.join(arg.text for arg in args)})"
    wide = ", ".join(f"{arg.text}.to(tl.float64)" for arg in args)
    return f"{name}({wide}).to(tl.float32)"


def negate(node: Node, args: Sequence[Code]) -> Made:
    """Negate by multiplication: Triton's minus subtracts from 0, which loses the sign of zero."""
    return (f"{args[0].text} * -1.0" if is_float(args[0].dtype) else f"-{args[0].text}"), ()


def divide(node: Node, args: Sequence[Code]) -> Made:
    if is_float(args[0].dtype):
        return f"{args[0].text} / {args[1].text}", ()
    return _integer_division(args, "//", "quotient")


def _integer_division(args: Sequence[Code], sign: str, helper: str) -> Made:
    """Divide integers. XLA defines division by 0 and of the smallest integer by -1; the device does not."""
    (x, divisor), dtype = args, args[0].dtype
    if divisor.number not in (None, 0, -1):
        return f"{x.text} {sign} {divisor.text}", ()
    kind = "unsigned" if dtype.startswith("ui") else "signed"
    return f"{kind}_{helper}({x.text}, {divisor.text})", (f"{kind}_{helper}",)


def power(node: Node, args: Sequence[Code]) -> Made:
    helper = "power" if is_float(args[0].dtype) else "integer_power"
    if args[0].dtype == "f32":  # The logarithm of the result needs more digits than f32 has.
        return _in_f64(helper, args), (helper,)
    return f"{helper}({args[0].text}, {args[1].text})", (helper,)


def extremum(name: str, of_bits: str) -> Expression:
    """Return the expression of maximum or minimum, which propagate NaN. For booleans they are `or` and `and`."""

    def extremum_call(node: Node, args: Sequence[Code]) -> Made:
        if args[0].dtype == "i1":
            return f"{args[0].text} {of_bits} {args[1].text}", ()
        nan = ", propagate_nan=tl.PropagateNan.ALL" if is_float(args[0].dtype) else ""
        return f"tl.{name}({args[0].text}, {args[1].text}{nan})", ()

    return extremum_call


def clamp(node: Node, args: Sequence[Code]) -> Made:
    low, x, high = (a.text for a in args)
    nan = ", propagate_nan=tl.PropagateNan.ALL" if is_float(args[1].dtype) else ""
    return f"tl.minimum(tl.maximum({x}, {low}{nan}), {high}{nan})", ()


def compare(node: Node, args: Sequence[Code]) -> Made:
    if node.attrs.compare_type == "TOTALORDER":
        order = "total_order_f64" if args[0].dtype == "f64" else "total_order"
        left, right = (f"{order}({a.text})" for a in args)
        return f"{left} {_COMPARISONS[node.attrs.direction]} {right}", (order,)
    left, right = ((f"{a.text}.to(tl.int32)" if a.dtype == "i1" else a.text) for a in args)
    return f"{left} {_COMPARISONS[node.attrs.direction]} {right}", ()


def logical_not(node: Node, args: Sequence[Code]) -> Made:
    x, dtype = args[0].text, args[0].dtype
    if dtype == "i1":
        return f"{x} == 0", ()
    return (f"{x} ^ {literal(2 ** BITS[dtype] - 1, dtype)}" if dtype.startswith("ui") else f"~{x}"), ()


def shift(sign: str) -> Expression:
    """Return the expression of a logical shift (`<<`, `>>`). A shift by the width or more gives 0, as in StableHLO."""

    def shifted(node: Node, args: Sequence[Code]) -> Made:
        x, amount, dtype = args[0].text, args[1].text, args[0].dtype
        kind, unsigned = register_type(dtype), f"tl.uint{BITS[dtype]}"
        inside = _inside(args)
        safe = f"tl.where({inside}, {amount}, 0).to({kind})"
        return f"tl.where({inside}, ({x}.to({unsigned}) {sign} {safe}.to({unsigned})).to({kind}), 0).to({kind})", ()

    return shifted


def arithmetic_shift(node: Node, args: Sequence[Code]) -> Made:
    """Shift right and copy the sign bit. A shift by the width or more leaves only copies of the sign."""
    x, amount, width = args[0].text, args[1].text, BITS[args[0].dtype]
    signed = f"tl.int{width}"
    last = f"tl.where({_inside(args)}, {amount}, {width - 1}).to({signed})"
    return f"({x}.to({signed}) >> {last}).to({register_type(args[0].dtype)})", ()


def _inside(args: Sequence[Code]) -> str:
    amount, width = args[1].text, BITS[args[0].dtype]
    return f"({amount} >= 0) & ({amount} < {width})"


def round_even(node: Node, args: Sequence[Code]) -> Made:
    big = "4503599627370496.0" if args[0].dtype == "f64" else "8388608.0"
    return f"round_even({args[0].text}, {big})", ("round_even",)


def sign(node: Node, args: Sequence[Code]) -> Made:
    helper = "sign_of_float" if is_float(args[0].dtype) else "sign_of"
    return f"{helper}({args[0].text})", (helper,)


def popcnt(node: Node, args: Sequence[Code]) -> Made:
    name, bits = _counted(args[0])
    return f"{name}({bits}).to({register_type(args[0].dtype)})", (name,)


def tangent(node: Node, args: Sequence[Code]) -> Made:
    x, dtype = args[0].text, args[0].dtype
    return (f"tl.sin({x}) / tl.cos({x})", ()) if dtype == "f64" else (f"sine({x}) / tl.cos({x})", ("sine",))


def next_after(node: Node, args: Sequence[Code]) -> Made:
    """Return an expression for the adjacent value, which adds or subtracts 1 from the bit pattern.

    8-bit floats are unsupported, because the order of their bit patterns differs from that of wider floats.
    """
    (x, y), dtype = args, args[0].dtype
    if DTYPES[dtype].itemsize == 1:
        raise CodegenError(unsupported(node))
    width = 8 * DTYPES[dtype].itemsize
    if dtype in NARROW:
        kind = f"tl.{TRITON_TYPES[dtype]}"
        return f"next_after({x.text}.to({kind}), {y.text}.to({kind}), tl.int{width}).to(tl.float32)", ("next_after",)
    return f"next_after({x.text}, {y.text}, tl.int{width})", ("next_after",)


def leading_zeros(node: Node, args: Sequence[Code]) -> Made:
    """Return an expression for the number of bits above the highest set bit.

    The helper `smear` sets all bits below the highest set bit. The result is the width minus the popcount of the
    outcome.
    """
    name, bits = _counted(args[0])
    smear = name.replace("popcount", "smear")
    text = f"({BITS[args[0].dtype]} - {name}({smear}({bits}))).to({register_type(args[0].dtype)})"
    return text, (name, smear)


def _counted(x: Code) -> tuple[str, str]:
    """Return the name of the popcount helper for an integer's width, and the source of its argument."""
    if BITS[x.dtype] == 64:
        return "popcount_64", f"{x.text}.to(tl.uint64)"
    return "popcount", f"{x.text}.to(tl.uint{BITS[x.dtype]}).to(tl.uint32)"


def reduce_precision(node: Node, args: Sequence[Code]) -> Made:
    """Return an expression that rounds to nearest even, with integer arithmetic on the bit pattern of the operand."""
    x, (exponents, mantissas) = args[0], _FORMAT[args[0].dtype]
    dropped = mantissas - min(node.attrs.mantissa_bits, mantissas)
    fewer, bias = node.attrs.exponent_bits < exponents, (1 << exponents - 1) - 1
    infinity = ((1 << exponents) - 1) << mantissas if x.dtype != "f8E4M3FN" else 0x7F
    greatest, least = infinity - 1, 0
    if fewer:
        reach = (1 << node.attrs.exponent_bits - 1) - 1
        greatest, least = (bias + reach + 1 << mantissas) - 1, bias - reach + 1 << mantissas
    width = exponents + mantissas + 1
    stored, helpers = rounded(x.text, x.dtype) if x.dtype in NARROW else (x.text, ())
    integer_type = "tl.int64" if width == 64 else "tl.int32"
    bits = f"{stored}.to(tl.uint{width}, bitcast=True).to({integer_type})"
    shortened_bits = f"shortened({bits}, {width - 1}, {dropped}, {greatest}, {least}, {infinity})"
    as_float = (
        f"{shortened_bits}.to(tl.uint{width}).to(tl.{TRITON_TYPES[x.dtype]}, bitcast=True).to({register_type(x.dtype)})"
    )
    return f"tl.where({x.text} - {x.text} == 0, {as_float}, {x.text})", (*helpers, "shortened")


def remainder(node: Node, args: Sequence[Code]) -> Made:
    if is_float(args[0].dtype):
        bits, steps = _QUOTIENT_BITS["f64" if args[0].dtype == "f64" else "f32"]
        return f"float_remainder({args[0].text}, {args[1].text}, {2.0**bits!r}, {steps})", ("float_remainder",)
    return _integer_division(args, "%", "remainder")


def converted(node: Node, args: Sequence[Code]) -> Made:
    return convert(args[0].text, args[0].dtype, node.result.type.dtype)


def bitcast(node: Node, args: Sequence[Code]) -> Made:
    """Return an expression that reinterprets an element as a type of the same width.

    `codegen/emit/gather_concat.py` emits bitcasts that change the width.
    """
    x, target = args[0], node.result.type.dtype
    stored, helpers = rounded(x.text, x.dtype) if x.dtype in NARROW else (x.text, ())
    text = f"{stored}.to(tl.{TRITON_TYPES[target]}, bitcast=True)"
    return (f"{text}.to(tl.float32)" if target in NARROW else text), helpers
