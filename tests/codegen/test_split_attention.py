"""Tests of split-k attention of few rows over many keys: results are unchanged, and parts are computed in parallel."""

from __future__ import annotations

import numpy as np
import pytest
from bodies import check, random_args
from test_attention import Form, Function, attention, masked, scaled
from test_fuse import fused, launches, run

from meshgen.codegen.passes import split_reduction
from meshgen.ir.graph import Graph, Module
from meshgen.ops.classes import DOTS
from meshgen.ops.composites import decomposed
from meshgen.ops.dot_dims import gemm_extents
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.factors import Factors

pytestmark = pytest.mark.usefixtures("small_blocks")
CACHE = (1, 1, 4, 64, 1024, 2)


def parts(module: Module) -> list[int]:
    """Return the numbers of parts into which the attention kernel splits the keys."""
    (node,) = (node for node in module.kernels["attention"].nodes if node.op == "attention")
    factors = Factors.of(node)
    return [factors.sizes[name] for name in factors.results[1] if name.endswith("_part")]


def agrees(graph: Graph) -> Module:
    """Return the fused program after checking its results and that each kernel computes its body."""
    module = fused(graph)
    args = random_args(graph)
    for got, want in zip(run(module, args), evaluate(graph, list(args)), strict=True):
        wide = np.asarray(want, np.float64)
        np.testing.assert_allclose(np.asarray(got, np.float64), wide, rtol=2.0**-7, atol=2.0**-7)
    for body in module.kernels.values():
        check(body, ulps=32, length=1024)
    return module


@pytest.fixture
def time_proportional_to_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kernel time equal the longest contracted size, so that splitting is profitable at small sizes."""

    def seconds(body: Graph, target: str) -> float:
        nodes = (
            inner for node in body.nodes for inner in (decomposed(node).nodes if node.op == "attention" else [node])
        )
        return float(max((gemm_extents(node)[-1] for node in nodes if node.op in DOTS), default=0))

    monkeypatch.setattr(split_reduction, "kernel_seconds", seconds)


@pytest.mark.usefixtures("time_proportional_to_keys")
@pytest.mark.parametrize(
    "form, function",
    [
        pytest.param(Form(CACHE), scaled, id="decoding"),
        pytest.param(Form(CACHE, is_swapped=True), scaled, id="values first"),
        pytest.param(Form(CACHE, dtype="f32", divides_late=True), scaled, id="division last"),
        pytest.param(Form(CACHE, is_wide=True), scaled, id="keys in f32"),
        pytest.param(Form((2, 3, 2, 32, 1024, 1)), masked(-np.inf, ("GE", -100)), id="parts without keys"),
    ],
)
def test_attention_keys_are_split(form: Form, function: Function) -> None:
    body, out = attention(form, function)
    module = agrees(body.done(out))
    assert launches(module)[0] == "attention" and parts(module) == [16]


@pytest.mark.parametrize(("keys", "is_resizing_bitcast"), [(512, False), (16384, True)])
def test_attention_keys_are_split_only_if_faster(keys: int, is_resizing_bitcast: bool) -> None:
    body, out = attention(Form((1, 1, 4, 64, keys, 2)), scaled)
    assert bool(parts(fused(body.done(out)))) == is_resizing_bitcast


@pytest.mark.usefixtures("time_proportional_to_keys")
def test_split_attention_keeps_nan_of_fully_masked_rows() -> None:
    body, out = attention(Form((1, 3, 2, 64, 1024, 2)), masked(-np.inf, ("GE", 2)))
    module = fused(body.done(out))
    assert parts(module)
    (result,) = run(module, random_args(body.graph))
    (expected,) = evaluate(body.graph, random_args(body.graph))
    assert np.isnan(np.asarray(result, np.float64)[:, :2]).all()
    np.testing.assert_array_equal(np.isnan(np.asarray(result, np.float64)), np.isnan(np.asarray(expected, np.float64)))


@pytest.mark.parametrize("sizes", [(1, 1, 4, 64, 128, 2), (32, 1, 8, 64, 1024, 8), (1, 1, 4, 64, 1021, 2)])
def test_attention_of_short_caches_or_many_rows_is_not_split(sizes: tuple[int, int, int, int, int, int]) -> None:
    body, out = attention(Form(sizes), scaled)
    assert launches(fused(body.done(out))) == ["attention"]


def test_attention_with_returned_probabilities_is_not_split() -> None:
    body, out = attention(Form(CACHE), scaled)
    probabilities = next(n for n in body.graph.nodes if n.op == "divide").result
    assert "attention" not in launches(fused(body.done(out, probabilities)))
