"""Tests of attention as one kernel: which programs match, and that the kernel equals two GEMMs with a softmax between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from bodies import Body, check, launch, random_args
from test_fuse import fused, launches, run

from meshgen.codegen.triton_source import kernel_source
from meshgen.ir.graph import Graph, Value
from meshgen.ops.evaluate.evaluator import evaluate

pytestmark = pytest.mark.usefixtures("small_blocks")
Function = Callable[[Body, Value], Value]


@dataclass(frozen=True)
class Form:
    """A way to write attention of queries [b, t, h, d] with keys and values [b, l, g, d], g <= h heads."""

    sizes: tuple[int, int, int, int, int, int]  # b, t, h, d, l, g
    dtype: str = "bf16"
    softmax_dtype: str = "f32"
    divides_late: bool = False
    is_swapped: bool = False  # the second matmul is V^T P^T, with the values as its left operand
    is_wide: bool = False  # queries and keys are converted to the softmax dtype first


def attention(form: Form, function: Function, *more: str) -> tuple[Body, Value]:
    """Return attention with `function` applied to the scores before the softmax.

    `more` are the types of further operands.
    """
    b, t, h, d, n, g = form.sizes
    body = Body(f"{form.dtype}[{b},{t},{h},{d}]", *[f"{form.dtype}[{b},{n},{g},{d}]"] * 2, *more)
    q, k, v = body.inputs[:3]
    k, v = (repeated(body, x, h) for x in (k, v))
    if form.is_wide:
        q, k = (body.op("convert", x, to=str(replace(x.type, dtype=form.softmax_dtype))) for x in (q, k))
    scores = body.dot(q, k, ((3,), (3,)), ((0, 2), (0, 2)), form.softmax_dtype)
    p, total = exponentials(body, function(body, scores))
    if not form.divides_late:
        p = body.op("divide", p, body.wide(total, p, (0, 1, 2)))
    if form.softmax_dtype != form.dtype:
        p = body.op("convert", p, to=f"{form.dtype}[{b},{h},{t},{n}]")
    if form.is_swapped:
        out = body.op("transpose", body.dot(v, p, ((1,), (3,)), ((0, 2), (0, 1))), perm=(0, 3, 1, 2))
    else:
        out = body.op("transpose", body.dot(p, v, ((3,), (1,)), ((0, 1), (0, 2))), perm=(0, 2, 1, 3))
    if form.divides_late:
        out = body.op("divide", out, body.wide(body.op("transpose", total, perm=(0, 2, 1)), out, (0, 1, 2)))
    return body, out


def repeated(body: Body, x: Value, heads: int) -> Value:
    """Repeat each head of keys or values for the query heads that share it."""
    b, n, g, d = x.type.sizes
    if g == heads:
        return x
    wide = body.op("broadcast_in_dim", x, to=f"{x.type.dtype}[{b},{n},{g},{heads // g},{d}]", dims=(0, 1, 2, 4))
    return body.op("reshape", wide, to=f"{x.type.dtype}[{b},{n},{heads},{d}]")


def exponentials(body: Body, scores: Value) -> tuple[Value, Value]:
    """Return the exponentials relative to the row's maximum, and their sum."""
    high = body.reduce("maximum", scores, 3)
    p = body.op("exponential", body.op("subtract", scores, body.wide(high, scores, (0, 1, 2))))
    return p, body.reduce("add", p, 3)


def scaled(body: Body, scores: Value) -> Value:
    return body.op("multiply", scores, body.splat(0.125, scores))


