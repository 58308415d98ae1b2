"""Tests of reductions over rows longer than registers: the number of reads per row, and one-pass sums of exponentials."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bodies import ONE, Body, check

from meshgen.codegen.fusion.row_passes import online_sums, repeated_bytes
from meshgen.codegen.roofline.kernel_time import kernel_bytes
from meshgen.codegen.triton_source import kernel_source
from meshgen.ir.graph import Graph, Value
from meshgen.ops.evaluate.evaluator import evaluate

LONG = 20_001
INFINITE = float("inf")


def shifted(b: Body, x: Value, is_safe: bool) -> tuple[Value, Value]:
    """Return exp(x - m) and the row maximum m. If `is_safe`, an infinite m is replaced by 0, as JAX does."""
    m = b.reduce("maximum", x, 1)
    if is_safe:
        m = b.op("select", b.op("is_finite", m), m, b.splat(0.0, m))
    return b.op("exponential", b.op("subtract", x, b.wide(m, x, (0,)))), m


def log_sum_exp(rows: int, columns: int, dtype: str = "f32") -> Graph:
    b = Body(f"{dtype}[{rows},{columns}]")
    powers, m = shifted(b, b.inputs[0], is_safe=True)
    return b.done(b.op("add", b.op("log", b.reduce("add", powers, 1)), m))


def softmax(rows: int, columns: int) -> Graph:
    b = Body(f"f32[{rows},{columns}]")
    powers, _ = shifted(b, b.inputs[0], is_safe=False)
    return b.done(b.op("divide", powers, b.wide(b.reduce("add", powers, 1), powers, (0,))))


def rows_of_all_kinds() -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return rows with infinities, NaN, elements far apart, and the maximum at either end or alone in its lane."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((10, LONG)).astype(np.float32)
    x[1, ::2] = -INFINITE
    x[2] = -INFINITE
    x[3, 17] = INFINITE
    x[4, 4099] = np.nan
    x[5] = np.linspace(-200, 200, LONG)
    x[6] = np.linspace(200, -200, LONG)
    x[7] = -INFINITE
    x[7, LONG - 1] = 3
    x[8] += 1e30
    x[9] -= 150
    return x


@pytest.mark.parametrize("graph", [log_sum_exp(10, LONG), softmax(10, LONG)], ids=["log_sum_exp", "softmax"])
@np.errstate(all="ignore")
def test_one_pass_softmax_matches_reference(graph: Graph) -> None:
    assert online_sums(graph)
    check(graph, args=[rows_of_all_kinds()], ulps=64)


def test_one_pass_f64_log_sum_exp_matches_reference() -> None:
    check(log_sum_exp(3, LONG, "f64"), ulps=64)


def test_log_sum_exp_reads_rows_once() -> None:
    source = kernel_source("log_sum_exp", log_sum_exp(4, LONG), ONE)
    assert source.text.count("tl.load") == 1
    assert source.bytes == 4 * LONG * 4 + 4 * 4


def test_softmax_reads_long_rows_twice_and_short_rows_once() -> None:
    assert kernel_bytes(softmax(4, LONG)) == 3 * 4 * LONG * 4
    assert kernel_source("softmax", softmax(4, LONG), ONE).text.count("tl.load") == 2
    assert kernel_bytes(softmax(4, 1024)) == 2 * 4 * 1024 * 4


def test_sum_of_other_functions_of_shifted_rows_takes_two_passes() -> None:
    b = Body(f"f32[4,{LONG}]")
    (x,) = b.inputs
    m = b.wide(b.reduce("maximum", x, 1), x, (0,))
    graph = b.done(b.reduce("add", b.op("tanh", b.op("subtract", x, m)), 1))
    assert not online_sums(graph)
    assert repeated_bytes(graph) == x.type.nbytes
    check(graph, ulps=64, length=LONG)


def test_one_pass_sum_requires_shift_by_one_value_per_row() -> None:
    b = Body(f"f32[4,{LONG}]", f"f32[{LONG}]")
    x, bias = b.inputs
    m = b.reduce("maximum", x, 1)
    total = b.reduce("add", b.op("exponential", b.op("subtract", x, b.wide(bias, x, (1,)))), 1)
    assert not online_sums(b.done(b.op("multiply", m, total)))


def test_special_rows_have_infinite_and_nan_results() -> None:
    with np.errstate(all="ignore"):
        (results,) = evaluate(log_sum_exp(10, LONG), [rows_of_all_kinds()])
    assert (results[2], results[3], results[7]) == (-INFINITE, INFINITE, 3)
    assert np.isnan(results[4])
