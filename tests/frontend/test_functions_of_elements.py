"""Element-wise functions, array creation and types, compared with NumPy on three devices."""

from __future__ import annotations

import pytest

from tests.frontend.numpy_expressions import check

FUNCTIONS = (
    *(f"xp.{name}(x)" for name in ["exp", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asinh", "atan", "cbrt", "exp2", "square", "negative", "positive", "reciprocal", "sign", "signbit", "floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite", "isposinf", "isneginf", "real", "imag", "conj", "nan_to_num", "abs"]),
    *(f"xp.{name}(u)" for name in ["asin", "acos", "atanh", "arcsin", "arccos", "arctanh", "arctan", "arcsinh"]),
    *(f"xp.{name}(p)" for name in ["log", "log1p", "log2", "log10", "sqrt"]),
    *(f"xp.{name}(e)" for name in ["sign", "signbit", "floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite", "isposinf", "isneginf", "nan_to_num", "rint", "reciprocal"]),
    *(f"xp.{name}(c)" for name in ["abs", "conj", "real", "imag", "isfinite", "isnan", "isinf", "exp", "square", "round", "angle"]),
    *(f"xp.{name}(i)" for name in ["floor", "ceil", "trunc", "round", "isfinite", "isnan", "negative", "abs", "sign", "square", "real", "imag", "positive"]),
    "xp.acosh(p + 1)", "xp.round(x, 2)", "xp.round(x * 100, -1)",
)  # fmt: skip
PAIRS = (
    *(f"xp.{name}({pair})" for name in ["add", "subtract", "multiply", "divide", "maximum", "minimum", "atan2", "hypot", "logaddexp", "copysign", "nextafter", "floor_divide", "remainder", "fmod", "heaviside", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
      for pair in ("x, y", "e, f")),
    *(f"xp.{name}(i, j)" for name in ["add", "floor_divide", "remainder", "fmod", "divmod", "bitwise_and", "bitwise_or", "bitwise_xor"]),
    "xp.pow(p, y)", "xp.isclose(x, x + y * 1e-6)", "xp.isclose(e, f, equal_nan=True)", "xp.mod(x, 0.75)", "xp.divmod(x, y)",
    "xp.bitwise_left_shift(i, n[0])", "xp.bitwise_right_shift(i, n[1])", "xp.bitwise_invert(i)",
    "i // 3", "i % -4", "7 // j", "x // 0.5", "x % -0.7", "divmod(i, 5)", "i ^ 3", "i << 2", "1 << n", "i >> 1", "+x", "-x", "abs(x)", "i ** 2", "2.0 ** x",
    "xp.clip(x, -0.5, 0.5)", "xp.clip(x, None, 0.25)", "xp.clip(x, 0.1, None)", "x.clip(0, 1)", "xp.where(b, x, y)", "xp.where(x > 0, x, 0)",
    "xp.select([b, x > 0], [x, y], 7.0)", "xp.radians(x)", "xp.rad2deg(x)",
    "xp.logical_xor(b, i)", "xp.invert(b)", "i > 0.5", "b + i", "b * x",
)  # fmt: skip
CREATED = (
    "xp.tril(x)", "xp.triu(x, 1)", "xp.tril(z, -1)", "xp.triu(b)", "x @ xp.eye(5, dtype=xp.float32)", "xp.eye(3, 4, k=-1) + z[0, 0, 0]",
    "xp.zeros_like(x) + xp.ones_like(x)", "xp.full_like(i, 3)", "xp.full((2, 3), x[0, 0])", "xp.zeros_like(x, dtype=xp.int32)",
    "xp.linspace(0, 1, 5, dtype=xp.float32) * x", "xp.linspace(-1, 3, 4, endpoint=False, dtype=xp.float32) + z", "xp.arange(5) + i",
    "xp.arange(4.0, dtype=xp.float32) * z", "xp.arange(0.5, 3, 0.5, dtype=xp.float32) - x[:, :1]", "xp.arange(10, 0, -3, dtype=xp.int32) + n[0]",
    "xp.meshgrid(v, n)", "xp.meshgrid(v, n, indexing='ij')", "xp.diag(v)", "xp.diag(x, 1)", "xp.diag(n, -2)", "xp.diag(v, 3)", "x[:, :4] * 0 + x[xp.tril_indices(4)].sum()", "x[xp.triu_indices(4, 1)]",
    "xp.tri(3, 4, dtype=xp.float32) + z[0]", "xp.identity(5, dtype=xp.float32) - x[0]",
    "xp.asarray([1.0, 2.0, 3.0, 4.0], dtype=xp.float32) * z", "xp.astype(x, xp.int32)", "x.astype(xp.int8)", "xp.astype(i, xp.bool)",
)  # fmt: skip


@pytest.mark.parametrize("text", FUNCTIONS)
def test_unary_elementwise_functions_match_numpy(text: str) -> None:
    check(text, FUNCTIONS)


@pytest.mark.parametrize("text", PAIRS)
def test_binary_elementwise_functions_match_numpy(text: str) -> None:
    check(text, PAIRS)


@pytest.mark.parametrize("text", CREATED)
def test_creation_functions_match_numpy(text: str) -> None:
    check(text, CREATED)
