"""Tests of chlo.scan against NumPy, replicated and sharded, and of invalid scans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ProgramError
from meshgen.ir.graph import Module
from meshgen.mlir.text import parse_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.testing.oracle import check

# integer values, so that f32 sums and products are exact
A = np.random.default_rng(0).integers(1, 5, (6, 8)).astype(np.float32)
C = np.arange(8, dtype=np.float32)


def fold(op: str, dim: int, extra: str = "", init: str = "%c", body: str = "%r, %r") -> str:
    """Return a program with a cumulative `op` along `dim` of f32[6,8] that starts from `init`."""
    part, mesh = "tensor<8xf32>" if dim == 0 else "tensor<6xf32>", 'sdy.mesh @m = <["x"=2]>'
    return f"""{mesh}
func.func @main(%a: tensor<6x8xf32> {{sdy.sharding = #sdy.sharding<@m, [{{"x"}}, {{}}]>}}, %c: {part}) -> (tensor<6x8xf32>, {part}) {{
  %k = stablehlo.constant dense<2.0> : {part}
  %0:2 = chlo.scan(%a) inits({init}) dimension={dim} {extra}{{
  ^bb0(%x: {part}, %y: {part}):
    %r = stablehlo.{op} %x, %y : {part}
    stablehlo.return {body} : {part}, {part}
  }} : (tensor<6x8xf32>, {part}) -> (tensor<6x8xf32>, {part})
  return %0#0, %0#1 : tensor<6x8xf32>, {part}
}}"""


def stepwise(op: Any, a: np.ndarray[Any, Any], start: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    steps = []
    for row in a:
        start = op(row, start)
        steps.append(start)
    return steps


def numbers(text: str, *args: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Return the results of all ranks. Also compares them with the results on one device."""

    def lowered(module: Module) -> Module:
        return run_stages(module, Options("cpu"), Timing(), "partition")["partition"]

    assert (result := check(parse_text(text), pipeline=lowered)).ok, result.faults
    return list(mg.compile(text, target="cpu", arguments="global")(*args))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("is_reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("op", ["add", "maximum", "multiply"])
def test_cumulative_scan_becomes_reduce_window(op: str, is_reverse: bool, dim: int) -> None:
    text = fold(op, dim, "attributes {is_reverse = true} " if is_reverse else "")
    assert [n.op for n in parse_text(text).graph.nodes if n.op in ("while", "reduce_window")] == ["reduce_window"]
    a, start = np.moveaxis(A, dim, 0), C[: A.shape[1 - dim]]
    steps = stepwise(getattr(np, op), a[::-1] if is_reverse else a, start)
    scanned, last = numbers(text, A, start)
    expected = np.moveaxis(np.stack(steps[::-1] if is_reverse else steps), 0, dim)
    np.testing.assert_array_equal(scanned, expected)
    np.testing.assert_array_equal(last, steps[-1])


@pytest.mark.parametrize("start", [0.0, 2.0])
def test_scan_adds_constant_start_once(start: float) -> None:
    text = fold("add", 0, init="%k").replace("dense<2.0>", f"dense<{start}>")
    assert len([n for n in parse_text(text).graph.nodes if n.op == "add"]) == (start != 0)
    np.testing.assert_array_equal(numbers(text, A, C)[0], start + np.cumsum(A, 0))


@pytest.mark.parametrize("is_reverse", [False, True], ids=["forward", "reverse"])
def test_scan_with_other_step_becomes_loop(is_reverse: bool) -> None:
    text = fold("subtract", 0, "attributes {is_reverse} " if is_reverse else "")
    assert [n.op for n in parse_text(text).graph.nodes if n.op in ("while", "reduce_window")] == ["while"]
    steps = stepwise(np.subtract, A[::-1] if is_reverse else A, C)
    scanned, last = numbers(text, A, C)
    np.testing.assert_array_equal(scanned, np.stack(steps[::-1] if is_reverse else steps))
    np.testing.assert_array_equal(last, steps[-1])


MANY = """func.func @main(%a: tensor<5x2xf32>, %b: tensor<5x3xi32>, %c: tensor<4xf32>, %w: tensor<2xf32>) -> (tensor<5x2xf32>, tensor<5xi32>, tensor<4xf32>) {
  %0:3 = chlo.scan(%a, %b) inits (%c) dimension = 0 {
  ^bb0(%x: tensor<2xf32>, %y: tensor<3xi32>, %s: tensor<4xf32>):
    %z = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.reduce(%y init: %z) applies stablehlo.add across dimensions = [0] : (tensor<3xi32>, tensor<i32>) -> tensor<i32>
    %2 = stablehlo.multiply %x, %w : tensor<2xf32>
    %3 = stablehlo.add %s, %s : tensor<4xf32>
    stablehlo.return %2, %1, %3 : tensor<2xf32>, tensor<i32>, tensor<4xf32>
  } : (tensor<5x2xf32>, tensor<5x3xi32>, tensor<4xf32>) -> (tensor<5x2xf32>, tensor<5xi32>, tensor<4xf32>)
  return %0#0, %0#1, %0#2 : tensor<5x2xf32>, tensor<5xi32>, tensor<4xf32>
}"""
GENERIC = MANY.replace("chlo.scan(%a, %b) inits (%c) dimension = 0 {", '"chlo.scan"(%a, %b, %c) <{dimension = 0 : i64, operandSegmentSizes = array<i32: 2, 1>, resultSegmentSizes = array<i32: 2, 1>}> ({').replace("  } : (tensor<5x2xf32>, tensor<5x3", "  }) : (tensor<5x2xf32>, tensor<5x3")  # fmt: skip


@pytest.mark.parametrize("text", [MANY, GENERIC], ids=["pretty", "generic"])
def test_scan_inputs_results_and_carries_may_differ_in_type(text: str) -> None:
    a, b = A[:5, :2], np.arange(15, dtype=np.int32).reshape(5, 3)
    w = np.array([3, 4], np.float32)
    scaled, sums, carried = mg.compile(text, {"x": 1}, target="cpu", arguments="global")(a, b, C[:4], w)
    np.testing.assert_array_equal(scaled, a * w)
    np.testing.assert_array_equal(sums, b.sum(1))
    np.testing.assert_array_equal(carried, 32 * C[:4])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("dimension = 0", "dimension = 2", "have no dim 2 of equal size"),
        ("tensor<5x3xi32>", "tensor<6x3xi32>", "have no dim 0 of equal size"),
        ("%x: tensor<2xf32>, %y: tensor<3xi32>", "%y: tensor<3xi32>, %x: tensor<2xf32>", "a step takes"),
        ("tensor<5xi32>", "tensor<5xf32>", "a step returns"),
        ("%2, %1, %3 : tensor<2xf32>, tensor<i32>, ", "%2, %3 : tensor<2xf32>, ", "region 0 yields 2 values"),
    ],
)
def test_scan_with_mismatched_step_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message) as caught:
        parse_text(MANY.replace(old, new))
    fault = caught.value.diagnostics[0]
    assert fault.code == "MG0104" and fault.loc is not None and fault.loc.line == 2
