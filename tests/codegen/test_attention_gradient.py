"""Gradients of attention: the passes that write them without the scores, and kernels that compute these again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from bodies import Body, check, random_args
from test_attention import Form, Function, masked, repeated, scaled
from test_fuse import fused, launches, run

from meshgen.ir.graph import Graph, Module, Value
from meshgen.ops.evaluate.evaluator import evaluate

Softmax = Callable[[Body, Value, Value, Value, Value], Value]


def by_quotient(body: Body, e: Value, total: Value, p: Value, dp: Value) -> Value:
    """As differentiating `e / sum(e)` gives it."""
    del p
    square = body.op("multiply", total, total)
    scale = body.wide(body.op("divide", body.splat(1.0, square), square), e, (0, 1, 2))
    summed = body.reduce("add", body.op("multiply", body.op("multiply", dp, scale), e), 3)
    back = body.wide(body.op("negate", summed), e, (0, 1, 2))
    return body.op("multiply", body.op("add", body.op("divide", dp, body.wide(total, e, (0, 1, 2))), back), e)


def by_probabilities(body: Body, e: Value, total: Value, p: Value, dp: Value) -> Value:
    """As `jax.nn.softmax` says it: p * (dp - sum(p * dp))."""
    del e, total
    summed = body.reduce("add", body.op("multiply", p, dp), 3)
    return body.op("multiply", p, body.op("subtract", dp, body.wide(summed, p, (0, 1, 2))))


def training(form: Form, mask: Function | None, softmax: Softmax = by_quotient) -> Graph:
    """Result and gradients of attention of queries [b, t, h, d], and keys and values [b, n, g, d], scaled by 1/8."""
    b, t, h, d, n, g = form.sizes
    body = Body(
        f"{form.dtype}[{b},{t},{h},{d}]", *[f"{form.dtype}[{b},{n},{g},{d}]"] * 2, f"{form.dtype}[{b},{t},{h},{d}]"
    )
    q, k, v, do = body.inputs
    wide_k, wide_v = (repeated(body, x, h) for x in (k, v))
    scores = body.dot(q, wide_k, ((3,), (3,)), ((0, 2), (0, 2)), "f32")
    s = scaled(body, scores) if mask is None else mask(body, scores)
    test = None if mask is None else next(x for x in body.graph.nodes if x.op == "select").operands[0]
    e = body.op("exponential", body.op("subtract", s, body.wide(body.reduce("maximum", s, 3), s, (0, 1, 2))))
    total = body.reduce("add", e, 3)
    p = body.op("divide", e, body.wide(total, e, (0, 1, 2)))
    narrow_p = converted(body, p, form.dtype)
    out = body.dot(wide_v, narrow_p, ((1,), (3,)), ((0, 2), (0, 1)))
    turned = body.op("transpose", do, perm=(0, 2, 3, 1))
    dp = converted(body, body.dot(turned, wide_v, ((2,), (3,)), ((0, 1), (0, 2))), "f32")
    dv = body.dot(turned, narrow_p, ((3,), (2,)), ((0, 1), (0, 1)))
    ds = softmax(body, e, total, p, dp)
    if test is not None:
        ds = body.op("select", test, ds, body.splat(0.0, ds))
    ds = body.op("multiply", ds, body.splat(0.125, ds))
    dk = body.dot(ds, converted(body, q, "f32"), ((2,), (1,)), ((0, 1), (0, 2)))
    dq = body.dot(ds, converted(body, wide_k, "f32"), ((3,), (1,)), ((0, 1), (0, 2)))
    return body.done(out, *(converted(body, x, form.dtype) for x in (dq, dk, dv)))


def converted(body: Body, x: Value, dtype: str) -> Value:
    sizes = ",".join(map(str, x.type.sizes))
    return x if x.type.dtype == dtype else body.op("convert", x, to=f"{dtype}[{sizes}]")


def gradients(module: Module) -> list[Graph]:
    """The kernels that are gradients, after the one that is the attention."""
    names = [n for n in launches(module) if sum(x.op == "dot_general" for x in module.kernels[n].nodes) > 1]
    assert names[0] == "attention"
    return [module.kernels[name] for name in names[1:]]


def checked(graph: Graph, kernels: Sequence[int] = (0, 1)) -> list[Graph]:
    """The gradients of a program, after comparing it, and each of the kernels as PTX, with the reference."""
    module, args = fused(graph), random_args(graph)
    for got, want in zip(run(module, args), evaluate(graph, args), strict=True):
        unit = 2.0**-8 if graph.inputs[0].type.dtype == "bf16" else 2.0**-21
        scale = float(np.abs(np.asarray(want, np.float64)).max())
        np.testing.assert_allclose(
            np.asarray(got, np.float64), np.asarray(want, np.float64), rtol=0, atol=4 * unit * scale
        )
    found = gradients(module)
    assert len(found) == 2, launches(module)
    b, t, h, d = graph.inputs[0].type.sizes
    rows = b * h * max(t, graph.inputs[1].type.sizes[1])
    assert all(v.type.size <= rows * d for node in module.graph.nodes for v in node.results), (
        "nothing is as large as the scores"
    )
    for number in kernels:
        values = args_of(module, found[number], args)
        assert check(found[number], args=values, ulps=16, length=64).template == "attention-gradient"
    return found


def args_of(module: Module, body: Graph, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What a kernel gets when the program runs."""
    node = next(n for n in module.graph.nodes if n.op == "kernel" and module.kernels[n.attrs.kernel] is body)
    before = Graph("", module.graph.inputs, module.graph.nodes[: module.graph.nodes.index(node)], list(node.operands))
    from dataclasses import replace

    return [np.asarray(x) for x in run(replace(module, graph=before), args)]


CAUSAL = masked(-1e30, ("GE", 0))


@pytest.mark.parametrize(
    "form, mask, softmax",
    [
        pytest.param(Form((1, 70, 2, 32, 70, 1)), None, by_quotient, id="plain, grouped heads"),
        pytest.param(Form((2, 100, 2, 64, 100, 2)), CAUSAL, by_quotient, id="causal"),
        pytest.param(
            Form((1, 130, 1, 32, 130, 1)), masked(-1e30, ("GE", 0), ("LT", 40)), by_probabilities, id="window"
        ),
        pytest.param(Form((1, 40, 2, 48, 90, 2)), None, by_probabilities, id="other length"),
        pytest.param(Form((1, 40, 2, 16, 50, 2), dtype="f32"), CAUSAL, by_quotient, id="f32"),
    ],
)
def test_scores_are_computed_again(form: Form, mask: Function | None, softmax: Softmax) -> None:
    checked(training(form, mask, softmax))
