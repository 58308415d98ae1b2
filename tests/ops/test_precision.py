"""Tests of the precision of matmuls, which operand dtypes and the `precision` attribute determine."""

from __future__ import annotations

import pytest

from meshgen.errors import UsageError
from meshgen.ir.graph import Graph, Module, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.ops.precision import matmuls_of, multiplied_as, precision_of, with_precision

CONTRACT = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,)}


def matmul(left: str, right: str, result: str, words: tuple[str, ...] = ()) -> Graph:
    kinds = [TensorType((4, 4), dtype) for dtype in (left, right)]
    graph = Graph("product", [Value(kind) for kind in kinds])
    node = graph.add("dot_general", graph.inputs, [TensorType((4, 4), result)], {**CONTRACT, "precision": words})
    graph.outputs = [node.result]
    return graph


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "tf32"),
        (("DEFAULT", "DEFAULT"), "tf32"),
        (("DEFAULT", "HIGH"), "tf32x3"),
        (("HIGHEST", "DEFAULT"), "f32"),
        (("HIGH", "HIGHEST"), "f32"),
    ],
)
def test_higher_precision_of_two_operands_wins(words: tuple[str, ...], expected: str) -> None:
    assert multiplied_as(matmul("f32", "f32", "f32", words).nodes[0]) == expected


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (("bf16", "bf16", "f32"), "bf16"),
        (("f32", "bf16", "f32"), "tf32"),  # tf32 keeps all bits of bf16
        (("f16", "f32", "f16"), "tf32"),
        (("bf16", "f16", "f32"), "tf32"),  # f32 is the narrowest dtype that holds both
        (("f32", "f32", "f64"), "f64"),
        (("f64", "f32", "f32"), "f64"),
        (("i8", "i8", "i32"), "i8"),
        (("c64", "c64", "c64"), "tf32"),
        (("c128", "c128", "c128"), "c128"),
    ],
)
def test_multiplication_dtype_follows_operand_dtypes(kinds: tuple[str, str, str], expected: str) -> None:
    assert multiplied_as(matmul(*kinds).nodes[0]) == expected


def test_mixed_operands_multiply_in_f32_at_highest_precision() -> None:
    assert multiplied_as(matmul("f32", "bf16", "f32", ("HIGHEST", "HIGHEST")).nodes[0]) == "f32"


def test_precision_option_overrides_program() -> None:
    """The compiler option also applies to f32 matmuls in regions and kernels. Other dtypes are unchanged."""
    inner = matmul("f32", "f32", "f32", ("HIGHEST", "HIGHEST"))
    graph = Graph("main", inner.inputs)
    flag = Value(TensorType((), "i32"))
    graph.inputs = [flag, *inner.inputs]
    branches = tuple(Graph("branch", [], list(inner.nodes), list(inner.outputs)) for _ in range(2))
    node = graph.add("case", [flag], [TensorType((4, 4), "f32")])
    graph.nodes[0] = type(node)("case", node.operands, node.results, {}, regions=branches)
    graph.outputs = [graph.nodes[0].result]
    module = Module(make_mesh({"x": 1}), graph, kernels={"narrow": matmul("bf16", "bf16", "bf16")})
    for precision, expected in {"default": "tf32", "high": "tf32x3", "highest": "f32"}.items():
        updated = with_precision(module, precision)
        assert [multiplied_as(matmul_node) for matmul_node in matmuls_of(updated.graph)] == [expected, expected]
        assert [multiplied_as(matmul_node) for matmul_node in matmuls_of(updated.kernels["narrow"])] == ["bf16"]
        assert precision_of([updated.graph, updated.kernels["narrow"]]) == precision
    assert [multiplied_as(matmul_node) for matmul_node in matmuls_of(module.graph)] == ["f32", "f32"]


def test_precision_of_is_empty_for_mixed_precisions() -> None:
    assert precision_of([matmul("f32", "f32", "f32"), matmul("f32", "f32", "f32", ("HIGH", "HIGH"))]) == ""
    assert precision_of([matmul("bf16", "bf16", "f32")]) == ""


def test_unknown_precision_is_refused() -> None:
    module = Module(make_mesh({"x": 1}), matmul("f32", "f32", "f32"))
    with pytest.raises(UsageError, match="unknown precision 'best'"):
        with_precision(module, "best")