def masked(fill: float, *sides: tuple[str, int]) -> Function:
    """Return a function that masks scores with `fill`.

    The function keeps the score of row m and key n if `m - n` satisfies all comparisons in `sides`.
    """

    def function(body: Body, scores: Value) -> Value:
        b, h, t, n = scores.type.sizes
        rows, keys = (body.op("iota", to=f"i32[{t},{n}]", dim=d) for d in (0, 1))
        distance = body.op("subtract", rows, keys)
        tests = [
            body.op("compare", distance, body.splat(limit, distance), to=f"i1[{t},{n}]", direction=direction,
                    compare_type="SIGNED")
            for direction, limit in sides
        ]  # fmt: skip
        inside = tests[0] if len(tests) == 1 else body.op("and", *tests)
        wide = body.op("broadcast_in_dim", inside, to=f"i1[{b},{h},{t},{n}]", dims=(2, 3))
        value = scaled(body, scores)
        return body.op("select", wide, value, body.splat(fill, value))

    return function


def soft_capped(body: Body, scores: Value) -> Value:
    cap = body.splat(5.0, scores)
    return body.op("multiply", body.op("tanh", body.op("divide", scaled(body, scores), cap)), cap)


def with_operands(body: Body, scores: Value) -> Value:
    """Add a bias operand [1, h, t, l] and mask with a padding operand [b, l]."""
    bias, inside = body.inputs[3:]
    value = body.op("add", scaled(body, scores), body.op("convert", bias_wide(body, bias, scores), to=str(scores.type)))
    wide = body.op("broadcast_in_dim", inside, to=str(replace(scores.type, dtype="i1")), dims=(0, 3))
    return body.op("select", wide, value, body.splat(-3e38, value))


def bias_wide(body: Body, bias: Value, scores: Value) -> Value:
    b, h, t, n = scores.type.sizes
    flat = body.op("reshape", bias, to=f"{bias.type.dtype}[{h},{t},{n}]")
    return body.op("broadcast_in_dim", flat, to=f"{bias.type.dtype}[{b},{h},{t},{n}]", dims=(1, 2, 3))


UNITS = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-22}


def close(got: Any, want: Any, unit: float) -> None:
    """Check closeness in units of the input dtype: the kernel computes in f32 where the program rounds."""
    got, want = (np.asarray(x, np.float64) for x in (got, want))
    scale = np.nanmax(np.abs(want), initial=0)
    np.testing.assert_allclose(got, want, rtol=0, atol=4 * unit * scale)


def check_single_kernel(graph: Graph, args: Sequence[np.ndarray[Any, Any]] | None = None) -> Graph:
    """Return the program's single kernel after comparing the program and the kernel with the reference."""
    module = fused(graph)
    assert launches(module) == ["attention"]
    (body,) = module.kernels.values()
    inputs = random_args(graph) if args is None else list(args)
    for got, want in zip(run(module, inputs), evaluate(graph, list(inputs)), strict=True):
        close(got, want, UNITS[graph.inputs[0].type.dtype])
    (node,) = (n for n in module.graph.nodes if n.op == "kernel")
    source = check(body, args=[inputs[graph.inputs.index(v)] for v in node.operands], ulps=16, length=64)
    assert source.template == "attention"
    return body


CAUSAL, WINDOW = masked(-1e30, ("GE", 0)), masked(-1e30, ("GE", 0), ("LT", 40))
SMALL = (1, 70, 4, 32, 70, 2)


@pytest.mark.parametrize(
    "form, function",
    [
        pytest.param(Form(SMALL), scaled, id="plain"),
        pytest.param(Form((2, 150, 2, 64, 150, 2), is_swapped=True), CAUSAL, id="causal"),
        pytest.param(Form((1, 260, 1, 32, 260, 1)), WINDOW, id="window"),
        pytest.param(Form((1, 40, 2, 48, 200, 1), dtype="f16"), soft_capped, id="soft cap, other length"),
        pytest.param(Form((1, 40, 2, 16, 50, 1), dtype="f32"), CAUSAL, id="f32"),
        pytest.param(Form((3, 1, 4, 64, 130, 2)), scaled, id="one row"),
        pytest.param(Form((1, 33, 2, 32, 65, 2), softmax_dtype="bf16"), scaled, id="softmax in bf16"),
        pytest.param(Form(SMALL, dtype="f32", divides_late=True), scaled, id="division last"),
        pytest.param(Form((1, 70, 1, 136, 70, 1)), CAUSAL, id="long rows"),
        pytest.param(Form((1, 100, 1, 32, 100, 1)), masked(-np.inf, ("GE", 0)), id="infinite fill"),
        pytest.param(Form((1, 100, 1, 32, 100, 1)), masked(-1e30, ("LE", 0)), id="keys after the row"),
    ],
)
def test_attention_is_one_kernel(form: Form, function: Function) -> None:
    body, out = attention(form, function)
    check_single_kernel(body.done(out))


