"""Tests of the `form-attention` pass: it recognizes attention and its gradients in many forms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from meshgen import api
from meshgen.codegen.attention.form_attention import formed
from meshgen.ir.graph import Graph
from meshgen.ir.regions import all_nodes
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.tolerance.bounds import error_bound
from meshgen.testing.oracle import check

jax = pytest.importorskip("jax")
jnp, spec = jax.numpy, jax.sharding.PartitionSpec
B, T, H, D = 2, 7, 4, 8
Function = Callable[..., Any]
_ONE, _THREE = {"attention": 1}, {"attention": 1, "attention_gradient_queries": 1, "attention_gradient_keys": 1}


def shape(*sizes: int, dtype: str = "float32") -> Any:
    return jax.ShapeDtypeStruct(sizes, dtype)


ROW = shape(B, T, H, D)
SHARED = shape(B, T, H // 2, D)


def attend(change: Function, *, dtype: str = "float32", scale: float = 0.3) -> Function:
    """Return a function that computes attention with `change` applied to the scores [batch, head, row, key]."""

    def function(q: Any, k: Any, v: Any, *more: Any) -> Any:
        scores = jnp.einsum("bthd,bshd->bhts", q, k, preferred_element_type=dtype) * jnp.asarray(scale, dtype)
        shares = jax.nn.softmax(change(scores, *more), -1).astype(v.dtype)
        return jnp.einsum("bhts,bshd->bthd", shares, v)

    return function


def causal() -> Any:
    return jnp.tril(jnp.ones((T, T), bool))


def repeated(q: Any, k: Any, v: Any) -> Any:
    return attend(lambda s: jnp.where(causal(), s, -1e30))(q, *(jnp.repeat(x, 2, 2) for x in (k, v)))


def grouped(q: Any, k: Any, v: Any) -> Any:
    """Attend with heads that share keys; the scores are reshaped to one dim of heads for the mask."""
    scores = jnp.einsum("btkgd,bskd->bkgts", q.reshape(B, T, H // 2, 2, D), k).reshape(B, H, T, T)
    shares = jax.nn.softmax(jnp.where(causal(), jnp.tanh(scores / 5) * 5, -2e38), -1)
    return jnp.einsum("bkgts,bskd->btkgd", shares.reshape(B, H // 2, 2, T, T), v).reshape(B, T, H, D)


def by_hand(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.where(causal(), jnp.einsum("bthd,bshd->bhts", q, k), -1e9)
    powers = jnp.exp(scores - jax.lax.stop_gradient(scores.max(-1, keepdims=True)))
    return jnp.einsum("bhts,bshd->bthd", powers / powers.sum(-1, keepdims=True), v)


def dropped(q: Any, k: Any, v: Any, kept: Any) -> Any:
    shares = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k), -1)
    return jnp.einsum("bhts,bshd->bthd", jnp.where(kept, shares / 0.9, 0), v)


def by_quotient(scores: Any, axis: int) -> Any:
    powers = jnp.exp(scores - jax.lax.stop_gradient(scores.max(axis, keepdims=True)))
    return powers / powers.sum(axis, keepdims=True)


def distances() -> Any:
    return jnp.arange(T)[None, :] - jnp.arange(T)[:, None]


# name -> (function of the scores, shapes of its operands besides queries, keys and values)
FORMS: dict[str, tuple[Any, ...]] = {
    "plain": (attend(lambda s: s),),
    "where": (attend(lambda s: jnp.where(causal(), s, -jnp.inf)),),
    "added mask": (attend(lambda s: s + jnp.where(causal(), 0, -jnp.inf)),),
    "subtracted mask": (attend(lambda s: s - 1e9 * (1 - causal())),),
    "inverted mask": (attend(lambda s: jnp.where(~causal(), jnp.finfo(s.dtype).min, s)),),
    "scale after mask": (attend(lambda s: jnp.where(causal(), s, -1e30) * 0.5),),
    "soft cap": (attend(lambda s: jnp.tanh(s / 5) * 5),),
    "narrow scores": (attend(lambda s: jnp.where(causal(), s, -1e9), dtype="bfloat16"),),
    "documents": (attend(lambda s, d: jnp.where(causal(), jnp.where(d[:, None, :, None] == d[:, None, None], s, -1e30), -1e30)), shape(B, T, dtype="int32")),
    "lengths": (attend(lambda s, n: jnp.where(jnp.arange(T) < n[:, None, None, None], s, -1e30)), shape(B, dtype="int32")),
    "mask of data": (attend(lambda s, m: jnp.where(m[:, None], s, -1e30)), shape(B, T, T, dtype="bool")),
    "slopes": (attend(lambda s: s + (2.0 ** -jnp.arange(1.0, H + 1))[:, None, None] * distances()),),
    "relative bias": (attend(lambda s, b: s + b[jnp.clip(distances(), -3, 3) + 3].transpose(2, 0, 1)), shape(7, H)),
    "repeated heads": (repeated,),
    "grouped heads": (grouped,),
    "library": (lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),),
    "library window": (lambda q, k, v: jax.nn.dot_product_attention(q, k, v, local_window_size=(2, 0)),),
    "by hand": (by_hand,),
    "dropout": (dropped, shape(B, H, T, T, dtype="bool")),
}  # fmt: skip
_OF_SHARED = ("repeated heads", "grouped heads", "library")


def program(name: str, *, gradients: bool) -> tuple[Function, list[Any]]:
    function, *more = FORMS[name]
    kinds = [ROW, *[SHARED if name in _OF_SHARED else ROW] * 2, *more]
    if not gradients:
        return function, kinds

    def with_gradients(do: Any, q: Any, k: Any, v: Any, *more: Any) -> Any:
        out, back = jax.vjp(lambda q, k, v: function(q, k, v, *more), q, k, v)
        return out, *back(do)

    return with_gradients, [ROW, *kinds]


def entered(function: Function, kinds: list[Any]) -> Graph:
    return api.read(jax.jit(function), {"x": 1}, args=tuple(kinds))[0].graph


def arguments(graph: Graph) -> list[Any]:
    random = np.random.default_rng(0)
    args = []
    for value in graph.inputs:
        kind = value.type
        is_float = kind.dtype == "f32"
        array = random.standard_normal(kind.sizes) if is_float else random.integers(0, 2, kind.sizes)
        args.append((array + (0 if is_float or kind.dtype == "i1" else 1)).astype(kind.numpy_dtype))
    return args


def assert_formed(graph: Graph, ops: dict[str, int]) -> None:
    after = formed(graph)
    counts = Counter(node.op for node in after.nodes)
    assert {op: counts[op] for op in _THREE if counts[op]} == ops and not counts["exponential"]
    args = arguments(graph)
    expected, results, bounds = evaluate(graph, args), evaluate(after, args), error_bound(graph, args)
    for want, got, bound in zip(expected, results, bounds, strict=True):
        assert np.all(np.abs(want.astype(np.float64) - got) <= bound)


@pytest.mark.parametrize("name", FORMS)
def test_attention_is_formed_for_every_mask_and_layout(name: str) -> None:
    assert_formed(entered(*program(name, gradients=False)), _ONE)


@pytest.mark.parametrize("name", FORMS)
def test_gradients_are_formed_with_attention(name: str) -> None:
    assert_formed(entered(*program(name, gradients=True)), _THREE)


@pytest.mark.parametrize("softmax", [jax.nn.softmax, by_quotient], ids=["softmax", "quotient"])
def test_bias_gradient_keeps_a_single_sum_over_keys(softmax: Function) -> None:
    def function(q: Any, k: Any, v: Any, b: Any) -> Any:
        scores = jnp.where(causal(), jnp.einsum("bthd,bshd->bhts", q, k) * 0.3 + b, -1e9)
        return jnp.einsum("bhts,bshd->bthd", softmax(scores, -1), v)

    def with_gradients(do: Any, *args: Any) -> Any:
        out, back = jax.vjp(function, *args)
        return out, *back(do)

    graph = entered(with_gradients, [ROW, ROW, ROW, ROW, shape(H, T, T)])
    after = formed(graph)
    over_keys = [sum(n.op == "reduce" and n.attrs.dims == (3,) and n.attrs.kind == "add" and n.operands[0].type.sizes[-1] == T for n in g.nodes) for g in (graph, after)]  # fmt: skip
    assert over_keys == [2, 1]
    args = arguments(graph)
    for want, got, bound in zip(evaluate(graph, args), evaluate(after, args), error_bound(graph, args), strict=True):
        assert np.all(np.abs(want.astype(np.float64) - got) <= bound)


SPLITS = {
    "rows": {"x": 2, "y": 2} | {"specs": (None, ("x", "y"))},
    "rows and keys": {"x": 3, "y": 2, "specs": (None, "x", "y")},
    "batch and heads": {"x": 2, "y": 4, "specs": ("x", None, "y")},
}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", ["documents", "soft cap", "repeated heads"])
def test_sharded_attention_gradients_match_unsharded(name: str, split: str) -> None:
    function, kinds = program(name, gradients=True)
    sizes = dict(SPLITS[split])
    dims: Any = sizes.pop("specs")
    specs = [spec(*dims)] * 4 + [spec()] * (len(kinds) - 4)
    stages = api.plan(jax.jit(function), sizes, args=tuple(kinds), in_specs=specs, target="cpu").stages
    assert Counter(node.op for node in stages["propagate"].graph.nodes)["attention_gradient_keys"] == 1
    result = check(stages["import"], pipeline=lambda _: stages["fuse"])
    assert result.ok, result.faults


def assert_stays(graph: Graph) -> None:
    assert formed(graph) is graph


def scores_returned(q: Any, k: Any, v: Any) -> Any:
    shares = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k), -1)
    return jnp.einsum("bhts,bshd->bthd", shares, v), shares


def not_normalized(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bthd,bshd->bhts", q, k)
    return jnp.einsum("bhts,bshd->bthd", jnp.exp(scores - scores.max(-1, keepdims=True)), v)


def other_divisor(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bthd,bshd->bhts", q, k)
    powers = jnp.exp(scores - scores.max(-1, keepdims=True))
    return jnp.einsum("bhts,bshd->bthd", powers / (1 + powers.sum(-1, keepdims=True)), v)


@pytest.mark.parametrize("function", [scores_returned, not_normalized, other_divisor])
def test_program_that_differs_from_attention_is_not_formed(function: Function) -> None:
    assert_stays(entered(function, [ROW] * 3))


def wrong_gradient(do: Any, q: Any, k: Any, v: Any) -> Any:
    """Return a gradient that subtracts the maximum over keys instead of the sum."""
    shares = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k), -1)
    dp = jnp.einsum("bthd,bshd->bhts", do, v)
    return jnp.einsum("bhts,bshd->bthd", shares, v), jnp.einsum("bhts,bshd->bthd", shares * (dp - dp.max(-1, keepdims=True)), k)  # fmt: skip


def test_wrong_attention_gradient_is_not_formed() -> None:
    assert_stays(entered(wrong_gradient, [ROW] * 4))


def test_loop_carried_mask_becomes_function_of_positions() -> None:
    def layers(q: Any, k: Any, v: Any) -> Any:
        mask = causal()  # JAX computes the mask before the loop.
        layer = attend(lambda s: jnp.where(mask, s, -1e30))
        return jax.lax.scan(lambda x, _: (layer(x, k, v), None), q, None, length=3)[0]

    module = api.lower(jax.jit(layers), {"x": 1}, args=(ROW,) * 3, stage="propagate", target="cuda:sm_90")
    (node,) = [node for node in all_nodes(module.graph) if node.op == "attention"]
    assert len(node.operands) == 3
    assert len(node.attrs.positions) == 2
