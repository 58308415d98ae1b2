"""Tests of the attention op: semantics for any dim order, text form, types and error bound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from attention_nodes import Function, biased, causal, first, node_of, reference_attention
from one_op import normal

from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.mesh import make_mesh
from meshgen.mlir.text import parse_text, print_text
from meshgen.ops.composites import decomposed, expanded, is_composite
from meshgen.ops.evaluate.evaluator import evaluate, evaluate_node
from meshgen.ops.flops import node_flops
from meshgen.ops.registry import rule_of
from meshgen.ops.tolerance.bounds import error_bound
from meshgen.ops.types.inference import verify_node

SIZES = {"b": 2, "t": 5, "s": 7, "h": 3, "k": 3, "g": 2, "d": 4, "e": 6, "u": 2}
LAYOUTS = (
    "t d, s d, s e -> t e, t",
    "b t h d, b s h d, b s h e -> b t h e, b h t",
    "h t d, h d s, h e s -> e h t, h t",
    "b t k g d, b s k d, b s k e -> b t k g e, b k g t",
    "b h t d, b s d, b s e -> b h t e, b h t",  # one head of keys and values
    "t d u, s u d, s -> t, t",
    "t d, s u d, u s e -> t e, t",  # keys of two dims
)


def arrays_of(node: Node) -> list[Any]:
    return [normal(*value.type.sizes, seed=seed) for seed, value in enumerate(node.operands)]


def graph_of(node: Node) -> Graph:
    return Graph("main", list(node.operands), [node], list(node.results))


@pytest.mark.parametrize("factors", LAYOUTS)
def test_attention_is_softmax_between_two_matmuls(factors: str) -> None:
    node = node_of(factors, SIZES)
    assert verify_node(node) == []
    args = arrays_of(node)
    out, _ = evaluate_node(node, args)
    np.testing.assert_allclose(out, reference_attention(factors, *args), rtol=1e-5, atol=1e-6)


def test_log_sum_exp_uses_modified_scores() -> None:
    node = node_of("t d, s d, s e, t s -> t e, t", SIZES, elements=["f32"], score=biased)
    q, k, v, bias = arrays_of(node)
    out, lse = evaluate_node(node, [q, k, v, bias])
    np.testing.assert_allclose(lse, np.log(np.exp(q @ k.T + bias).sum(1)), rtol=1e-5)
    np.testing.assert_allclose(
        out, reference_attention("t d, s d, s e -> t e, t", q, k, v, lambda s: s + bias), rtol=1e-5
    )


def _mask_first_row(builder: Any, inputs: list[Value]) -> Value:
    """Mask all scores of row 0 with -inf."""
    score, row = inputs
    return builder.elementwise("select", builder.compare("GT", row, builder.splat(0, row.type)), score, builder.splat(-np.inf, score.type))  # fmt: skip


@pytest.mark.parametrize("zero_empty", [True, False])
def test_rows_without_keys_give_zero_or_nan(zero_empty: bool) -> None:
    node = node_of("t d, s d, s e -> t e, t", SIZES, positions=["t"], score=_mask_first_row, zero_empty=zero_empty)
    out, _ = evaluate_node(node, arrays_of(node))
    assert np.all(out[0] == 0 if zero_empty else np.isnan(out[0])) and np.all(np.isfinite(out[1:]))


def test_attention_error_bound_equals_decomposition() -> None:
    node = node_of("t d, s d, s e -> t e, t", SIZES, positions=["t", "s"], score=causal, dtype="bf16")
    args = [array.astype(value.type.numpy_dtype) for array, value in zip(arrays_of(node), node.operands, strict=True)]
    bounds = [error_bound(graph, args) for graph in (graph_of(node), decomposed(node))]
    assert [np.array_equal(*pair) for pair in zip(*bounds, strict=True)] == [True, True]
    assert 0 < bounds[0][0].max() < 0.1


def test_expanded_attention_keeps_names_and_values() -> None:
    node = node_of("t d, s d, s e -> t e, t", SIZES)
    node.results[0].name = "out"
    graph, args = graph_of(node), arrays_of(node)
    after = expanded(graph)
    assert not any(map(is_composite, after.nodes)) and after.outputs[0].name == "out"
    assert after.outputs[0].id == node.results[0].id
    assert all(np.array_equal(*pair) for pair in zip(evaluate(after, args), evaluate(graph, args), strict=True))
    assert expanded(after) is after


def test_attention_flops_count_both_matmuls() -> None:
    node = node_of(LAYOUTS[3], SIZES)
    dots = [inner for inner in decomposed(node).nodes if inner.op == "dot_general"]
    assert node_flops(node) == sum(map(node_flops, dots))


def test_attention_rule_replicates_keys_and_depth() -> None:
    assert (
        rule_of(node_of(LAYOUTS[1], SIZES)).notation()
        == "b t h d, b s h d, b s h e -> b t h e, b h t whole(d) whole(s)"
    )


@pytest.mark.parametrize("share", [first, lambda b, inputs: b.convert(inputs[0], "bf16")])
def test_attention_text_round_trips(share: Function) -> None:
    node = node_of("t d, s d, s e, t s, () -> t e, t", SIZES, elements=["f32", "i32"], positions=["s"], score=biased, share=share,
                   precision=("HIGHEST", "HIGHEST"), zero_empty=True)  # fmt: skip
    module = Module(make_mesh({"x": 2}), graph_of(node))
    text = print_text(module)
    (reparsed,) = (parsed := parse_text(text)).graph.nodes
    assert (reparsed.op, reparsed.attrs) == ("attention", node.attrs)
    assert print_text(parsed) == text


BAD = (
    ("t d, s d, s e -> t e", {}, "not those of 3 operands and 2 results"),
    ("t d, s, s e -> t e, t", {}, "factors 's' are not the dims of f32[7,4]"),
    ("t d, d d, s e -> t e, t", {}, "factors 'd d' are not the dims"),
    ("t d, s e, s e -> t e, t", {}, "factor 'e' has sizes 4 and 6"),
    ("t d, s d, s e; t e, t", {}, "is not of the form"),
    ("t d, s d, u e -> t e, t", {}, "share no factor that queries and rows lack"),
    *(("t d, s d, s e -> t e, t", {"positions": ("s", name)}, "name a factor that the scores do not have") for name in "zde"),
    ("t d, s d, s e -> t e, t", {"positions": ("s", "s")}, "positions ['s', 's'] name a factor twice"),
    *(("t d, s d, s e -> t e, t", {"precision": words}, "none or two of DEFAULT, HIGH, HIGHEST") for words in (("HIGHEST",), ("HIGHEST", "FAST"))),
)  # fmt: skip


@pytest.mark.parametrize("factors, attrs, message", BAD)
def test_malformed_attention_is_refused(factors: str, attrs: dict[str, Any], message: str) -> None:
    good = node_of("t d, s d, s e -> t e, t", SIZES)
    node = replace(good, attrs={**good.attrs.given, "factors": factors, **attrs})
    assert any(message in fault.message and fault.code == "MG0104" for fault in verify_node(node))


def test_attention_regions_must_be_scalar_functions() -> None:
    good = node_of("t d, s d, s e -> t e, t", SIZES)
    wide = replace(good, regions=(good.regions[0], Graph("r", [Value(good.operands[0].type)], [], [])))
    assert "region 1 must take a float first, and return a float" in verify_node(wide)[0].message
    assert "has 1 regions instead of 2" in verify_node(replace(good, regions=good.regions[:1]))[0].message