def test_attention_with_bias_and_padding_averages_fully_masked_rows() -> None:
    body, out = attention(Form((2, 20, 2, 32, 40, 2)), with_operands, "bf16[1,2,20,40]", "i1[2,40]")
    args = random_args(body.done(out))
    args[4][0] = False
    check_single_kernel(body.graph, args)


@pytest.mark.parametrize("fill", [-1e30, -3.3e38, -20.0])
def test_fully_masked_rows_average_all_values(fill: float) -> None:
    """Check a mask that hides all keys from the first 90 rows.

    The result of such a row is the average of all values, including the blocks that a causal loop would skip.
    """
    body, out = attention(Form((1, 140, 1, 32, 140, 1)), masked(fill, ("GE", 90)))
    kernel = check_single_kernel(body.done(out))
    args = random_args(kernel)
    (result,) = launch(kernel_source("attention", kernel, fused(body.graph).mesh), kernel, args)
    average = np.asarray(args[2], np.float64).mean(1)
    np.testing.assert_allclose(np.asarray(result, np.float64)[:90].max(0), average.ravel(), atol=0.02)


@pytest.mark.parametrize("base", ["scores", "products with 0", "an operand"])
def test_additive_mask_skips_blocks_only_if_added_to_scores(base: str) -> None:
    """Check a mask added to an operand of 2e9 instead of to the scores.

    Masked scores are then the highest, so no block may be skipped.
    """

    def function(body: Body, scores: Value) -> Value:
        select = masked(0.0, ("GE", 0))(body, scores)
        node = body.graph.index.producers[select]
        value, bias = node.operands[1], body.inputs[3]

        def broadcast(bias: Value) -> Value:
            return body.op("broadcast_in_dim", bias, to=str(value.type), dims=(0, 1, 2, 3))

        def zeros(like: Value) -> Value:
            return body.op("multiply", like, body.splat(0.0, like))

        added = {
            "scores": lambda: value,
            "products with 0": lambda: body.op("add", zeros(value), broadcast(zeros(bias))),
            "an operand": lambda: broadcast(bias),
        }[base]()
        low = body.op("add", added, body.splat(-1e9, value))
        return body.op("select", node.operands[0], value, low)

    body, out = attention(Form((1, 140, 1, 32, 140, 1)), function, "f32[1,1,140,140]")
    args = random_args(body.done(out))
    args[3][:] = 2e9
    kernel = check_single_kernel(body.graph, args)
    text = kernel_source("attention", kernel, fused(body.graph).mesh).text
    assert ("full_end" in text) == (base != "an operand")


def test_fully_masked_rows_are_nan_for_infinite_fill() -> None:
    body, out = attention(Form((1, 140, 1, 32, 140, 1)), masked(-np.inf, ("GE", 90)))
    kernel = check_single_kernel(body.done(out))
    (result,) = launch(kernel_source("attention", kernel, fused(body.graph).mesh), kernel, random_args(kernel))
    assert np.isnan(np.asarray(result, np.float64)[:90]).all()
    assert np.isfinite(np.asarray(result, np.float64)[90:]).all()


def test_index_masks_bound_the_key_loop() -> None:
    body, out = attention(Form((1, 260, 1, 32, 260, 1)), WINDOW)
    kernel = fused(body.done(out)).kernels["attention"]
    text = kernel_source("attention", kernel, fused(body.graph).mesh).text
    assert "for block in range(full_begin, full_end):" in text
    main = text[text.index("for block in range(full_begin, full_end):") :].split("for block", 2)[1]
    assert "tl.where(higher" in main and "mask=n" not in main and "select" not in main


