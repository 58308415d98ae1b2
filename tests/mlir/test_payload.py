"""Tests of the importers of linalg, tosa, arith, math, tensor and scf against NumPy."""

from collections.abc import Callable

import numpy as np
import pytest

from meshgen.mlir.text import parse_text
from meshgen.ops.evaluate.evaluator import evaluate

A, B, C = "tensor<3x5xf32>", "tensor<5x4xf32>", "tensor<3x4xf32>"
X = np.random.default_rng(0).normal(size=(3, 5)).astype("f4")
W = np.random.default_rng(1).normal(size=(5, 4)).astype("f4")
Y = np.random.default_rng(2).normal(size=(3, 4)).astype("f4")
T = np.random.default_rng(3).normal(size=(2, 3, 5)).astype("f4")
N = np.array([[-7, 3, 0, 2, 5], [1, -2, 9, 4, -8], [6, 6, -6, 1, 0]], "i4")


def run(body: str, result: str, *arguments: np.ndarray) -> np.ndarray:
    names = ", ".join(
        f"%a{i}: tensor<{'x'.join(map(str, a.shape))}x{'f32' if a.dtype == 'f4' else 'i32'}>"
        for i, a in enumerate(arguments)
    )
    text = f"func.func @f({names}) -> {result} {{\n{body}\nreturn %r : {result}\n}}"
    return np.asarray(evaluate(parse_text(text).graph, list(arguments))[0])


GENERIC = """%e = tensor.empty() : {out}
{init}
%r = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} ins({ins}) outs({start} : {out}) {{
^bb0({arguments}):
  {body}
}} -> {out}"""


def reduction(combine: str, number: str) -> str:
    return GENERIC.format(
        out="tensor<5xf32>", init=f"%c = arith.constant {number} : f32\n%i = linalg.fill ins(%c : f32) outs(%e : tensor<5xf32>) -> tensor<5xf32>",
        maps="affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>", kinds='"reduction", "parallel"', ins=f"%a0 : {A}",
        start="%i", arguments="%x: f32, %acc: f32", body=f"%v = arith.{combine} : f32\n linalg.yield %v : f32",
    )  # fmt: skip


