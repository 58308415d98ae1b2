"""Tests of attention gradients: kernels that recompute the scores instead of reading them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from bodies import Body, check, random_args
from test_attention import Form, Function, masked, repeated, scaled
from test_fuse import fused, launches, run

from meshgen.codegen.roofline.kernel_time import kernel_seconds
from meshgen.codegen.triton_source import kernel_source
from meshgen.ir.graph import Graph, Module, Value
from meshgen.ops.evaluate.evaluator import evaluate

Softmax = Callable[[Body, Value, Value, Value, Value], Value]


def by_quotient(body: Body, e: Value, total: Value, p: Value, dp: Value) -> Value:
    """Return the softmax gradient in the form that differentiating `e / sum(e)` yields."""
    del p
    square = body.op("multiply", total, total)
    scale = body.wide(body.op("divide", body.splat(1.0, square), square), e, (0, 1, 2))
    summed = body.reduce("add", body.op("multiply", body.op("multiply", dp, scale), e), 3)
    back = body.wide(body.op("negate", summed), e, (0, 1, 2))
    return body.op("multiply", body.op("add", body.op("divide", dp, body.wide(total, e, (0, 1, 2))), back), e)


def by_probabilities(body: Body, e: Value, total: Value, p: Value, dp: Value) -> Value:
    """Return the softmax gradient in the form of `jax.nn.softmax`: p * (dp - sum(p * dp))."""
    del e, total
    summed = body.reduce("add", body.op("multiply", p, dp), 3)
    return body.op("multiply", p, body.op("subtract", dp, body.wide(summed, p, (0, 1, 2))))


@dataclass(frozen=True)
class Scores:
    """A function of the scaled scores before the softmax, with its derivative.

    Attributes:
        more: the types of further operands that both may read.
    """

    function: Function = lambda body, scores: scores
    derivative: Callable[[Body, Value, Value], Value] = lambda body, scores, ds: ds
    more: tuple[str, ...] = ()
    drops: bool = False  # the last operand is a dropout mask that keeps half of the probabilities


def chosen(mask: Function) -> Scores:
    """Return scores masked by a mask of `test_attention.masked`."""

    def derivative(body: Body, scores: Value, ds: Value) -> Value:
        del scores
        test = next(x for x in body.graph.nodes if x.op == "select").operands[0]
        return body.op("select", test, ds, body.splat(0.0, ds))

    return Scores(mask, derivative)


def capped(body: Body, scores: Value) -> Value:
    return body.op("multiply", body.op("tanh", scores), body.splat(5.0, scores))


def capped_derivative(body: Body, scores: Value, ds: Value) -> Value:
    """Return the derivative of the soft cap as JAX writes that of y = tanh(x): d (1 - y) + d (1 - y) y."""
    y = body.op("tanh", scores)
    term = body.op("multiply", body.op("multiply", ds, body.splat(5.0, ds)), body.op("subtract", body.splat(1.0, y), y))
    return body.op("add", term, body.op("multiply", term, y))


def with_bias(body: Body, scores: Value) -> Value:
    return body.op("add", scores, converted(body, body.inputs[4], "f32"))


def causal_bias(body: Body, scores: Value) -> Value:
    """Add a bias of 0 or -1e9 by the order of positions, computed from an f32 mask as some frontends write it."""
    b, h, t, n = scores.type.sizes
    rows, keys = (body.op("iota", to=f"i32[{t},{n}]", dim=d) for d in (0, 1))
    test = body.op("compare", rows, keys, to=f"i1[{t},{n}]", direction="GE", compare_type="SIGNED")
    mask = body.op("convert", test, to=f"f32[{t},{n}]")
    zero = body.splat(0.0, mask)
    test = body.op("compare", mask, zero, to=f"i1[{t},{n}]", direction="GT", compare_type="FLOAT")
    bias = body.op("select", test, zero, body.splat(-1e9, mask))
    return body.op("add", scores, body.op("broadcast_in_dim", bias, to=f"f32[{b},{h},{t},{n}]", dims=(2, 3)))


def training(form: Form, of: Scores = Scores(), softmax: Softmax = by_quotient) -> Graph:
    """Return the result and gradients of attention of q [b, t, h, d] with k and v [b, n, g, d], scaled by 1/8."""
    b, t, h, d, n, g = form.sizes
    keys, queries = f"{form.dtype}[{b},{n},{g},{d}]", f"{form.dtype}[{b},{t},{h},{d}]"
    body = Body(queries, keys, keys, queries, *of.more)
    q, k, v, do = body.inputs[:4]
    wide_k, wide_v = (repeated(body, x, h) for x in (k, v))
    scores = scaled(body, body.dot(q, wide_k, ((3,), (3,)), ((0, 2), (0, 2)), "f32"))
    s = of.function(body, scores)
    e = body.op("exponential", body.op("subtract", s, body.wide(body.reduce("maximum", s, 3), s, (0, 1, 2))))
    total = body.reduce("add", e, 3)
    p = body.op("divide", e, body.wide(total, e, (0, 1, 2)))
    narrow_p = converted(body, kept(body, p) if of.drops else p, form.dtype)
    out = body.dot(wide_v, narrow_p, ((1,), (3,)), ((0, 2), (0, 1)))
    transposed_do = body.op("transpose", do, perm=(0, 2, 3, 1))
    dp = converted(body, body.dot(transposed_do, wide_v, ((2,), (3,)), ((0, 1), (0, 2))), "f32")
    dv = body.dot(transposed_do, narrow_p, ((3,), (2,)), ((0, 1), (0, 1)))
    ds = of.derivative(body, scores, softmax(body, e, total, p, kept(body, dp) if of.drops else dp))
    ds = body.op("multiply", ds, body.splat(0.125, ds))
    dk = body.dot(ds, converted(body, q, "f32"), ((2,), (1,)), ((0, 1), (0, 2)))
    dq = body.dot(ds, converted(body, wide_k, "f32"), ((3,), (1,)), ((0, 1), (0, 2)))
    return body.done(out, *(converted(body, x, form.dtype) for x in (dq, dk, dv)))


def kept(body: Body, x: Value) -> Value:
    """Apply dropout to half of the elements."""
    return body.op("select", body.inputs[-1], body.op("multiply", x, body.splat(2.0, x)), body.splat(0.0, x))


def converted(body: Body, x: Value, dtype: str) -> Value:
    sizes = ",".join(map(str, x.type.sizes))
    return x if x.type.dtype == dtype else body.op("convert", x, to=f"{dtype}[{sizes}]")


def gradients(module: Module) -> list[Graph]:
    """Return the gradient kernels, which follow the attention kernel."""
    names = [name for name in launches(module) if name.startswith("attention")]
    assert names[0] == "attention"
    return [module.kernels[name] for name in names[1:]]


def checked(graph: Graph, kernels: Sequence[int] = (0, 1)) -> list[Graph]:
    """Return the gradient kernels after comparing the program, and each of `kernels` as PTX, with the reference."""
    module, args = fused(graph), random_args(graph)
    for got, want in zip(run(module, args), evaluate(graph, args), strict=True):
        unit = 2.0**-8 if graph.inputs[0].type.dtype == "bf16" else 2.0**-21
        scale = float(np.abs(np.asarray(want, np.float64)).max())
        np.testing.assert_allclose(
            np.asarray(got, np.float64), np.asarray(want, np.float64), rtol=0, atol=4 * unit * scale
        )
    gradient_bodies = gradients(module)
    assert len(gradient_bodies) == 2, launches(module)
    b, t, h, d = graph.inputs[0].type.sizes
    rows = b * h * max(t, graph.inputs[1].type.sizes[1])
    assert all(v.type.size <= rows * d for node in module.graph.nodes for v in node.results), (
        "no stored value has the size of the scores"
    )
    for index in kernels:
        values = args_of(module, gradient_bodies[index], args)
        assert check(gradient_bodies[index], args=values, ulps=16, length=64).template == "attention-gradient"
    return gradient_bodies


def args_of(module: Module, body: Graph, args: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Return the arguments that a kernel gets when the program runs."""
    node = next(n for n in module.graph.nodes if n.op == "kernel" and module.kernels[n.attrs.kernel] is body)
    before = Graph("", module.graph.inputs, module.graph.nodes[: module.graph.nodes.index(node)], list(node.operands))
    return [np.asarray(x) for x in run(replace(module, graph=before), args)]