def test_attention_kernel_also_writes_log_sum_exp() -> None:
    """Check that the kernel writes the log-sum-exp that a backward pass needs, and that the scores stay in registers."""
    b, t, h, d, n, g = 1, 40, 2, 32, 40, 2
    body = Body(f"f32[{b},{t},{h},{d}]", *[f"f32[{b},{n},{g},{d}]"] * 2)
    q, k, v = body.inputs
    scores = scaled(body, body.dot(q, k, ((3,), (3,)), ((0, 2), (0, 2))))
    p, total = exponentials(body, scores)
    high = next(n.result for n in body.graph.nodes if n.op == "reduce" and n.attrs.kind == "maximum")
    spread = body.op("add", high, body.op("log", total))
    out = body.dot(body.op("divide", p, body.wide(total, p, (0, 1, 2))), v, ((3,), (1,)), ((0, 1), (0, 2)))
    kernel = check_single_kernel(body.done(out, spread))
    assert {v.type.sizes for v in kernel.outputs} == {(h, t, d), (h, t)}


@pytest.mark.parametrize("which", ["scores", "probabilities", "another reader"])
def test_attention_with_other_users_of_scores_is_not_fused(which: str) -> None:
    body, out = attention(Form((1, 20, 2, 16, 20, 2), dtype="f32"), scaled)
    dots = [n for n in body.graph.nodes if n.op == "dot_general"]
    returned = dots[0].result if which == "scores" else dots[1].operands[0]
    if which == "another reader":
        returned = body.reduce("add", body.op("multiply", returned, returned), 3)
    module = fused(body.done(out, returned))
    assert "attention" not in launches(module)
    for got, want in zip(
        run(module, random_args(body.graph)), evaluate(body.graph, random_args(body.graph)), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("fault", ["another maximum", "not divided by its sum", "type", "rows too long"])
def test_programs_that_differ_from_attention_are_not_fused(fault: str) -> None:
    """Check programs that differ from attention in one respect and are compiled to several kernels."""
    form = Form(
        (1, 20, 1, 16, 20, 1),
        dtype="f64" if fault == "type" else "f32",
        softmax_dtype="f64" if fault == "type" else "f32",
    )
    if fault == "rows too long":
        form = Form((1, 20, 1, 300, 20, 1), dtype="f32")
    body, out = attention(form, scaled)
    nodes = body.graph.nodes
    maximum = next(n for n in nodes if n.op == "reduce" and n.attrs.kind == "maximum")
    if fault == "another maximum":
        maximum.operands[0] = next(n.result for n in nodes if n.op == "dot_general")
    if fault == "not divided by its sum":
        total = next(n for n in nodes if n.op == "reduce" and n.attrs.kind == "add")
        total.operands[0] = next(n.result for n in nodes if n.op == "subtract")
    module = fused(body.done(out))
    assert "attention" not in launches(module)


def test_attention_fuses_an_epilogue() -> None:
    body, out = attention(Form(SMALL), CAUSAL, "bf16[1,70,4,32]")
    check_single_kernel(body.done(body.op("add", out, body.inputs[3])))


@pytest.mark.parametrize("is_wide", [False, True])
def test_grouped_query_decoding_reads_the_cache_once(is_wide: bool) -> None:
    """Check decoding: the 4 query heads of a cache head are the rows of one tile."""
    body, out = attention(Form((2, 1, 8, 32, 96, 2), is_wide=is_wide), scaled)
    kernel = check_single_kernel(body.done(out))
    source = kernel_source("attention", kernel, fused(body.graph).mesh)
    assert source.grid == (2 * 2, 1, 1) and "# over 4" in source.text
    assert {str(v.type) for v in kernel.inputs} == {"bf16[2,1,8,32]", "bf16[2,96,2,32]"}
