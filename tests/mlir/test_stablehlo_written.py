"""Tests of StableHLO ops that are expanded on import: they match NumPy under any sharding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ProgramError
from meshgen.mlir.text import parse_text, print_text
from meshgen.ops.evaluate.evaluator import evaluate
from tests.mlir.payload import Array, Case, normal, tensor, whole

X, Y = normal(6, 5, 4), normal(6, 4, 3)
ROW = normal(4, seed=1)
IMAGE, KERNEL = normal(2, 7, 6, 3), normal(3, 3, 3, 4)
SYMMETRIC: Array = np.stack([a @ a.T + 5 * np.eye(5) for a in normal(6, 5, 5)]).astype("f4")
NORM = "<{epsilon = 1.0e-3 : f32, feature_index = 2 : i64}>"


def check_sharded(case: Case) -> None:
    """Check the case with its first argument sharded unevenly: rows on four devices, then the last dim on three."""
    name = next(iter(case.arguments))
    rank = case.arguments[name].ndim
    for grid, dim in (("4", 0), ("3", rank - 1)):
        case.moved(grid, {name: str([[0] if d == dim else [] for d in range(rank)])})


def statistics(x: Array) -> tuple[Array, Array]:
    return x.mean((0, 1)), x.var((0, 1))


def normalized(x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> Array:
    return (x - mean) / np.sqrt(variance + 1e-3) * scale + offset


def gradients(x: Array, scale: Array, mean: Array, variance: Array, grad: Array) -> tuple[Array, Array, Array]:
    root, centered = 1 / np.sqrt(variance + 1e-3), x - mean
    shared = (grad * centered).mean((0, 1))
    inner = grad - grad.mean((0, 1)) - centered * root**2 * shared
    return scale * root * inner, (grad * centered * root).sum((0, 1)), grad.sum((0, 1))


def einsum(config: str, *arrays: Array) -> Case:
    names = "ab"[: len(arrays)]
    types = ", ".join(map(tensor, arrays))
    result = tensor(np.einsum(config, *arrays).astype("f4"))
    op = "einsum" if len(arrays) == 2 else "unary_einsum"
    operands = ", ".join(f"%{name}" for name in names)
    return Case(
        dict(zip(names, arrays, strict=True)),
        f'%r = stablehlo.{op} {operands}, config = "{config}" : ({types}) -> {result}',
        lambda *inputs: np.einsum(config, *inputs),
    )


def selected(dim: int, batch: int, x: Array, index: Array, expected: Array) -> Case:
    attributes = f"<{{dim = {dim} : i64, batch_dims = {batch} : i64}}>"
    body = f'%r = "stablehlo.torch_index_select"(%x, %i) {attributes} : ({tensor(x)}, {tensor(index)}) -> {tensor(expected)}'
    return Case({"x": x, "i": index}, body, lambda *_: expected)


ROWS, PLACES = whole(3, 2, low=0, high=5), whole(6, 2, low=0, high=5)
CASES: dict[str, Case] = {
    "batch_norm_inference": Case(
        {"x": X, "s": ROW, "o": normal(4, seed=2), "m": normal(4, seed=3), "v": normal(4, seed=4) ** 2},
        f'%r = "stablehlo.batch_norm_inference"(%x, %s, %o, %m, %v) {NORM} : '
        "(tensor<6x5x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<6x5x4xf32>",
        normalized,
    ),
    "batch_norm_training": Case(
        {"x": X, "s": ROW, "o": normal(4, seed=2)},
        f'%r0, %r1, %r2 = "stablehlo.batch_norm_training"(%x, %s, %o) {NORM} : '
        "(tensor<6x5x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<6x5x4xf32>, tensor<4xf32>, tensor<4xf32>)",
        lambda x, s, o: (normalized(x, s, o, *statistics(x)), *statistics(x)),
    ),
    "batch_norm_grad": Case(
        {"x": X, "s": ROW, "m": X.mean((0, 1)), "v": X.var((0, 1)), "g": normal(6, 5, 4, seed=5)},
        f'%r0, %r1, %r2 = "stablehlo.batch_norm_grad"(%x, %s, %m, %v, %g) {NORM} : '
        "(tensor<6x5x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<6x5x4xf32>) "
        "-> (tensor<6x5x4xf32>, tensor<4xf32>, tensor<4xf32>)",
        gradients,
    ),
    "einsum of matrices": einsum("bij,bjk->bik", X, Y),
    "einsum, transposed": einsum("bij,bjk->kbi", X, Y),
    "einsum that sums what one side has": einsum("bij,bjk->bj", X, Y),
    "einsum of diagonals": einsum("ii,ij->j", normal(5, 5), normal(5, 4)),
    "einsum of leading dims": einsum("...ij,...jk->...ik", X, Y),
    "einsum without a common letter": einsum("ij,k->kij", normal(6, 3), normal(4)),
    "unary_einsum": einsum("bij->jb", X),
    "unary_einsum, trace": einsum("ii->", normal(6, 6)),
    "torch_index_select": selected(1, 0, X, ROWS, X[:, ROWS]),
    "torch_index_select of batches": selected(
        1, 1, X, PLACES, np.take_along_axis(X, PLACES[:, :, None].repeat(4, 2), axis=1)
    ),
    "torch_index_select behind batches": selected(
        2, 1, X, PLACES % 4, np.take_along_axis(X, (PLACES % 4)[:, None].repeat(5, 1), axis=2)
    ),
    "broadcast": Case(
        {"x": normal(6, 4)},
        "%r = stablehlo.broadcast %x, sizes = [2, 3] : (tensor<6x4xf32>) -> tensor<2x3x6x4xf32>",
        lambda x: np.broadcast_to(x, (2, 3, 6, 4)),
    ),
    "set_dimension_size": Case(
        {"x": X},
        "%n = stablehlo.constant dense<3> : tensor<i32>\n"
        "%s = stablehlo.set_dimension_size %x, %n, dim = 1 : (tensor<6x5x4xf32>, tensor<i32>) -> tensor<6x3x4xf32>\n"
        "%r = stablehlo.negate %s : tensor<6x3x4xf32>",
        lambda x: -x[:, :3],
    ),
    "dynamic_conv of a constant padding": Case(
        {"x": IMAGE, "w": KERNEL},
        "%p = stablehlo.constant dense<[[1, 1], [0, 2]]> : tensor<2x2xi32>\n"
        '%r = "stablehlo.dynamic_conv"(%x, %w, %p) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, '
        "feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : "
        "(tensor<2x7x6x3xf32>, tensor<3x3x3x4xf32>, tensor<2x2xi32>) -> tensor<2x7x6x4xf32>",
        lambda x, w: np.einsum(
            "nhwcij,ijco->nhwo",
            np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (1, 1), (0, 2), (0, 0))), (3, 3), axis=(1, 2)),
            w,
        ),
    ),
    "function of mhlo": Case({"x": normal(6, 4)}, "%r = mhlo.asinh %x : tensor<6x4xf32>", np.arcsinh),
    "dot of two element types": Case(
        {"x": normal(6, 4), "i": whole(4, 3)},
        "%r = stablehlo.dot_general %x, %i, contracting_dims = [1] x [0] : (tensor<6x4xf32>, tensor<4x3xi32>) -> tensor<6x3xf32>",
        lambda x, i: x @ i,
    ),
    "comparison with a constant from outside of the region": Case(
        {"x": normal(6, 4)},
        "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        '%r = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({\n'
        "^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
        "  %p = stablehlo.subtract %a, %b : tensor<f32>\n"
        "  %c = stablehlo.compare LT, %p, %z : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "  stablehlo.return %c : tensor<i1>\n"
        "}) : (tensor<6x4xf32>) -> tensor<6x4xf32>",
        lambda x: np.sort(x, 0),
    ),
    "reducer with locations": Case(
        {"x": normal(6, 4)},
        "%i = stablehlo.constant dense<0xFF800000> : tensor<f32>\n"
        "%r = stablehlo.reduce(%x init: %i) across dimensions = [1] : (tensor<6x4xf32>, tensor<f32>) -> tensor<6xf32>\n"
        'reducer(%a: tensor<f32> loc("reduce:"("f.py":3:4)), %b: tensor<f32> loc("b")) {\n'
        "  %m = stablehlo.maximum %a, %b : tensor<f32>\n"
        "  stablehlo.return %m : tensor<f32>\n"
        "}",
        lambda x: x.max(1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_expanded_stablehlo_op_matches_numpy(name: str) -> None:
    case = CASES[name]
    module = case.matches()
    assert print_text(parse_text(print_text(module))) == print_text(module)
    check_sharded(case)


SIZE = """func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %h = stablehlo.divide %n, %two : tensor<i32>
  %r = stablehlo.set_dimension_size %x, %h, dim = 0 : (tensor<?x4xf32>, tensor<i32>) -> tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}