CAUSAL = chosen(masked(-1e30, ("GE", 0)))
WINDOW = chosen(masked(-1e30, ("GE", 0), ("LT", 40)))
SMALL = (1, 70, 2, 32, 70, 1)


@pytest.mark.parametrize(
    "form, scores, softmax",
    [
        pytest.param(Form(SMALL), Scores(), by_quotient, id="plain, grouped heads"),
        pytest.param(Form((1, 130, 1, 32, 130, 1)), WINDOW, by_probabilities, id="window"),
        pytest.param(Form((1, 60, 2, 48, 90, 2)), Scores(), by_probabilities, id="other length"),
        pytest.param(Form((1, 40, 2, 16, 50, 2), dtype="f32"), CAUSAL, by_quotient, id="f32"),
        pytest.param(Form(SMALL), Scores(capped, capped_derivative), by_quotient, id="soft cap"),
        pytest.param(Form(SMALL), Scores(with_bias, more=("bf16[1,2,70,70]",)), by_quotient, id="bias"),
        pytest.param(Form((1, 140, 1, 32, 140, 1)), Scores(causal_bias), by_probabilities, id="bias by index"),
        pytest.param(Form(SMALL), Scores(more=("i1[1,2,70,70]",), drops=True), by_quotient, id="dropout"),
        pytest.param(
            Form((1, 140, 1, 32, 140, 1)), chosen(masked(-1e30, ("GE", 90))), by_quotient, id="rows without keys"
        ),
        pytest.param(Form((1, 140, 1, 32, 140, 1)), chosen(masked(-1e30, ("LE", 90))), by_quotient, id="keys after"),
    ],
)
@pytest.mark.usefixtures("small_blocks")
def test_gradients_recompute_scores(form: Form, scores: Scores, softmax: Softmax) -> None:
    checked(training(form, scores, softmax))


