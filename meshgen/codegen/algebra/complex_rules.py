"""Rules that lower ops on complex numbers to ops on pairs of real numbers. Formulas use z = a + i b."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from meshgen.codegen.algebra.fourier import Pair, bilinear, product, transform
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Node, TensorType, Value, real_dtype

Rule = Callable[[Builder, Node, Sequence[Pair]], Pair]
_FAR = 1e9  # Magnitude of z above which z^2 + 1 rounds to z^2 in f32 and f64: 1e18 * 2^-53 > 1.
_LARGE = 20.0  # Magnitude above which tanh rounds to 1 in f64: 1 - tanh(20) = 8.5e-18.


def part_type(kind: TensorType) -> TensorType:
    """Return the type of the real and of the imaginary part of a complex type."""
    return TensorType(kind.shape, real_dtype(kind.dtype))


def imaginary_part(builder: Builder, pair: Pair) -> Value:
    """Return the imaginary part of a pair, or zeros if the number is real."""
    return builder.splat(0, pair[0].type) if pair[1] is None else pair[1]


def _both(builder: Builder, pair: Pair) -> tuple[Value, Value]:
    return pair[0], imaginary_part(builder, pair)


class _RealOps:
    """Builds element-wise ops on real numbers, so that the rules read like formulas."""

    def __init__(self, builder: Builder, like: TensorType) -> None:
        self.builder, self.like = builder, like

    def __call__(self, op: str, *operands: Value) -> Value:
        return self.builder.elementwise(op, *operands)

    def number(self, number: float) -> Value:
        return self.builder.splat(number, self.like)

    def times(self, number: float, x: Value) -> Value:
        return self("multiply", self.number(number), x)

    def where(self, direction: str, x: Value, number: float, yes: Value, no: Value) -> Value:
        return self.builder.emit("select", [self.builder.compare(direction, x, self.number(number)), yes, no], yes.type)

    def with_sign(self, size: Value, x: Value) -> Value:
        """Return `size` with the sign of x. The sign of -0 counts."""
        below = self.where("EQ", x, 0, self("divide", self.number(1), x), x)
        return self.where("LT", below, 0, self("negate", size), size)


def _of(builder: Builder, pair: Pair) -> tuple[_RealOps, Value, Value]:
    return _RealOps(builder, pair[0].type), pair[0], imaginary_part(builder, pair)


def _constant(builder: Builder, node: Node, operands: Sequence[Pair]) -> Pair:
    like, value = part_type(node.result.type), node.attrs.value
    parts = [
        builder.emit("constant", [], like, value=part.astype(like.numpy_dtype)) for part in (value.real, value.imag)
    ]
    return parts[0], parts[1]


def _convert(builder: Builder, node: Node, operands: Sequence[Pair]) -> Pair:
    dtype = real_dtype(node.result.type.dtype)
    (real, imaginary), *_ = operands
    if dtype == node.result.type.dtype:
        return builder.convert(real, dtype), None
    return builder.convert(real, dtype), None if imaginary is None else builder.convert(imaginary, dtype)


def _compare(builder: Builder, node: Node, operands: Sequence[Pair]) -> Pair:
    (left, left_imaginary), (right, right_imaginary) = ((pair[0], imaginary_part(builder, pair)) for pair in operands)
    direction = node.attrs.direction
    parts = [builder.compare(direction, *sides) for sides in ((left, right), (left_imaginary, right_imaginary))]
    return builder.elementwise("and" if direction == "EQ" else "or", *parts), None


def _bilinear(builder: Builder, node: Node, operands: Sequence[Pair]) -> Pair:
    like, (left, right) = part_type(node.result.type), operands
    return bilinear(builder, left, right, lambda x, y: builder.emit(node.op, [x, y], like, **node.attrs))


def divided(builder: Builder, left: Pair, by: Pair) -> Pair:
    """Return the quotient of two complex numbers.

    A real divisor divides both parts. Otherwise, the product with the conjugate is divided by the squared magnitude.
    """
    real, imaginary = by

    def over(by: Value, pair: Pair) -> Pair:
        parts = [None if part is None else builder.elementwise("divide", part, by) for part in pair]
        assert parts[0] is not None
        return parts[0], parts[1]

    if imaginary is None:
        return over(real, left)
    squares = [builder.elementwise("multiply", part, part) for part in (real, imaginary)]
    conjugate = real, builder.elementwise("negate", imaginary)
    return over(builder.elementwise("add", *squares), product(builder, left, conjugate))


def _larger_and_ratio(of: _RealOps, a: Value, b: Value) -> tuple[Value, Value]:
    """Return the larger of |a| and |b|, and the ratio of the smaller to the larger."""
    sizes = [of("abs", part) for part in (a, b)]
    high, low = of("maximum", *sizes), of("minimum", *sizes)
    return high, of("divide", low, of.where("EQ", low, 0, of.number(1), high))


def absolute(builder: Builder, pair: Pair) -> Value:
    """Return |z| as the larger part times sqrt(1 + ratio^2), which overflows only if the result does."""
    of, a, b = _of(builder, pair)
    high, ratio = _larger_and_ratio(of, a, b)
    return of("multiply", high, of("sqrt", of("add", of.number(1), of("multiply", ratio, ratio))))


def _sign(builder: Builder, pair: Pair) -> Pair:
    size = absolute(builder, pair)
    of = _RealOps(builder, size.type)
    return divided(builder, pair, (of.where("EQ", size, 0, of.number(1), size), None))


def exponential(builder: Builder, pair: Pair) -> Pair:
    of, a, b = _of(builder, pair)
    size = of("exponential", a)
    return of("multiply", size, of("cosine", b)), of("multiply", size, of("sine", b))


def _exponential_minus_one(builder: Builder, pair: Pair) -> Pair:
    """Return exp(z) - 1 as expm1(a) cos(b) - 2 sin(b / 2)^2 + i exp(a) sin(b)."""
    of, a, b = _of(builder, pair)
    half = of("sine", of.times(0.5, b))
    real = of("multiply", of("exponential_minus_one", a), of("cosine", b))
    return of("subtract", real, of.times(2, of("multiply", half, half))), of("multiply", of("exponential", a), of("sine", b))  # fmt: skip


def logarithm(builder: Builder, pair: Pair) -> Pair:
    """Return log z as log(larger part) + log1p(ratio^2) / 2 + i angle, where ratio is the smaller part / the larger
    part.
    """
    of, a, b = _of(builder, pair)
    high, ratio = _larger_and_ratio(of, a, b)
    correction = of.times(0.5, of("log_plus_one", of("multiply", ratio, ratio)))
    return of("add", of("log", high), correction), of("atan2", b, a)


def _log_plus_one(builder: Builder, pair: Pair) -> Pair:
    """Return log(1 + z). For small z, the real part is log1p(a (2 + a) + b^2) / 2, which keeps the precision of a small
    a.
    """
    of, a, b = _of(builder, pair)
    further, angle = logarithm(builder, (of("add", of.number(1), a), b))
    squares = of("add", of("multiply", a, of("add", of.number(2), a)), of("multiply", b, b))
    near = of.times(0.5, of("log_plus_one", squares))
    return of.where("LT", absolute(builder, pair), 0.5, near, further), angle


def _square_root(builder: Builder, pair: Pair) -> Pair:
    """Return sqrt(z). One part is t = sqrt((|z| + |a|) / 2), the other is b / (2 t). If a >= 0, t is the real part."""
    of, a, b = _of(builder, pair)
    total = of("add", of.times(0.5, absolute(builder, pair)), of.times(0.5, of("abs", a)))
    t = of("sqrt", total)
    half = of("divide", of.times(0.5, b), of.where("EQ", t, 0, of.number(1), t))
    return of.where("LT", a, 0, of("abs", half), t), of.where("LT", a, 0, of.with_sign(t, b), half)


def _reciprocal_root(builder: Builder, pair: Pair) -> Pair:
    root = _square_root(builder, pair)
    return divided(builder, (builder.splat(1, pair[0].type), None), root)


def _power(builder: Builder, node: Node, operands: Sequence[Pair]) -> Pair:
    """Return z to the power w as exp(w log z). 0 to the power 0 is 1; 0 to any other power is 0."""
    base, exponent = operands
    real, imaginary = exponential(builder, product(builder, exponent, logarithm(builder, base)))
    assert imaginary is not None
    size, of = absolute(builder, base), _RealOps(builder, real.type)
    at_zero = of.where("EQ", absolute(builder, exponent), 0, of.number(1), of.number(0))
    return of.where("EQ", size, 0, at_zero, real), of.where("EQ", size, 0, of.number(0), imaginary)


def _sine(builder: Builder, pair: Pair) -> Pair:
    of, a, b = _of(builder, pair)
    return of("multiply", of("sine", a), of("cosh", b)), of("multiply", of("cosine", a), of("sinh", b))


def _cosine(builder: Builder, pair: Pair) -> Pair:
    of, a, b = _of(builder, pair)
    return of("multiply", of("cosine", a), of("cosh", b)), of("negate", of("multiply", of("sine", a), of("sinh", b)))


def _hyperbolic_sine(builder: Builder, pair: Pair) -> Pair:
    of, a, b = _of(builder, pair)
    return of("multiply", of("sinh", a), of("cosine", b)), of("multiply", of("cosh", a), of("sine", b))


def _hyperbolic_cosine(builder: Builder, pair: Pair) -> Pair:
    of, a, b = _of(builder, pair)
    return of("multiply", of("cosh", a), of("cosine", b)), of("multiply", of("sinh", a), of("sine", b))


def _hyperbolic_tangent(builder: Builder, pair: Pair) -> Pair:
    """Return tanh z as (sinh 2a + i sin 2b) / (cosh 2a + cos 2b), with a clamped so that cosh stays finite."""
    of, a, b = _of(builder, pair)
    a = builder.emit("clamp", [of.number(-_LARGE), a, of.number(_LARGE)], a.type)
    a, b = of.times(2, a), of.times(2, b)
    below = of("add", of("cosh", a), of("cosine", b))
    return of("divide", of("sinh", a), below), of("divide", of("sine", b), below)


def _by_quarter_turn(builder: Builder, pair: Pair, function: Callable[[Builder, Pair], Pair]) -> Pair:
    """Return -i f(i z) for a function f, which turns tanh into tan, and asinh into asin."""
    of, a, b = _of(builder, pair)
    real, imaginary = function(builder, (of("negate", b), a))
    return imaginary_part(builder, (real, imaginary)), of("negate", real)


def _tangent(builder: Builder, pair: Pair) -> Pair:
    """Return tan z as -i tanh(i z)."""
    return _by_quarter_turn(builder, pair, _hyperbolic_tangent)


def _complex_sum(builder: Builder, left: Pair, right: Pair) -> Pair:
    parts = [builder.elementwise("add", x, y) for x, y in zip(_both(builder, left), _both(builder, right), strict=True)]
    return parts[0], parts[1]


def _inverse_hyperbolic_sine(builder: Builder, pair: Pair) -> Pair:
    """Return asinh z = log(z + sqrt(z^2 + 1)).

    For a negative real part of z, it is -asinh(-z), so that nothing cancels. If z^2 is too large, it is log(2 z).
    """
    of, a, b = _of(builder, pair)
    one = of.with_sign(of.number(1), a)
    z = of("multiply", a, one), of("multiply", b, one)
    square, angle = _both(builder, product(builder, z, z))
    root = _square_root(builder, (of("add", of.number(1), square), angle))
    near, far = logarithm(builder, _complex_sum(builder, z, root)), logarithm(builder, z)
    size = absolute(builder, pair)
    real = of.where("GT", size, _FAR, of("add", far[0], of.number(math.log(2))), near[0])
    imaginary = of.where("GT", size, _FAR, imaginary_part(builder, far), imaginary_part(builder, near))
    return of("multiply", real, one), of("multiply", imaginary, one)


def _arc_sine(builder: Builder, pair: Pair) -> Pair:
    return _by_quarter_turn(builder, pair, _inverse_hyperbolic_sine)


def _arc_cosine(builder: Builder, pair: Pair) -> Pair:
    """Return acos z as pi / 2 - asin z."""
    real, imaginary = _arc_sine(builder, pair)
    of = _RealOps(builder, real.type)
    return of("subtract", of.number(math.pi / 2), real), of("negate", imaginary_part(builder, (real, imaginary)))


def _inverse_hyperbolic_cosine(builder: Builder, pair: Pair) -> Pair:
    """Return acosh z, which is either i acos z or -i acos z: the value whose real part is not negative."""
    of, _, b = _of(builder, pair)
    real, imaginary = _both(builder, _arc_cosine(builder, pair))
    return of("abs", imaginary), of.with_sign(real, b)


def _inverse_hyperbolic_tangent(builder: Builder, pair: Pair) -> Pair:
    """Return atanh z as (log1p(z) - log1p(-z)) / 2."""
    of, a, b = _of(builder, pair)
    log_plus, less = (_log_plus_one(builder, argument) for argument in (pair, (of("negate", a), of("negate", b))))
    parts = [
        of.times(0.5, of("subtract", x, y)) for x, y in zip(_both(builder, log_plus), _both(builder, less), strict=True)
    ]
    return parts[0], parts[1]


def _arc_tangent(builder: Builder, node: Node, operands: Sequence[Pair]) -> Pair:
    """Return atan2(y, x) of complex numbers as -i log((x + i y) / sqrt(x^2 + y^2))."""
    y, x = operands
    of, c, d = _of(builder, y)
    root = _square_root(builder, _complex_sum(builder, product(builder, x, x), product(builder, y, y)))
    real, imaginary = logarithm(builder, divided(builder, _complex_sum(builder, x, (of("negate", d), c)), root))
    return imaginary_part(builder, (real, imaginary)), of("negate", real)


def _logistic(builder: Builder, pair: Pair) -> Pair:
    """Return the logistic function of z, 1 / (1 + exp(-z))."""
    of, a, b = _of(builder, pair)
    real, imaginary = exponential(builder, (of("negate", a), of("negate", b)))
    return divided(builder, (of.number(1), None), (of("add", of.number(1), real), imaginary))


def _unary(function: Callable[[Builder, Pair], Pair]) -> Rule:
    return lambda builder, node, operands: function(builder, operands[0])


RULES: dict[str, Rule] = {
    "constant": _constant,
    "convert": _convert,
    "complex": lambda builder, node, operands: (operands[0][0], operands[1][0]),
    "real": lambda builder, node, operands: (operands[0][0], None),
    "imag": lambda builder, node, operands: (imaginary_part(builder, operands[0]), None),
    "compare": _compare,
    **dict.fromkeys(("multiply", "dot_general", "convolution"), _bilinear),
    "divide": lambda builder, node, operands: divided(builder, operands[0], operands[1]),
    "power": _power,
    "atan2": _arc_tangent,
    "abs": lambda builder, node, operands: (absolute(builder, operands[0]), None),
    "fft": lambda builder, node, operands: transform(builder, operands[0], node.attrs.kind, node.attrs.length),
    **{
        op: _unary(function)
        for op, function in {
            "sign": _sign, "exponential": exponential, "exponential_minus_one": _exponential_minus_one, "log": logarithm,
            "log_plus_one": _log_plus_one, "sqrt": _square_root, "rsqrt": _reciprocal_root, "sine": _sine, "cosine": _cosine,
            "sinh": _hyperbolic_sine, "cosh": _hyperbolic_cosine, "asin": _arc_sine, "acos": _arc_cosine,
            "asinh": _inverse_hyperbolic_sine, "acosh": _inverse_hyperbolic_cosine, "atanh": _inverse_hyperbolic_tangent, "tan": _tangent, "tanh": _hyperbolic_tangent, "logistic": _logistic,
        }.items()
    },
}  # fmt: skip
