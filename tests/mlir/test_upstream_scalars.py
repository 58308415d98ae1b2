"""Tests of the importers of arith and math: every op matches NumPy, on tensors and in bodies."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from meshgen.errors import ProgramError
from meshgen.mlir.arith.elementwise import PREDICATES
from meshgen.mlir.text import parse_text
from tests.mlir.payload import Array, Case, normal, tensor, whole

X, Y, P = 3 * normal(3, 5), 2 * normal(3, 5, seed=1), np.abs(normal(3, 5, seed=2)) + np.float32(0.1)
UNIT = np.clip(normal(3, 5, seed=3), -0.9, 0.9).astype("f4")
N, M, D = whole(3, 5), whole(3, 5, seed=1), np.where(whole(3, 5, seed=2) == 0, 3, whole(3, 5, seed=2)).astype("i4")
B, C = N > 0, M > 0
NAN = np.where(X > 2, np.nan, X).astype("f4")


def u(x: Array) -> Array:
    return x.view(f"u{x.dtype.itemsize}")


def i(x: Any, dtype: str = "i4") -> Array:
    return np.asarray(x).astype(dtype)


Row = tuple[str, tuple[Array, ...], Callable[..., Any]]
BINARY: list[Row] = [
    ("arith.addf", (X, Y), np.add), ("arith.subf", (X, Y), np.subtract), ("arith.mulf", (X, Y), np.multiply),
    ("arith.divf", (X, P), np.divide), ("arith.remf", (X, P), np.fmod), ("arith.maximumf", (X, Y), np.maximum),
    ("arith.minimumf", (X, Y), np.minimum), ("arith.maxnumf", (NAN, Y), np.fmax), ("arith.minnumf", (Y, NAN), np.fmin),
    ("arith.addi", (N, M), np.add), ("arith.subi", (N, M), np.subtract), ("arith.muli", (N, M), np.multiply),
    ("arith.divsi", (N, D), lambda a, b: i(np.trunc(a / b))), ("arith.remsi", (N, D), np.fmod),
    ("arith.divui", (N, D), lambda a, b: i(u(a) // u(b))), ("arith.remui", (N, D), lambda a, b: i(u(a) % u(b))),
    ("arith.floordivsi", (N, D), np.floor_divide), ("arith.ceildivsi", (N, D), lambda a, b: -(-a // b)),
    ("arith.ceildivui", (N, np.abs(D)), lambda a, b: i(-(-u(a).astype("i8") // b))),
    ("arith.maxsi", (N, M), np.maximum), ("arith.minsi", (N, M), np.minimum),
    ("arith.maxui", (N, M), lambda a, b: i(np.maximum(u(a), u(b)))),
    ("arith.minui", (N, M), lambda a, b: i(np.minimum(u(a), u(b)))),
    ("arith.andi", (N, M), np.bitwise_and), ("arith.ori", (N, M), np.bitwise_or), ("arith.xori", (N, M), np.bitwise_xor),
    ("arith.shli", (N, np.abs(M)), np.left_shift), ("arith.shrsi", (N, np.abs(M)), np.right_shift),
    ("arith.shrui", (N, np.abs(M)), lambda a, b: i(u(a) >> u(b))),
    ("arith.addi", (B, C), np.not_equal), ("arith.subi", (B, C), np.not_equal), ("arith.muli", (B, C), np.logical_and),
    ("arith.maxsi", (B, C), np.logical_and), ("arith.minsi", (B, C), np.logical_or),
    ("arith.maxui", (B, C), np.logical_or), ("arith.minui", (B, C), np.logical_and),
    ("math.powf", (P, Y), np.power), ("math.atan2", (X, Y), np.arctan2), ("math.copysign", (X, Y), np.copysign),
    ("math.ipowi", (N, np.abs(M) % 4), np.power), ("math.fma", (X, Y, P), lambda a, b, c: a * b + c),
]  # fmt: skip
UNARY: list[Row] = [
    ("arith.negf", (X,), np.negative), ("math.absf", (X,), np.abs), ("math.absi", (N,), np.abs), ("math.exp", (Y,), np.exp),
    ("math.exp2", (Y,), np.exp2), ("math.expm1", (UNIT,), np.expm1), ("math.log", (P,), np.log), ("math.log2", (P,), np.log2),
    ("math.log10", (P,), np.log10), ("math.log1p", (P,), np.log1p), ("math.sqrt", (P,), np.sqrt),
    ("math.rsqrt", (P,), lambda a: 1 / np.sqrt(a)), ("math.cbrt", (X,), np.cbrt), ("math.tanh", (X,), np.tanh),
    ("math.sin", (X,), np.sin), ("math.cos", (X,), np.cos), ("math.tan", (UNIT,), np.tan), ("math.sinh", (UNIT,), np.sinh),
    ("math.cosh", (X,), np.cosh), ("math.asin", (UNIT,), np.arcsin), ("math.acos", (UNIT,), np.arccos),
    ("math.atan", (X,), np.arctan), ("math.asinh", (X,), np.arcsinh), ("math.acosh", (1 + P,), np.arccosh),
    ("math.atanh", (UNIT,), np.arctanh), ("math.floor", (X,), np.floor), ("math.ceil", (X,), np.ceil),
    ("math.trunc", (X,), np.trunc), ("math.roundeven", (np.round(X) / 2,), np.rint),
    ("math.round", (np.round(X) / 2,), lambda a: np.trunc(a + np.copysign(0.5, a))),
    ("math.erf", (X,), lambda a: np.vectorize(math.erf)(a)), ("math.erfc", (UNIT,), lambda a: np.vectorize(math.erfc)(a)),
    ("math.ctpop", (N,), lambda a: i(np.bitwise_count(u(a)))),
    ("math.ctlz", (N,), lambda a: i([[32 - int(v).bit_length() for v in row] for row in u(a)])),
    ("math.cttz", (N,), lambda a: i([[(int(v) & -int(v)).bit_length() - 1 if v else 32 for v in row] for row in u(a)])),
]  # fmt: skip
TESTS: list[Row] = [
    ("math.isnan", (NAN,), np.isnan), ("math.isinf", (np.where(X > 1, np.inf, X).astype("f4"),), np.isinf),
    ("math.isfinite", (NAN,), np.isfinite), ("math.isnormal", (np.where(X > 1, 1e-40, X).astype("f4"),), lambda a: np.abs(a) > 1e-38),
]  # fmt: skip
CASTS: list[tuple[str, Array, Array]] = [
    ("arith.extf", X.astype("f2"), X.astype("f2").astype("f4")), ("arith.truncf", X, X.astype("f2")),
    ("arith.extsi", N, N.astype("i8")), ("arith.extui", N, u(N).astype("i8")), ("arith.trunci", N * 99, i(N * 99, "i1")),
    ("arith.trunci", N, N % 2 == 1), ("arith.extsi", B, -i(B)), ("arith.extui", B, i(B)),
    ("arith.sitofp", N, N.astype("f4")), ("arith.uitofp", N, u(N).astype("f4")), ("arith.sitofp", B, -B.astype("f4")),
    ("arith.uitofp", B, B.astype("f4")), ("arith.fptosi", X, i(np.trunc(X))), ("arith.fptoui", P * 50, i(np.trunc(P * 50))),
    ("arith.bitcast", X, X.view("i4")),
]  # fmt: skip


def tensor_op(op: str, arguments: tuple[Array, ...], function: Callable[..., Any], tail: str = "") -> Case:
    """Return a case of one op on tensors."""
    names = ["a", "b", "c"][: len(arguments)]
    text = f"  %r = {op} {', '.join(f'%{name}' for name in names)} : {tail or tensor(arguments[0])}"
    return Case(dict(zip(names, arguments, strict=True)), text, function)


def in_body(op: str, arguments: tuple[Array, ...], function: Callable[..., Any]) -> Case:
    """Return a case that applies the op in the body of a `linalg.generic`."""
    tensor_case = tensor_op(op, arguments, function)
    names, kinds = list(tensor_case.arguments), [tensor(a).split("x")[-1][:-1] for a in arguments]
    out = tensor(tensor_case.expected_arrays[0])
    scalar = out.split("x")[-1][:-1]
    same = ", ".join(["affine_map<(i, j) -> (i, j)>"] * (len(names) + 1))
    block = ", ".join([*(f"%{n}s: {kind}" for n, kind in zip(names, kinds, strict=True)), f"%os: {scalar}"])
    tensor_case.body = f"""  %e = tensor.empty() : {out}
  %r = linalg.generic {{indexing_maps = [{same}], iterator_types = ["parallel", "parallel"]}} ins({", ".join(f"%{n}" for n in names)} : {", ".join(tensor(a) for a in arguments)}) outs(%e : {out}) {{
  ^bb0({block}):
    %v = {op} {", ".join(f"%{n}s" for n in names)} : {kinds[0]}
    linalg.yield %v : {scalar}
  }} -> {out}"""
    return tensor_case


@pytest.mark.parametrize("row", [*BINARY, *UNARY, *TESTS], ids=lambda row: f"{row[0]}-{row[1][0].dtype}")
def test_scalar_op_matches_numpy_on_tensors_and_in_bodies(row: Row) -> None:
    tensor_op(*row).matches()
    in_body(*row).matches()


@pytest.mark.parametrize("op, source, result", CASTS, ids=[f"{op}-{a.dtype}-{b.dtype}" for op, a, b in CASTS])
def test_cast_matches_numpy(op: str, source: Array, result: Array) -> None:
    tensor_op(op, (source,), lambda a: result, f"{tensor(source)} to {tensor(result)}").matches()


FLOATS = {
    "oeq": np.equal, "ogt": np.greater, "oge": np.greater_equal, "olt": np.less, "ole": np.less_equal,
    "one": lambda a, b: (a < b) | (a > b), "ord": lambda a, b: ~np.isnan(a) & ~np.isnan(b),
    "ueq": lambda a, b: ~((a < b) | (a > b)), "ugt": lambda a, b: ~(a <= b), "uge": lambda a, b: ~(a < b),
    "ult": lambda a, b: ~(a >= b), "ule": lambda a, b: ~(a > b), "une": np.not_equal,
    "uno": lambda a, b: np.isnan(a) | np.isnan(b), "true": lambda a, b: np.full(a.shape, True), "false": lambda a, b: np.full(a.shape, False),
}  # fmt: skip
INTEGERS = {
    "eq": np.equal, "ne": np.not_equal, "slt": np.less, "sle": np.less_equal, "sgt": np.greater, "sge": np.greater_equal,
    "ult": lambda a, b: u(a) < u(b), "ule": lambda a, b: u(a) <= u(b), "ugt": lambda a, b: u(a) > u(b), "uge": lambda a, b: u(a) >= u(b),
}  # fmt: skip


@pytest.mark.parametrize("number, word", list(enumerate(PREDICATES["cmpf"])))
def test_float_comparison_matches_numpy(number: int, word: str) -> None:
    pair = {"a": NAN, "b": np.where(Y > 0, X, Y).astype("f4")}
    Case(pair, f"  %r = arith.cmpf {word}, %a, %b : tensor<3x5xf32>", FLOATS[word]).matches()
    generic = f'  %r = "arith.cmpf"(%a, %b) <{{predicate = {number} : i64, fastmath = #arith.fastmath<none>}}> : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xi1>'
    Case(pair, generic, FLOATS[word]).matches()


@pytest.mark.parametrize("number, word", list(enumerate(INTEGERS)))
def test_integer_comparison_matches_numpy(number: int, word: str) -> None:
    pair = {"a": N, "b": np.where(M > 0, N, M).astype("i4")}
    Case(pair, f"  %r = arith.cmpi {word}, %a, %b : tensor<3x5xi32>", INTEGERS[word]).matches()
    generic = f'  %r = "arith.cmpi"(%a, %b) <{{predicate = {number} : i64}}> : (tensor<3x5xi32>, tensor<3x5xi32>) -> tensor<3x5xi1>'
    Case(pair, generic, INTEGERS[word]).matches()


@pytest.mark.parametrize("word", ["slt", "sge", "ult", "ule"])
def test_boolean_comparison_matches_numpy(word: str) -> None:
    """In a signed comparison of i1, true is -1."""
    sign = -1 if word.startswith("s") else 1
    pair = {"a": B, "b": C}
    compare = {"lt": np.less, "ge": np.greater_equal, "le": np.less_equal}[word[1:]]
    Case(
        pair, f"  %r = arith.cmpi {word}, %a, %b : tensor<3x5xi1>", lambda a, b: compare(sign * i(a), sign * i(b))
    ).matches()


SPECIAL = {
    "select": Case({"p": B, "a": X, "b": Y}, "  %r = arith.select %p, %a, %b : tensor<3x5xi1>, tensor<3x5xf32>", np.where),
    "select_one": Case({"p": np.array(True), "a": X, "b": Y}, "  %s = tensor.extract %p[] : tensor<i1>\n  %r = arith.select %s, %a, %b : tensor<3x5xf32>", lambda p, a, b: a),
    "clampf": Case({"a": X}, "  %l = arith.constant dense<-1.0> : tensor<3x5xf32>\n  %h = arith.constant dense<0.5> : tensor<3x5xf32>\n  %r = math.clampf %a to [%l, %h] : tensor<3x5xf32>", lambda a: a.clip(-1, 0.5)),
    "fpowi": Case({"a": X, "n": np.abs(M) % 4}, "  %r = math.fpowi %a, %n : tensor<3x5xf32>, tensor<3x5xi32>", lambda a, n: a**n),
    "sincos": Case({"a": X}, "  %r0, %r1 = math.sincos %a : tensor<3x5xf32>", lambda a: (np.sin(a), np.cos(a))),
    "mulsi_extended": Case({"a": N * 99999, "b": M * 99999}, "  %r0, %r1 = arith.mulsi_extended %a, %b : tensor<3x5xi32>", lambda a, b: (a * b, i((a.astype("i8") * b) >> 32))),
    "mului_extended": Case({"a": N * 99999, "b": M * 99999}, "  %r0, %r1 = arith.mului_extended %a, %b : tensor<3x5xi32>", lambda a, b: (a * b, i((u(a).astype("u8") * u(b)) >> np.uint64(32)))),
    "addui_extended": Case({"a": N, "b": M}, "  %r0, %r1 = arith.addui_extended %a, %b : tensor<3x5xi32>, tensor<3x5xi1>", lambda a, b: (a + b, u(a + b) < u(a))),
    "flags": Case({"a": X, "b": Y}, "  %t = arith.addf %a, %b fastmath<fast> : tensor<3x5xf32>\n  %r = arith.mulf %t, %b fastmath<nnan,ninf> {note = 1 : i32} : tensor<3x5xf32>", lambda a, b: (a + b) * b),
    "overflow": Case({"a": N, "b": M}, "  %r = arith.addi %a, %b overflow<nsw, nuw> : tensor<3x5xi32>", np.add),
    "rounding": Case({"a": X}, "  %r = arith.truncf %a to_nearest_even : tensor<3x5xf32> to tensor<3x5xf16>", lambda a: a.astype("f2")),
    "index": Case({"a": N}, "  %t = arith.index_cast %a : tensor<3x5xi32> to tensor<3x5xindex>\n  %s = arith.addi %t, %t : tensor<3x5xindex>\n  %r = arith.index_cast %s : tensor<3x5xindex> to tensor<3x5xi64>", lambda a: a.astype("i8") * 2),
    "unsigned_index": Case({"a": N}, "  %t = arith.index_castui %a : tensor<3x5xi32> to tensor<3x5xindex>\n  %r = arith.index_cast %t : tensor<3x5xindex> to tensor<3x5xi64>", lambda a: u(a).astype("i8")),
    "dense": Case({"a": normal(2, 3)}, "  %c = arith.constant dense<[[1.0, 2.5, -3.0], [4.0, 0x7F800000, 6.0]]> : tensor<2x3xf32>\n  %r = arith.addf %a, %c : tensor<2x3xf32>", lambda a: a + np.array([[1, 2.5, -3], [4, np.inf, 6]], "f4")),
    "dense_hex": Case({"a": whole(2, 2)}, '  %c = arith.constant dense<"0x01000000020000000300000004000000"> : tensor<2x2xi32>\n  %r = arith.addi %a, %c : tensor<2x2xi32>', lambda a: a + np.arange(1, 5, dtype="i4").reshape(2, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL)
def test_special_scalar_op_matches_numpy(name: str) -> None:
    SPECIAL[name].matches()


def test_sharding_propagates_through_scalar_ops() -> None:
    body = "  %t = math.atan %a : tensor<3x5xf32>\n  %s = math.copysign %t, %b : tensor<3x5xf32>\n  %r = arith.maxnumf %s, %b : tensor<3x5xf32>"
    case = Case({"a": X, "b": Y}, body, lambda a, b: np.fmax(np.copysign(np.arctan(a), b), b))
    case.matches()
    assert case.moved("2x2", {"a": "[[0], [1]]", "r": "[[0], [1]]"}) == {}


@pytest.mark.parametrize(
    "operation",
    ["arith.truncf %a toward_zero : tensor<2xf32> to tensor<2xf16>", '"arith.truncf"(%a) <{roundingmode = 3 : i32}> : (tensor<2xf32>) -> tensor<2xf16>'],
)  # fmt: skip
def test_unsupported_rounding_mode_is_refused(operation: str) -> None:
    text = (
        f"func.func @main(%a: tensor<2xf32>) -> tensor<2xf16> {{\n  %r = {operation}\n  return %r : tensor<2xf16>\n}}"
    )
    with pytest.raises(ProgramError, match="with rounding mode toward_zero is not supported"):
        parse_text(text)
