"""Expansions of functions of arith and math that StableHLO lacks into StableHLO operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np

from meshgen.ir.graph import DTYPES, Value
from meshgen.mlir.arith.builder import Builder

Function = Callable[[Builder, Sequence[Value]], list[Value]]


def _scalar(builder: Builder, number: float, like: Value) -> Value:
    return builder.constant(number, like.type.with_shape(()))


def one(function: Callable[..., Value]) -> Function:
    """Wrap a function that returns a single result so that it returns a list."""
    return lambda builder, operands: [function(builder, *operands)]


def ignoring_nan(builder: Builder, kind: str, left: Value, right: Value) -> Value:
    """Emit the maximum or minimum (`kind`) of two values. If one of them is NaN, the result is the other."""
    left, right = builder.together([left, right])
    both = builder.apply(kind, left, right)
    rest = builder.select(builder.compare("NE", right, right), left, both)
    return builder.select(builder.compare("NE", left, left), right, rest)


def _logarithm(base: float) -> Function:
    def log(builder: Builder, x: Value) -> Value:
        return builder.apply("divide", builder.apply("log", x), _scalar(builder, float(np.log(base)), x))

    return one(log)


def _trunc(builder: Builder, x: Value) -> Value:
    is_negative = builder.compare("LT", x, _scalar(builder, 0, x))
    return builder.select(is_negative, builder.apply("ceil", x), builder.apply("floor", x))


def _copysign(builder: Builder, x: Value, sign: Value) -> Value:
    raw = builder.bits(sign, f"i{8 * DTYPES[sign.type.dtype].itemsize}")
    size = builder.apply("abs", x)
    return builder.select(builder.compare("LT", raw, _scalar(builder, 0, raw)), builder.apply("negate", size), size)


def _cttz(builder: Builder, x: Value) -> Value:
    """Emit the number of trailing zeros: the number of bits below the lowest set bit."""
    below = builder.apply("and", builder.apply("not", x), builder.apply("subtract", x, _scalar(builder, 1, x)))
    return builder.apply("popcnt", below)


def _is_normal(builder: Builder, x: Value) -> Value:
    least = _scalar(builder, float(ml_dtypes.finfo(DTYPES[x.type.dtype]).smallest_normal), x)
    size = builder.apply("abs", x)
    finite = builder.compare("LT", size, _scalar(builder, float("inf"), x))
    return builder.apply("and", finite, builder.compare("GE", size, least))


def _is_infinite(builder: Builder, x: Value) -> Value:
    return builder.compare("EQ", builder.apply("abs", x), _scalar(builder, float("inf"), x))


def _adjusted_quotient(
    builder: Builder, x: Value, y: Value, corrects: Callable[[Value, Value], Value], step: str
) -> Value:
    """Emit `x / y`, truncated, then adjusted by 1 where the remainder is nonzero and `corrects(remainder, y)` is true.

    `step` is "add" or "subtract".
    """
    quotient, remainder = builder.apply("divide", x, y), builder.apply("remainder", x, y)
    is_off = builder.apply("and", builder.compare("NE", remainder, _scalar(builder, 0, x)), corrects(remainder, y))
    return builder.apply(step, quotient, builder.convert(is_off, x.type.dtype))


def _floor_div(builder: Builder, x: Value, y: Value) -> Value:
    x, y = builder.together([x, y])
    return _adjusted_quotient(builder, x, y, lambda rest, by: _opposite_signs(builder, rest, by), "subtract")


def _ceil_div(builder: Builder, x: Value, y: Value) -> Value:
    x, y = builder.together([x, y])
    return _adjusted_quotient(
        builder, x, y, lambda rest, by: builder.apply("not", _opposite_signs(builder, rest, by)), "add"
    )


def _ceil_div_unsigned(builder: Builder, x: Value, y: Value) -> Value:
    dtype = x.type.dtype
    x, y = (builder.bits(side, f"u{dtype}") for side in builder.together([x, y]))
    quotient, rest = builder.apply("divide", x, y), builder.apply("remainder", x, y)
    is_off = builder.convert(builder.compare("NE", rest, _scalar(builder, 0, x)), x.type.dtype)
    return builder.bits(builder.apply("add", quotient, is_off), dtype)


def _opposite_signs(builder: Builder, x: Value, y: Value) -> Value:
    both = builder.apply("xor", x, y)
    return builder.compare("LT", both, _scalar(builder, 0, both))


def _extended_product(unsigned: str) -> Function:
    """Return a function that emits the low and high halves of an integer product.

    `unsigned` is "u" or "". 64-bit integers are unsupported, since a wider type does not exist.
    """

    def product(builder: Builder, operands: Sequence[Value]) -> list[Value]:
        dtype = operands[0].type.dtype
        width = int(dtype[1:])
        if width > 32:
            message = f"{builder.source.name} of {dtype} is not supported"
            builder.importer.fault("MG0103", message, builder.source, "use 32-bit integers")
            return [operands[0], operands[0]]
        wide = [builder.convert(builder.bits(x, unsigned + dtype), f"{unsigned}i{2 * width}") for x in operands]
        wide_product = builder.apply("multiply", *wide)
        high = builder.apply("shift_right_logical", wide_product, _scalar(builder, width, wide_product))
        return [builder.convert(builder.bits(half, f"i{2 * width}"), dtype) for half in (wide_product, high)]

    return product


def _extended_sum(builder: Builder, operands: Sequence[Value]) -> list[Value]:
    """Emit the sum of two integers and a boolean that is true if the unsigned sum overflows."""
    x, y = builder.together(operands)
    total = builder.apply("add", x, y)
    wide = [builder.bits(side, f"u{x.type.dtype}") for side in (total, x)]
    return [total, builder.compare("LT", *wide)]


FUNCTIONS: dict[str, Function] = {
    "identity": one(lambda b, x: x),
    "divui": one(lambda b, x, y: b.unsigned("divide", x, y)),
    "remui": one(lambda b, x, y: b.unsigned("remainder", x, y)),
    "maxui": one(lambda b, x, y: b.unsigned("maximum", x, y)),
    "minui": one(lambda b, x, y: b.unsigned("minimum", x, y)),
    "fma": one(lambda b, x, y, z: b.apply("add", b.apply("multiply", x, y), z)),
    "exp2": one(lambda b, x: b.apply("power", *b.together([_scalar(b, 2, x), x]))),
    "log2": _logarithm(2),
    "log10": _logarithm(10),
    "maxnumf": one(lambda b, x, y: ignoring_nan(b, "maximum", x, y)),
    "minnumf": one(lambda b, x, y: ignoring_nan(b, "minimum", x, y)),
    "trunc": one(_trunc),
    "square": one(lambda b, x: b.apply("multiply", x, x)),
    "reciprocal": one(lambda b, x: b.apply("divide", *b.together([_scalar(b, 1, x), x]))),
    "atan": one(lambda b, x: b.apply("atan2", *b.together([x, _scalar(b, 1, x)]))),
    "copysign": one(_copysign),
    "cttz": one(_cttz),
    "fpowi": one(lambda b, x, n: b.apply("power", x, b.convert(n, x.type.dtype))),
    "clampf": one(lambda b, x, low, high: b.apply("minimum", b.apply("maximum", x, low), high)),
    "isnan": one(lambda b, x: b.compare("NE", x, x)),
    "isinf": one(_is_infinite),
    "isfinite": one(lambda b, x: b.apply("is_finite", x, dtype="i1")),
    "isnormal": one(_is_normal),
    "sincos": lambda b, operands: [b.apply("sine", *operands), b.apply("cosine", *operands)],
    "floordivsi": one(_floor_div),
    "ceildivsi": one(_ceil_div),
    "ceildivui": one(_ceil_div_unsigned),
    "addui_extended": _extended_sum,
    "mulsi_extended": _extended_product(""),
    "mului_extended": _extended_product("u"),
}
