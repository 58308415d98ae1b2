"""In which numbers products are multiplied, by their types and by `precision`."""

from __future__ import annotations

import pytest

from meshgen.errors import UsageError
from meshgen.ir.graph import Graph, Module, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.ops.precision import multiplied_as, precision_of, products_of, with_precision

CONTRACT = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,)}


def product(left: str, right: str, result: str, words: tuple[str, ...] = ()) -> Graph:
    kinds = [TensorType((4, 4), dtype) for dtype in (left, right)]
    graph = Graph("product", [Value(kind) for kind in kinds])
    node = graph.add("dot_general", graph.inputs, [TensorType((4, 4), result)], {**CONTRACT, "precision": words})
    graph.outputs = [node.result]
    return graph


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ((), "tf32"),
        (("DEFAULT", "DEFAULT"), "tf32"),
        (("DEFAULT", "HIGH"), "tf32x3"),
        (("HIGHEST", "DEFAULT"), "f32"),
        (("HIGH", "HIGHEST"), "f32"),
    ],
)
def test_of_two_words_the_higher_one_counts(words: tuple[str, ...], wanted: str) -> None:
    assert multiplied_as(product("f32", "f32", "f32", words).nodes[0]) == wanted


@pytest.mark.parametrize(
    ("kinds", "wanted"),
    [
        (("bf16", "bf16", "f32"), "bf16"),
        (("f32", "bf16", "f32"), "tf32"),  # no bits of bf16 are cut
        (("f16", "f32", "f16"), "tf32"),
        (("bf16", "f16", "f32"), "tf32"),  # f32 is the least that has both
        (("f32", "f32", "f64"), "f64"),
        (("f64", "f32", "f32"), "f64"),
        (("i8", "i8", "i32"), "i8"),
        (("c64", "c64", "c64"), "tf32"),
        (("c128", "c128", "c128"), "c128"),
    ],
)
def test_types_decide_too(kinds: tuple[str, str, str], wanted: str) -> None:
    assert multiplied_as(product(*kinds).nodes[0]) == wanted


def test_mixed_operands_keep_f32_where_it_is_asked_for() -> None:
    assert multiplied_as(product("f32", "bf16", "f32", ("HIGHEST", "HIGHEST")).nodes[0]) == "f32"


def test_an_option_counts_more_than_the_program() -> None:
    """In regions and kernels too; other types stay as they are."""
    inner = product("f32", "f32", "f32", ("HIGHEST", "HIGHEST"))
    graph = Graph("main", inner.inputs)
    flag = Value(TensorType((), "i32"))
    graph.inputs = [flag, *inner.inputs]
    branches = tuple(Graph("branch", [], list(inner.nodes), list(inner.outputs)) for _ in range(2))
    node = graph.add("case", [flag], [TensorType((4, 4), "f32")])
    graph.nodes[0] = type(node)("case", node.operands, node.results, {}, regions=branches)
    graph.outputs = [graph.nodes[0].result]
    module = Module(make_mesh({"x": 1}), graph, kernels={"narrow": product("bf16", "bf16", "bf16")})
    for precision, wanted in {"default": "tf32", "high": "tf32x3", "highest": "f32"}.items():
        found = with_precision(module, precision)
        assert [multiplied_as(each) for each in products_of(found.graph)] == [wanted, wanted]
        assert [multiplied_as(each) for each in products_of(found.kernels["narrow"])] == ["bf16"]
        assert precision_of([found.graph, found.kernels["narrow"]]) == precision
    assert [multiplied_as(each) for each in products_of(module.graph)] == ["f32", "f32"]


def test_products_may_differ_in_precision() -> None:
    assert precision_of([product("f32", "f32", "f32"), product("f32", "f32", "f32", ("HIGH", "HIGH"))]) == ""
    assert precision_of([product("bf16", "bf16", "f32")]) == ""


def test_unknown_precisions_are_refused() -> None:
    module = Module(make_mesh({"x": 1}), product("f32", "f32", "f32"))
    with pytest.raises(UsageError, match="unknown precision 'best'"):
        with_precision(module, "best")
