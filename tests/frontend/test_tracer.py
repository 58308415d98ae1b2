"""The tracer: every operation is compared with NumPy or with its definition. Structures of arguments, annotations and
locations are also tested.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ProgramError
from meshgen.ir.graph import TensorType
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.types.inference import verify_node

Array = np.ndarray[Any, Any]
EPS = float(np.finfo(np.float32).eps)


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def run_traced(function: Callable[..., Any], *args: Array) -> Any:
    """Trace a function, verify every node of the graph, and return the results of the graph."""
    result = mg.trace(function, args)
    graph = result.module.graph
    assert [fault for node in graph.nodes for fault in verify_node(node)] == []
    return result.rebuild(evaluate(graph, list(args)))


X, Y, POSITIVE = normal(3, 1, 5), normal(4, 5, seed=1), np.abs(normal(3, 5, seed=2)) + 0.1

ELEMENTWISE: list[tuple[str, Callable[..., Any], Callable[..., Any], tuple[Array, ...]]] = [
    ("add", lambda x, y: x + y, lambda x, y: x + y, (X, Y)),
    ("weak scalars", lambda x: 2 * (1 - x) / 4 + 0.5, lambda x: 2 * (1 - x) / 4 + np.float32(0.5), (X,)),
    ("reflected division", lambda x: 1 / x, lambda x: 1 / x, (X,)),
    ("power of 3", lambda x: x**3, lambda x: x * x * x, (X,)),
    ("power", lambda x, y: mg.abs(x) ** y, lambda x, y: np.abs(x) ** y, (X, Y)),
    ("power of a number", lambda x: 2.0**x, lambda x: np.float32(2) ** x, (X,)),
    ("maximum", mg.maximum, np.maximum, (X, Y)),
    ("minimum", mg.minimum, np.minimum, (X, Y)),
    ("negative and abs", lambda x: -abs(x), lambda x: -np.abs(x), (X,)),
    ("comparison and where", lambda x, y: mg.where(x <= y, x, y), np.minimum, (X, Y)),
    ("logic", lambda x, y: ~((x < 0) & (y > 0) | (x != y)), lambda x, y: ~((x < 0) & (y > 0) | (x != y)), (X, Y)),
    ("array on the left", lambda y: X + y, lambda y: X + y, (Y,)),
    ("NumPy ufunc", lambda x: np.exp(np.negative(x)), lambda x: np.exp(-x), (X,)),
    ("exp", mg.exp, np.exp, (X,)),
    ("expm1", mg.expm1, np.expm1, (X,)),
    ("log", mg.log, np.log, (POSITIVE,)),
    ("log1p", mg.log1p, np.log1p, (POSITIVE,)),
    ("tanh", mg.tanh, np.tanh, (X,)),
    ("sqrt", mg.sqrt, np.sqrt, (POSITIVE,)),
    ("rsqrt", mg.rsqrt, lambda x: 1 / np.sqrt(x), (POSITIVE,)),
    ("sin", mg.sin, np.sin, (X,)),
    ("cos", mg.cos, np.cos, (X,)),
    ("erf", mg.erf, np.vectorize(math.erf), (X,)),
    ("sign", mg.sign, np.sign, (X,)),
    ("floor", mg.floor, np.floor, (X,)),
    ("ceil", mg.ceil, np.ceil, (X,)),
    ("isfinite", mg.isfinite, np.isfinite, (X,)),
    ("clip", lambda x: mg.clip(x, -0.5, 0.5), lambda x: np.clip(x, np.float32(-0.5), np.float32(0.5)), (X,)),
    ("square", mg.square, np.square, (X,)),
    ("relu", mg.relu, lambda x: np.maximum(x, 0), (X,)),
    ("sigmoid", mg.sigmoid, lambda x: 1 / (1 + np.exp(-x)), (X,)),
    ("silu", mg.silu, lambda x: x / (1 + np.exp(-x)), (X,)),
    (
        "gelu",
        lambda x: mg.gelu(x, approximate=False),
        lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
        (X,),
    ),
    ("gelu by tanh", mg.gelu, lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2, (X,)),
]


@pytest.mark.parametrize(
    ("function", "reference", "args"), [row[1:] for row in ELEMENTWISE], ids=[row[0] for row in ELEMENTWISE]
)
def test_elementwise_operation_matches_numpy(function: Any, reference: Any, args: Any) -> None:
    actual, expected = run_traced(function, *args), reference(*args)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(
        np.asarray(actual, np.float64), np.asarray(expected, np.float64), rtol=32 * EPS, atol=32 * EPS
    )


Z = normal(2, 3, 4)
MOVEMENT: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [
    ("transpose", lambda z: z.T, lambda z: z.T),
    ("transpose by axes", lambda z: mg.transpose(z, (1, -1, 0)), lambda z: z.transpose(1, 2, 0)),
    ("transpose method", lambda z: z.transpose(1, 0, 2), lambda z: z.transpose(1, 0, 2)),
    ("swapaxes", lambda z: mg.swapaxes(z, 0, -1), lambda z: z.swapaxes(0, -1)),
    ("reshape", lambda z: z.reshape(4, -1), lambda z: z.reshape(4, -1)),
    ("reshape to a vector", lambda z: z.reshape(-1), lambda z: z.reshape(-1)),
    ("broadcast_to", lambda z: mg.broadcast_to(z, (5, 2, 3, 4)), lambda z: np.broadcast_to(z, (5, 2, 3, 4))),
    ("expand_dims", lambda z: mg.expand_dims(z, (0, -1)), lambda z: np.expand_dims(z, (0, -1))),
    ("squeeze", lambda z: mg.squeeze(z[:, :1]), lambda z: np.squeeze(z[:, :1])),
    ("int index", lambda z: z[1, :, -2], lambda z: z[1, :, -2]),
    ("slices", lambda z: z[:, 1:, ::2], lambda z: z[:, 1:, ::2]),
    ("backward slices", lambda z: z[::-1, 2:0:-1, ::-3], lambda z: z[::-1, 2:0:-1, ::-3]),
    ("empty slice", lambda z: z[:, 2:1], lambda z: z[:, 2:1]),
    ("new axis and ellipsis", lambda z: z[None, ..., 1, None], lambda z: z[None, ..., 1, None]),
    ("all ints", lambda z: z[1, 2, 3], lambda z: z[1, 2, 3]),
    ("iteration", lambda z: mg.stack([row * 2 for row in z], 1), lambda z: np.stack([row * 2 for row in z], 1)),
    ("concatenate", lambda z: mg.concatenate([z, z[:, :1]], -2), lambda z: np.concatenate([z, z[:, :1]], -2)),
    ("split", lambda z: mg.split(z, 2, 2)[1], lambda z: np.split(z, 2, 2)[1]),
    ("split at", lambda z: mg.split(z, [1, 3], -1)[1], lambda z: np.split(z, [1, 3], -1)[1]),
    (
        "pad",
        lambda z: mg.pad(z, ((0, 1), (2, 0), (0, 0)), constant_values=7),
        lambda z: np.pad(z, ((0, 1), (2, 0), (0, 0)), constant_values=7),
    ),
    ("arange", lambda z: z[0, 0] + mg.arange(3, 11, 2), lambda z: z[0, 0] + np.arange(3, 11, 2, dtype=np.float32)),
    ("full", lambda z: z * mg.full((3, 4), 2.5) + mg.zeros((4,)) + mg.ones(()), lambda z: z * np.float32(2.5) + 1),
]


@pytest.mark.parametrize(("function", "reference"), [row[1:] for row in MOVEMENT], ids=[row[0] for row in MOVEMENT])
def test_data_movement_is_exact(function: Any, reference: Any) -> None:
    np.testing.assert_array_equal(run_traced(function, Z), reference(Z))


REDUCTIONS: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [
    ("sum", lambda z: z.sum(), lambda z: z.sum()),
    ("sum of an axis", lambda z: z.sum(1), lambda z: z.sum(1)),
    ("sum kept", lambda z: mg.sum(z, (0, -1), keepdims=True), lambda z: z.sum((0, 2), keepdims=True)),
    ("mean", lambda z: z.mean(-1), lambda z: z.mean(-1)),
    ("max", lambda z: z.max((0, 1)), lambda z: z.max((0, 1))),
    ("min", lambda z: z.min(keepdims=True), lambda z: z.min(keepdims=True)),
    ("prod", lambda z: mg.prod(z, 2), lambda z: z.prod(2)),
    ("var", lambda z: mg.var(z, 1), lambda z: z.var(1)),
    ("std", lambda z: mg.std(z, (0, 2)), lambda z: z.std((0, 2))),
    ("any", lambda z: mg.any(z > 1, 2), lambda z: (z > 1).any(2)),
    ("all", lambda z: mg.all(z > -1, 0), lambda z: (z > -1).all(0)),
    ("no axis", lambda z: mg.sum(z, ()), lambda z: z),
    ("softmax", mg.softmax, lambda z: np.exp(z) / np.exp(z).sum(-1, keepdims=True)),
    ("softmax of an axis", lambda z: mg.softmax(z, 0), lambda z: np.exp(z) / np.exp(z).sum(0)),
    ("log_softmax", mg.log_softmax, lambda z: np.log(np.exp(z) / np.exp(z).sum(-1, keepdims=True))),
    ("layer_norm", mg.layer_norm, lambda z: (z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + 1e-5)),
    ("layer_norm scaled", lambda z: mg.layer_norm(z, z[0, 0], 2.0, eps=0.1),
     lambda z: (z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + 0.1) * z[0, 0] + 2),
]  # fmt: skip


@pytest.mark.parametrize(("function", "reference"), [row[1:] for row in REDUCTIONS], ids=[row[0] for row in REDUCTIONS])
def test_reduction_matches_numpy(function: Any, reference: Any) -> None:
    actual, expected = run_traced(function, Z), reference(Z.astype(np.float64))
    assert actual.shape == expected.shape
    # At most 24 terms with a few roundings each. The condition number of var and layer_norm is below 8 here.
    np.testing.assert_allclose(np.asarray(actual, np.float64), expected, rtol=64 * EPS, atol=64 * EPS)


MATMUL_SHAPES = [((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (4,)),
            ((6, 2, 3, 4), (2, 4, 5)), ((2, 3, 4), (1, 4, 5)), ((4,), (2, 4, 5)), ((3, 4), (2, 4, 5)), ((1, 0), (0, 2))]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), MATMUL_SHAPES, ids=str)
def test_matmul_matches_numpy(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    x, y = normal(*left), normal(*right, seed=1)
    actual, expected = run_traced(lambda x, y: x @ y, x, y), x.astype(np.float64) @ y.astype(np.float64)
    assert actual.shape == expected.shape
    bound = (np.abs(x) @ np.abs(y)) * x.shape[-1] * EPS
    assert np.all(np.abs(actual - expected) <= bound + EPS)


EQUATIONS = [("ij,jk->ik", (3, 4), (4, 5)), ("bik,bkj->bij", (2, 3, 4), (2, 4, 5)), ("bik,bjk->jbi", (2, 3, 4), (2, 5, 4)), ("ij,ij->", (3, 4), (3, 4)),
             ("i,j->ji", (3,), (4,)), ("bld,dhe->bhle", (2, 3, 4), (4, 5, 6)), ("ij,jk", (3, 4), (4, 5)), ("abc,cd->d", (2, 3, 4), (4, 5)),
             ("ij->ji", (3, 4)), ("ij->i", (3, 4)), ("ab,bc,cd->ad", (2, 3), (3, 4), (4, 5))]  # fmt: skip


@pytest.mark.parametrize("row", EQUATIONS, ids=lambda row: row[0])
def test_einsum_matches_numpy(row: Any) -> None:
    equation, arrays = row[0], [normal(*shape, seed=i) for i, shape in enumerate(row[1:])]
    actual = run_traced(lambda *xs: mg.einsum(equation, *xs), *arrays)
    expected = np.einsum(equation, *(a.astype(np.float64) for a in arrays))
    bound = np.einsum(equation, *(np.abs(a) for a in arrays)) * 64 * EPS
    assert actual.shape == expected.shape
    assert np.all(np.abs(actual - expected) <= bound)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_accepts_negative_indices(axis: int) -> None:
    rows = np.array([[0, 2], [-1, 1]], np.int32)
    np.testing.assert_array_equal(
        run_traced(lambda t, i: mg.take(t, i, axis), Z[:, :, :3], rows % 2 - 1),
        np.take(Z[:, :, :3], rows % 2 - 1, axis),
    )
    np.testing.assert_array_equal(run_traced(lambda t, i: t[i], normal(4, 5), rows), normal(4, 5)[rows])


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ("bf16", "bf16", "bf16"),
        ("bf16", "f32", "f32"),
        ("bf16", "f16", "f32"),
        ("i32", "bf16", "bf16"),
        ("i1", "i8", "i8"),
        ("i8", "i32", "i32"),
        ("f32", "f64", "f64"),
    ],
)
def test_mixed_element_types_are_promoted(left: str, right: str, result: str) -> None:
    graph = mg.trace(lambda x, y: (x + y, y * x), [f"{left}[2]", f"{right}[2]"]).module.graph
    assert [value.type.dtype for value in graph.outputs] == [result, result]


@pytest.mark.parametrize(
    ("dtype", "number", "result"),
    [
        ("bf16", 2, "bf16"),
        ("bf16", 0.5, "bf16"),
        ("i32", 2, "i32"),
        ("i32", 0.5, "f32"),
        ("i1", 2, "i32"),
        ("f16", True, "f16"),
    ],
)
def test_python_scalars_are_weakly_typed(dtype: str, number: float, result: str) -> None:
    graph = mg.trace(lambda x: x + number, [f"{dtype}[2]"]).module.graph
    assert graph.outputs[0].type.dtype == result


def test_sum_of_bf16_accumulates_in_f32() -> None:
    ones = np.ones(1000, ml_dtypes.bfloat16)  # if the sum accumulated in bf16, it would stop at 256
    total = run_traced(lambda x: x.sum(), ones)
    assert (total.dtype, float(total)) == (np.dtype(ml_dtypes.bfloat16), 1000.0)


def test_traced_arguments_and_results_keep_structure() -> None:
    class Layer(NamedTuple):
        w: Any
        b: Any

    def model(x: Any, layers: list[Any], scale: dict[str, Any]) -> dict[str, Any]:
        for layer in layers:
            x = mg.relu(x @ layer.w + layer.b)
        return {"y": (x * scale["s"], None), "n": 3}

    args = {"x": "f32[2,4]", "layers": [Layer("f32[4,4]", "f32[4]")] * 2, "scale": {"s": "f32[]"}}
    result = mg.trace(model, args)
    names = [value.name for value in result.module.graph.inputs]
    assert names == ["x", "layers.0.w", "layers.0.b", "layers.1.w", "layers.1.b", "scale.s"]
    assert result.rebuild([10, 20]) == {"y": (10, None), "n": 20}


def test_annotations_and_options_record_axis_names() -> None:
    mesh = mg.make_mesh({"dp": 2, "tp": 4})

    def model(x: Any, w: Any) -> Any:
        y = mg.matmul(x, w, sharding_option=[["dp"], [1], []])
        return mg.annotate(y, [[0], [], [1]], required=False, as_result=False)

    dot, annotation = mg.trace(model, ["f32[4,6]", "f32[6,8]"], mesh).module.graph.nodes
    assert dot.option == (("dp",), ("tp",), ())
    assert annotation.attrs.sharding == mg.P("dp", None, partial="tp")
    assert (annotation.attrs.required, annotation.attrs.as_result) == (False, False)


def test_nodes_have_location_of_user_line() -> None:
    def model(x: Any) -> Any:
        return mg.softmax(x)

    line = model.__code__.co_firstlineno + 1
    locations = {(node.loc.file, node.loc.line) for node in mg.trace(model, ["f32[4]"]).module.graph.nodes if node.loc}
    assert locations == {(__file__, line)}


def test_spec_accepts_text_array_and_dtype_with_shape() -> None:
    assert (
        mg.spec("bf16[8, 512]")
        == mg.spec("bfloat16", (8, 512))
        == mg.spec(np.zeros((8, 512), ml_dtypes.bfloat16))
        == TensorType((8, 512), "bf16")
    )
    assert mg.spec("f32[]") == TensorType((), "f32")


def test_constants_of_positive_and_negative_zero_differ() -> None:
    def program(x: Any) -> Any:
        return x / 0.0, x / -0.0, x / 0.0

    for result, sign in zip(run_traced(program, np.ones(2, np.float32)), (1, -1, 1), strict=True):
        assert np.array_equal(result, [sign * np.inf] * 2)


def test_constants_of_large_integers_differ() -> None:
    x = np.array([0, 1], np.int64)
    low, high = run_traced(lambda v: (v + (2**53), v + (2**53 + 1)), x)
    assert low.tolist() == [2**53, 2**53 + 1] and high.tolist() == [2**53 + 1, 2**53 + 2]


def test_complex_operations_keep_imaginary_parts() -> None:
    x = np.array([1 + 2j, -3j, 0.5], np.complex64)
    for function, expected in ((mg.exp, np.exp(x)), (lambda v: v / 2, x / 2), (mg.mean, np.mean(x))):
        np.testing.assert_allclose(run_traced(function, x), expected, rtol=1e-5)
    with pytest.raises(ProgramError, match="no order"):
        mg.trace(mg.max, [x])
    with pytest.raises(ProgramError, match="complex"):
        mg.trace(mg.var, [x])


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4, np.uint8])
def test_max_and_min_support_types_without_infinity(dtype: Any) -> None:
    x = np.array([3, 1, 2], dtype)
    assert (float(run_traced(mg.max, x)), float(run_traced(mg.min, x))) == (3, 1)


@pytest.mark.parametrize("index", [True, (slice(None), False), slice(1.0, None), slice(None, None, 0)], ids=str)
def test_ambiguous_or_invalid_index_is_rejected(index: Any) -> None:
    with pytest.raises(ProgramError):
        mg.trace(lambda v: v[index], [normal(2, 3)])


def test_numpy_logical_functions_test_for_nonzero() -> None:
    x, y = np.array([2, 5, 0], np.int32), np.array([1, 0, 4], np.int32)
    for function in (np.logical_and, np.logical_or):
        assert run_traced(lambda a, b, f=function: f(a, b), x, y).tolist() == function(x, y).tolist()
    assert run_traced(np.logical_not, x).tolist() == [False, False, True]


def test_moveaxis_survives_saving(tmp_path: Path) -> None:
    """The permutation has NumPy integers. They must be saved as plain integers in the attributes of kernels."""
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    mg.compile(lambda x: mg.moveaxis(mg.tanh(x), (0, 1), (1, 2)), {"dp": 2}, args=[x], target="cpu").save(
        tmp_path / "m.mgx"
    )
    np.testing.assert_array_equal(mg.load(tmp_path / "m.mgx")(x), np.moveaxis(np.tanh(x), (0, 1), (1, 2)))