"""


def test_size_computed_from_another_size_is_resolved() -> None:
    x = normal(7, 4)
    static = mg.lower(SIZE, {"d": 4}, stage="propagate", args=[(7, 4)])
    np.testing.assert_array_equal(evaluate(static.graph, [x])[0], x[:3])


WINDOW = """func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
  %k = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %c = stablehlo.constant dense<1> : tensor<1xi32>
  %w = stablehlo.concatenate %k, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %o = stablehlo.constant dense<1> : tensor<2xi32>
  %m = stablehlo.subtract %k, %c : tensor<1xi32>
  %e = stablehlo.constant dense<0> : tensor<3xi32>
  %f = stablehlo.concatenate %m, %e, dim = 0 : (tensor<1xi32>, tensor<3xi32>) -> tensor<4xi32>
  %p = stablehlo.reshape %f : (tensor<4xi32>) -> tensor<2x2xi32>
  %r = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %z, %w, %o, %o, %o, %p) {called_computations = [@CALLED]} : (tensor<?x4xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2x2xi32>) -> tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}
func.func private @sum(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %s = stablehlo.add %a, %b : tensor<f32>
  return %s : tensor<f32>
}
"""


def test_dynamic_reduce_window_is_resolved_with_its_sizes() -> None:
    module = parse_text(WINDOW.replace("CALLED", "sum"))
    text = print_text(module)
    assert "stablehlo.dynamic_reduce_window" in text and print_text(parse_text(text)) == text
    static = mg.lower(text, {"d": 4}, stage="propagate", args=[(7, 4)])
    assert [node.op for node in static.graph.nodes if node.regions] == ["reduce_window"]
    x = normal(7, 4)
    np.testing.assert_allclose(evaluate(static.graph, [x])[0], np.cumsum(x, 0), rtol=2e-5, atol=1e-5)


A, B = "tensor<4x3xf32>", "tensor<3xf32>"
REFUSED: list[tuple[str, str]] = [
    (f'%0 = "stablehlo.batch_norm_inference"(%x, %y, %y, %y, %y) <{{epsilon = 1.0e-3 : f32, feature_index = 0 : i64}}> : ({A}, {B}, {B}, {B}, {B}) -> {A}', "expected 5 operands with feature dim 0"),
    (f'%0 = stablehlo.einsum %x, %y, config = "ab,c" : ({A}, {B}) -> {A}', "does not fit"),
    (f'%0 = stablehlo.einsum %x, %y, config = "abc,c->ab" : ({A}, {B}) -> {A}', "does not fit"),
    (f'%0 = "stablehlo.torch_index_select"(%x, %y) <{{dim = 5 : i64, batch_dims = 0 : i64}}> : ({A}, {B}) -> {A}', "dim 5"),
    (f"%0 = stablehlo.set_dimension_size %x, %y, dim = 0 : ({A}, {B}) -> {A}", "the size must be i32.., got f32"),
    (f"%n = stablehlo.constant dense<3> : tensor<i32>\n%0 = stablehlo.set_dimension_size %x, %n, dim = 0 : ({A}, tensor<i32>) -> {A}", "expected result type f32.3,3"),
    (f"%0 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %y) : ({A}, {B}) -> {A}", "must name a function"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message"), REFUSED)
def test_malformed_expanded_op_is_refused(body: str, message: str) -> None:
    text = f"func.func @main(%x: {A}, %y: {B}) -> {A} {{\n{body}\nreturn %0 : {A}\n}}"
    with pytest.raises(ProgramError, match=message) as caught:
        parse_text(text)
    faults: list[Any] = list(caught.value.diagnostics)
    assert faults[0].code == "MG0104" and faults[0].loc is not None