def test_gradients_recompute_scores_in_production_blocks() -> None:
    checked(training(Form((2, 100, 2, 64, 100, 2)), CAUSAL))


def test_index_masks_bound_the_loops_of_both_gradient_kernels() -> None:
    """Check that the key loop skips masked blocks, the row loop too, and that unmasked blocks compare no indices."""
    for scores in (CAUSAL, Scores(causal_bias)):
        module = fused(training(Form((1, 512, 1, 64, 512, 1)), scores))
        texts = [kernel_source("g", body, module.mesh).text for body in gradients(module)]
        (by_rows,) = (text for text in texts if "range(begin, full_begin)" in text)
        (by_keys,) = (text for text in texts if "range(full_end, end)" in text)
        for text in (by_rows, by_keys):
            main = text.split("for block in range(full_begin, full_end):")[1].split("for block")[0].split("tl.store")[0]
            assert "tl.dot" in main and "tl.where" not in main


@pytest.mark.parametrize("which", ["probabilities", "gradient of a bias"])
def test_gradients_with_other_users_of_scores_are_not_fused(which: str) -> None:
    """Check programs in which another user needs all scores, so that all kernels read them from memory."""
    graph = training(Form((2, 40, 2, 16, 40, 2), dtype="f32"))
    dots = [node for node in graph.nodes if node.op == "dot_general"]
    dv, dq = dots[3], dots[5]
    if which == "probabilities":
        graph.outputs.append(dv.operands[1])
    else:
        body = Body()
        body.graph = graph
        graph.outputs.append(body.reduce("add", dq.operands[0], 0))
    module, args = fused(graph), random_args(graph)
    assert "attention_gradient" not in launches(module)
    for got, want in zip(run(module, args), evaluate(graph, args), strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=0, atol=1e-4)


def test_gradient_cost_excludes_masked_blocks() -> None:
    form = (1, 4096, 8, 128, 4096, 8)
    seconds = {}
    for name, scores in (("plain", Scores()), ("causal", CAUSAL)):
        module = fused(training(Form(form), scores))
        bodies = [body for body in module.kernels.values() if body.name.startswith("attention")]
        seconds[name] = sum(kernel_seconds(body, "sm_90") for body in bodies)
    assert 0.5 < seconds["causal"] / seconds["plain"] < 0.56