CASES: dict[str, tuple[str, str, tuple[np.ndarray, ...], Callable[[], np.ndarray]]] = {
    "matmul_onto_zero": (f"%c = arith.constant 0.0 : f32\n%e = tensor.empty() : {C}\n%z = linalg.fill ins(%c : f32) outs(%e : {C}) -> {C}\n%r = linalg.matmul ins(%a0, %a1 : {A}, {B}) outs(%z : {C}) -> {C}", C, (X, W), lambda: X @ W),
    "matmul_accumulates": (f"%r = linalg.matmul ins(%a0, %a1 : {A}, {B}) outs(%a2 : {C}) -> {C}", C, (X, W, Y), lambda: X @ W + Y),
    "matmul_transpose_b": (f"%r = linalg.matmul_transpose_b ins(%a0, %a1 : {A}, tensor<4x5xf32>) outs(%a2 : {C}) -> {C}", C, (X, W.T.copy(), Y), lambda: X @ W + Y),
    "batch_matmul": ("%r = linalg.batch_matmul ins(%a0, %a1 : tensor<2x3x5xf32>, tensor<2x5x4xf32>) outs(%a2 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>", "tensor<2x3x4xf32>", (T, np.stack([W, -W]), np.stack([Y, Y])), lambda: T @ np.stack([W, -W]) + Y),
    "generic_matmul_transposed": (GENERIC.format(out="tensor<4x3xf32>", init="", maps="affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (j, i)>", kinds='"parallel", "parallel", "reduction"', ins=f"%a0, %a1 : {A}, {B}", start="%a2", arguments="%x: f32, %y: f32, %acc: f32", body="%m = arith.mulf %x, %y : f32\n %v = arith.addf %acc, %m : f32\n linalg.yield %v : f32"), "tensor<4x3xf32>", (X, W, Y.T.copy()), lambda: (X @ W + Y).T),
    "generic_broadcast_and_transpose": (GENERIC.format(out="tensor<5x3xf32>", init="", maps="affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>", kinds='"parallel", "parallel"', ins=f"%a0, %a1 : {A}, tensor<5xf32>", start="%e", arguments="%x: f32, %y: f32, %o: f32", body="%v = arith.subf %x, %y : f32\n linalg.yield %v : f32"), "tensor<5x3xf32>", (X, W[:, 0].copy()), lambda: X.T - W[:, :1]),
    "generic_reads_its_output": (GENERIC.format(out=A, init="", maps="affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>", kinds='"parallel", "parallel"', ins=f"%a0 : {A}", start="%a1", arguments="%x: f32, %o: f32", body="%v = arith.subf %x, %o : f32\n linalg.yield %v : f32"), A, (X, 2 * X), lambda: X - 2 * X),
    "generic_index": (GENERIC.format(out="tensor<3x5xi32>", init="", maps="affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>", kinds='"parallel", "parallel"', ins="%a0 : tensor<3x5xi32>", start="%e", arguments="%x: i32, %o: i32", body="%i = linalg.index 1 : index\n %k = arith.index_cast %i : index to i32\n %v = arith.addi %x, %k : i32\n linalg.yield %v : i32"), "tensor<3x5xi32>", (N,), lambda: N + np.arange(5, dtype="i4")),
    "sum": (reduction("addf %x, %acc", "0.0"), "tensor<5xf32>", (X,), lambda: X.sum(0)),
    "sum_from_ten": (reduction("addf %acc, %x", "10.0"), "tensor<5xf32>", (X,), lambda: X.sum(0) + 10),
    "difference": (reduction("subf %acc, %x", "1.0"), "tensor<5xf32>", (X,), lambda: 1 - X.sum(0)),
    "maximum": (reduction("maximumf %x, %acc", "0xFF800000"), "tensor<5xf32>", (X,), lambda: X.max(0)),
    "maximum_from_zero": (reduction("maximumf %x, %acc", "0.0"), "tensor<5xf32>", (X,), lambda: np.maximum(X.max(0), 0)),
    "product": (reduction("mulf %x, %acc", "1.0"), "tensor<5xf32>", (X,), lambda: X.prod(0)),
    "reduce_named": (f"%c = arith.constant 2.0 : f32\n%e = tensor.empty() : tensor<3xf32>\n%i = linalg.fill ins(%c : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>\n%r = linalg.reduce {{ arith.addf }} ins(%a0 : {A}) outs(%i : tensor<3xf32>) dimensions = [1]", "tensor<3xf32>", (X,), lambda: X.sum(1) + 2),
    "reduce_region": (f"%r = linalg.reduce ins(%a0 : {A}) outs(%a1 : tensor<3xf32>) dimensions = [1] (%x: f32, %acc: f32) {{\n %v = arith.addf %acc, %x : f32\n linalg.yield %v : f32\n}}", "tensor<3xf32>", (X, Y[:, 0].copy()), lambda: X.sum(1) + Y[:, 0]),
    "map_region": (f"%e = tensor.empty() : {A}\n%r = linalg.map ins(%a0 : {A}) outs(%e : {A}) (%x: f32) {{\n %v = math.absf %x : f32\n linalg.yield %v : f32\n}}", A, (X,), lambda: np.abs(X)),
    "transpose": (f"%e = tensor.empty() : tensor<5x3xf32>\n%r = linalg.transpose ins(%a0 : {A}) outs(%e : tensor<5x3xf32>) permutation = [1, 0]", "tensor<5x3xf32>", (X,), lambda: X.T),
    "broadcast": ("%e = tensor.empty() : tensor<3x2x5xf32>\n%r = linalg.broadcast ins(%a0 : tensor<3x5xf32>) outs(%e : tensor<3x2x5xf32>) dimensions = [1]", "tensor<3x2x5xf32>", (X,), lambda: np.stack([X, X], 1)),
    "named_max": (f"%e = tensor.empty() : {A}\n%r = linalg.max ins(%a0, %a1 : {A}, {A}) outs(%e : {A}) -> {A}", A, (X, -X), lambda: np.abs(X)),
    "tosa_stretches": ("%r = tosa.add %a0, %a1 : (tensor<3x5xf32>, tensor<3x1xf32>) -> tensor<3x5xf32>", A, (X, Y[:, :1].copy()), lambda: X + Y[:, :1]),
    "tosa_matmul": ("%r = tosa.matmul %a0, %a1 : (tensor<2x3x5xf32>, tensor<2x5x4xf32>) -> tensor<2x3x4xf32>", "tensor<2x3x4xf32>", (T, np.stack([W, -W])), lambda: T @ np.stack([W, -W])),
    "tosa_reduce_keeps_the_dim": (f"%r = tosa.reduce_max %a0 {{axis = 1 : i32}} : ({A}) -> tensor<3x1xf32>", "tensor<3x1xf32>", (X,), lambda: X.max(1, keepdims=True)),
    "tosa_transpose": (f"%r = tosa.transpose %a0 {{perms = array<i32: 1, 0>}} : ({A}) -> tensor<5x3xf32>", "tensor<5x3xf32>", (X,), lambda: X.T),
    "tosa_concat": (f"%r = tosa.concat %a0, %a0 {{axis = 0 : i32}} : ({A}, {A}) -> tensor<6x5xf32>", "tensor<6x5xf32>", (X,), lambda: np.concatenate([X, X])),
    "tosa_slice": (f"%s = tosa.const_shape {{values = dense<[1, 2]> : tensor<2xindex>}} : () -> !tosa.shape<2>\n%n = tosa.const_shape {{values = dense<2> : tensor<2xindex>}} : () -> !tosa.shape<2>\n%r = tosa.slice %a0, %s, %n : ({A}, !tosa.shape<2>, !tosa.shape<2>) -> tensor<2x2xf32>", "tensor<2x2xf32>", (X,), lambda: X[1:3, 2:4]),
    "tosa_clamp": (f"%r = tosa.clamp %a0 {{min_val = -0.5 : f32, max_val = 0.25 : f32}} : ({A}) -> {A}", A, (X,), lambda: X.clip(-0.5, 0.25)),
    "tosa_cast_rounds": ("%c = \"tosa.const\"() <{values = dense<[0.5, 1.5, -2.6]> : tensor<3xf32>}> : () -> tensor<3xf32>\n%r = tosa.cast %c : (tensor<3xf32>) -> tensor<3xi32>", "tensor<3xi32>", (X,), lambda: np.array([0, 2, -3])),
    "compare_and_select": (f"%c = arith.cmpf ogt, %a0, %a1 : {A}\n%r = arith.select %c, %a0, %a1 : tensor<3x5xi1>, {A}", A, (X, -X), lambda: np.abs(X)),
    "unsigned_division": ("%r = arith.divui %a0, %a1 : tensor<3x5xi32>", "tensor<3x5xi32>", (N, np.full((3, 5), 3, "i4")), lambda: (N.view("u4") // 3).view("i4")),
    "unsigned_extension": ("%r = arith.extui %a0 : tensor<3x5xi32> to tensor<3x5xi64>", "tensor<3x5xi64>", (N,), lambda: N.view("u4").astype("i8")),
    "unordered_comparison": ("%n = arith.constant dense<0x7FC00000> : tensor<3x5xf32>\n%c = arith.cmpf ult, %a0, %n : tensor<3x5xf32>\n%r = arith.extui %c : tensor<3x5xi1> to tensor<3x5xi32>", "tensor<3x5xi32>", (X,), lambda: np.ones((3, 5))),
    "maxnum_ignores_nan": ("%n = arith.constant dense<0x7FC00000> : tensor<3x5xf32>\n%r = arith.maxnumf %a0, %n : tensor<3x5xf32>", A, (X,), lambda: X),
    "extract_slice": (f"%r = tensor.extract_slice %a0[1, 0] [1, 3] [1, 2] : {A} to tensor<3xf32>", "tensor<3xf32>", (X,), lambda: X[1, ::2]),
    "insert_slice": (f"%r = tensor.insert_slice %a1 into %a0[0, 1] [3, 4] [1, 1] : {C} into {A}", A, (X, Y), lambda: np.concatenate([X[:, :1], Y], 1)),
    "expand_shape": ("%r = tensor.expand_shape %a0 [[0], [1, 2]] output_shape [3, 5, 1] : tensor<3x5xf32> into tensor<3x5x1xf32>", "tensor<3x5x1xf32>", (X,), lambda: X[..., None]),
    "concat": (f"%r = tensor.concat dim(1) %a0, %a1 : ({A}, {C}) -> tensor<3x9xf32>", "tensor<3x9xf32>", (X, Y), lambda: np.concatenate([X, Y], 1)),
    "pad": (f"%r = tensor.pad %a0 low[0, 1] high[2, 0] {{\n^bb0(%i: index, %j: index):\n %c = arith.constant 7.0 : f32\n tensor.yield %c : f32\n}} : {A} to tensor<5x6xf32>", "tensor<5x6xf32>", (X,), lambda: np.pad(X, ((0, 2), (1, 0)), constant_values=7)),
    "for": (f"%l = arith.constant 1 : index\n%u = arith.constant 6 : index\n%s = arith.constant 2 : index\n%r = scf.for %i = %l to %u step %s iter_args(%t = %a0) -> ({A}) {{\n %v = arith.addf %t, %a1 : {A}\n scf.yield %v : {A}\n}}", A, (X, -X), lambda: X - 3 * X),
    "if": (f"%c = arith.constant true\n%r = scf.if %c -> ({A}) {{\n scf.yield %a0 : {A}\n}} else {{\n %v = arith.negf %a0 : {A}\n scf.yield %v : {A}\n}}", A, (X,), lambda: X),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_payload_op_matches_numpy(name: str) -> None:
    body, result, arguments, expected = CASES[name]
    computed, right = run(body, result, *arguments), expected()
    assert computed.shape == right.shape
    # The results are sums of at most 5 products below 10 in f32, with 5 roundings of 2^-24 each.
    np.testing.assert_allclose(computed, right, rtol=0, atol=0 if computed.dtype.kind in "iub" else 5 * 10 * 2.0**-24)


def test_dead_fill_leaves_no_node() -> None:
    body, result, *_ = CASES["matmul_onto_zero"]
    module = parse_text(f"func.func @f(%a0: {A}, %a1: {B}) -> {result} {{\n{body}\nreturn %r : {result}\n}}")
    assert [node.op for node in module.graph.nodes] == ["dot_general"]
