"""Whole programs for the C loader, each for one feature, such as collectives, messages, control flow or weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import meshgen as mg
from meshgen.runtime.emulation_options import Emulation
from tests.programs import HOSTS, NETWORKED, mlp
from tests.runtime.module_kinds import exchanged, experts, moved, stages
from tests.runtime.test_control_flow import SUMS

EXAMPLES = Path(__file__).parents[2] / "examples"
TARGET = "cuda:sm_80"
LOOP = """func.func @main(%a: tensor<8x4xf32>, %n: tensor<i32>) -> tensor<8x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%x = %a, %i = %zero) : tensor<8x4xf32>, tensor<i32>
  cond {
    %go = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
    %b = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
    %h = stablehlo.subtract %x, %b : tensor<8x4xf32>
    %y = stablehlo.tanh %h : tensor<8x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %y, %next : tensor<8x4xf32>, tensor<i32>
  }
  return %r#0 : tensor<8x4xf32>
}
"""
CASES = """func.func @main(%k: tensor<i32>, %a: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %r = "stablehlo.case"(%k) ({
    %0 = stablehlo.tanh %a : tensor<8x4xf32>
    stablehlo.return %0 : tensor<8x4xf32>
  }, {
    %0 = stablehlo.reverse %a, dims = [0] : tensor<8x4xf32>
    stablehlo.return %0 : tensor<8x4xf32>
  }, {
    %0 = stablehlo.add %a, %a : tensor<8x4xf32>
    stablehlo.return %0 : tensor<8x4xf32>
  }) : (tensor<i32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}
"""
SCAN = """func.func @main(%a: tensor<8x4xf32>, %w: tensor<6x4x4xf32>) -> tensor<6x8x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<6> : tensor<i32>
  %empty = stablehlo.constant dense<0.0> : tensor<6x8x4xf32>
  %r:3 = stablehlo.while(%x = %a, %ys = %empty, %i = %zero) : tensor<8x4xf32>, tensor<6x8x4xf32>, tensor<i32>
  cond {
    %go = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %row = stablehlo.dynamic_slice %w, %i, %zero, %zero, sizes = [1, 4, 4] : (tensor<6x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
    %v = stablehlo.reshape %row : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
    %h = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %y = stablehlo.tanh %h : tensor<8x4xf32>
    %part = stablehlo.reshape %y : (tensor<8x4xf32>) -> tensor<1x8x4xf32>
    %all = stablehlo.dynamic_update_slice %ys, %part, %i, %zero, %zero : (tensor<6x8x4xf32>, tensor<1x8x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<6x8x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %y, %all, %next : tensor<8x4xf32>, tensor<6x8x4xf32>, tensor<i32>
  }
  return %r#1 : tensor<6x8x4xf32>
}
"""
Write = Callable[[Path], None]


def of(program: Any, mesh: Any, weights: dict[str, Any] | None = None, **options: Any) -> Write:
    """Return a function that compiles a program and saves its module."""
    return lambda path: mg.compile(program, mesh, **{"target": TARGET, **options}).save(path, weights)


def of_text(text: str, mesh: Any = None, **options: Any) -> Write:
    """Return a function that compiles a program text and saves its module."""

    def write(path: Path) -> None:
        file = path.with_suffix(".mlir")
        file.write_text(text)
        of(str(file), mesh, **options)(path)

    return write


def dense(x: mg.Tensor, w: mg.Tensor) -> mg.Tensor:
    return mg.tanh(x @ w)


def exchanged_state(x: mg.Tensor, y: mg.Tensor) -> tuple[mg.Tensor, mg.Tensor]:
    """Return y and x + y. The first result is stored in the memory of y, and y's next value is the second result."""
    return y, x + y


def after_steps(module: Any, args: dict[str, Any], arch: str, steps: int) -> list[Any]:
    """Return the results of the last step; each step starts with the updated values of donated arguments."""
    results = module.run(args, Emulation(arch))
    for _ in range(steps - 1):
        args = args | {b.name: results[b.donated_to] for b in module.inputs if b.donated_to is not None}
        results = module.run(args, Emulation(arch))
    return results


SUMS_ON_ROWS = SUMS.replace("MESH", 'sdy.mesh @mesh = <["x"=4]>').replace(
    "ROWS", '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'
)
W = np.linspace(-1, 1, 12 * 16, dtype=np.float32).reshape(12, 16)

PROGRAMS: dict[str, Write] = {
    "mlp": of_text(mlp()),
    "mlp along a line": of_text(mlp(x=("", "y"), w1=("y", ""), w2=("", "x"))),
    "hosts with a network": of_text(NETWORKED, HOSTS),
    "weights": of(dense, {"a": 2, "b": 2}, {"w": W}, args=["f32[8,12]", "f32[12,16]"], in_specs={"x": mg.P("a"), "w": mg.P(None, "b")}),
    "rows": of(moved, {"a": 4}, args=["f32[10,6]", "i32[5]"], in_specs={"x": mg.P("a")}),
    "collectives": of(exchanged, {"a": 2}, args=["f32[4,4]"]),
    "experts": of(experts, {"x": 4}, args=["f32[8,4]", "f32[8,2,4]", "f32[2,4,4]"],
                  in_specs={"tokens": mg.P("x"), "route": mg.P("x"), "w": mg.P("x:(1)2", None, "x:(2)2")}, out_specs=mg.P("x")),
    "two meshes": of(stages, {"first": {"a": 2}, "second": {"b": 3}}, args=["f32[6,4]", "f32[4,2]"],
                     in_specs={"x": mg.P("a", mesh="first"), "w": mg.P("b", mesh="second")}),
    "loop": of_text(LOOP, {"a": 4}, in_specs={"a": mg.P("a")}),
    "scan": of_text(SCAN, {"a": 2}, in_specs={"a": mg.P("a")}),
    "loop with collectives": of_text(SUMS_ON_ROWS),
    "case": of_text(CASES, {"a": 2}, in_specs={"a": mg.P("a")}),
    "state": of(exchanged_state, {"a": 2}, args=["f32[5,4]"] * 2, in_specs={"x": mg.P("a")}, donate={"x": 0, "y": 1}),
    "state of one argument": of(exchanged_state, {"a": 2}, args=["f32[5,4]"] * 2, in_specs={"x": mg.P("a")}, donate={"y": 1}),
    "state in place": of(lambda x, y: x + y, {"a": 2}, args=["f32[5,4]"] * 2, in_specs={"x": mg.P("a")}, donate={"x": 0}),
    "one device": of(dense, {"a": 1}, args=["bf16[8,12]", "bf16[12,16]"]),
}  # fmt: skip
