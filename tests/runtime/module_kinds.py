"""Small modules of many kinds, written to files, which the mutation campaigns change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import meshgen as mg
from meshgen.compiled.executable import Executable
from meshgen.ir.graph import Module
from meshgen.pipeline import Options, Timing
from meshgen.testing.generators import WIDE
from meshgen.testing.random_graphs import random_local_program, random_program, random_program_on_two_meshes
from tests.runtime.test_control_flow import SUMS

Write = Callable[[Path], None]
CODE = "raise SystemExit('code of a module was run')\n"
SCAN = """func.func @main(%a: tensor<8x4xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %r:2 = stablehlo.while(%x = %a, %i = %zero) : tensor<8x4xf32>, tensor<i32>
  cond {
    %most = stablehlo.constant dense<3> : tensor<i32>
    %go = stablehlo.compare LT, %i, %most : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %y = stablehlo.tanh %x : tensor<8x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %y, %next : tensor<8x4xf32>, tensor<i32>
  }
  %s = stablehlo.reduce(%r#0 init: %c) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
  %p = "stablehlo.reduce_window"(%a, %low) ({
  ^bb0(%u: tensor<f32>, %v: tensor<f32>):
    %m = stablehlo.maximum %u, %v : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) {window_dimensions = array<i64: 3, 1>, window_strides = array<i64: 1, 1>, padding = dense<[[1, 1], [0, 0]]> : tensor<2x2xi64>} : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  %t = "stablehlo.sort"(%a) ({
  ^bb0(%u: tensor<f32>, %v: tensor<f32>):
    %m = stablehlo.compare GT, %u, %v : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %m : tensor<i1>
  }) {dimension = 1 : i64, is_stable = true} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %s, %p, %t : tensor<4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
}
"""
CONV = """func.func @main(%i: tensor<2x8x3xf32>, %k: tensor<3x3x4xf32>) -> tensor<2x8x4xf32> {
  %0 = stablehlo.convolution(%i, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1], pad = [[1, 1]], lhs_dilate = [1], rhs_dilate = [1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x3xf32>, tensor<3x3x4xf32>) -> tensor<2x8x4xf32>
  return %0 : tensor<2x8x4xf32>
}
"""
RANDOM = """func.func @main(%s: tensor<2xui64>, %a: tensor<4x4xf32>) -> (tensor<4x6xui32>, tensor<4x4xf32>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4x6xui32>)
  %2 = stablehlo.cholesky %a, lower = true : tensor<4x4xf32>
  return %1, %2 : tensor<4x6xui32>, tensor<4x4xf32>
}
"""
OPEN = """func.func @main(%x: tensor<?x8xf32>, %w: tensor<8x4xf32>) -> tensor<?x4xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  %1 = stablehlo.tanh %0 : tensor<?x4xf32>
  return %1 : tensor<?x4xf32>
}
"""


def dense(x: mg.Tensor, w: mg.Tensor) -> mg.Tensor:
    return mg.tanh(x @ w)


def moved(x: mg.Tensor, rows: mg.Tensor) -> tuple[mg.Tensor, ...]:
    return x[2:] - x[:-2], mg.softmax(mg.pad(mg.take(x, rows, 0), [(1, 2), (0, 0)])), mg.concatenate([x, x[::2]])


def trained(state: dict[str, mg.Tensor], x: mg.Tensor) -> tuple[Any, ...]:
    m = 0.9 * state["m"] + x
    return (x * x).sum(), {"m": m, "w": state["w"] - m}


def exchanged(x: mg.Tensor) -> mg.Tensor:
    def tiles(t: mg.Tensor) -> mg.Tensor:
        t = mg.shift(mg.all_to_all(t, "a", 1, 0), "a", 1)
        return mg.reduce_scatter(mg.all_gather(t, "a"), "a") + mg.astype(mg.process_index("a"), "f32")

    return mg.manual(tiles, in_specs=mg.P("a"), out_specs=mg.P("a"))(x)


def experts(tokens: mg.Tensor, route: mg.Tensor, w: mg.Tensor) -> mg.Tensor:
    expert_tokens = mg.einsum("tec,td->ecd", route, tokens)
    return mg.einsum("tec,ecd->td", route, mg.maximum(mg.einsum("ecd,edf->ecf", expert_tokens, w), 0.0))


def stages(x: mg.Tensor, w: mg.Tensor) -> mg.Tensor:
    return mg.annotate(mg.tanh(x), mg.P("b", mesh="second")) @ w


def scaled(x: mg.Tensor, scale: mg.Tensor, bias: mg.Tensor) -> mg.Tensor:
    """Gather `scale` and `bias` with one group call."""
    return x * scale + bias


def _of(program: Any, mesh: Any, weights: Any = None, **options: Any) -> Write:
    def write(path: Path) -> None:
        _write(mg.compile(program, mesh, **{"target": "cpu", **options}), path, weights)

    return write


def _of_random(module: Module) -> Write:
    from meshgen.api import plan_module

    return lambda path: _write(plan_module(module, Options("cpu"), Timing()), path)


def _write(executable: Executable, path: Path, weights: Any = None) -> None:
    executable.save(path, weights)


KINDS: dict[str, Write] = {
    "weights": _of(dense, {"a": 2}, {"w": np.ones((8, 4), np.float32)}, args=["f32[6,8]", "f32[8,4]"], in_specs={"x": mg.P("a")}),
    "code for GPUs": _of(dense, {"a": 2}, args=["f32[6,8]", "f32[8,4]"], in_specs={"x": mg.P(None, "a")}, target="cuda:sm_80"),
    "rows": _of(moved, {"a": 4}, args=["f32[16,4]", "i32[5]"], in_specs={"x": mg.P("a")}),
    "collectives": _of(exchanged, {"a": 2}, args=["f32[4,4]"]),
    "experts": _of(experts, {"x": 4}, args=["f32[8,4]", "f32[8,2,4]", "f32[2,4,4]"],
                   in_specs={"tokens": mg.P("x"), "route": mg.P("x"), "w": mg.P("x:(1)2", None, "x:(2)2")}, out_specs=mg.P("x")),
    "group call": _of(scaled, {"a": 2}, args=["f32[64,8]", "f32[8]", "f32[8]"],
                      in_specs={"x": mg.P(), "scale": mg.P("a"), "bias": mg.P("a")}, out_specs=mg.P()),
    "two meshes": _of(stages, {"first": {"a": 2}, "second": {"b": 3}}, args=["f32[6,4]", "f32[4,2]"],
                      in_specs={"x": mg.P("a", mesh="first"), "w": mg.P("b", mesh="second")}),
    "open sizes": _of(OPEN, {"a": None}, in_specs={"x": mg.P("a")}, sizes=[{"mesh": {"a": 2}, "args": {"x": (6, 8)}}]),
    "donated": _of(trained, {"a": 2}, args=[{"w": "f32[4,4]", "m": "f32[4,4]"}, "f32[4,4]"], in_specs={"*": mg.P("a")}, donate={"state": 1}),
    "entry functions": _of({"main": dense, "moved": moved}, {"a": 2}, args={"main": ["f32[6,8]", "f32[8,4]"], "moved": ["f32[16,4]", "i32[5]"]}),
    "loop": _of(SUMS, None),
    "regions": _of(SCAN, {"a": 2}, in_specs={"a": mg.P("a")}),
    "convolution": _of(CONV, {"a": 2}, in_specs={"i": mg.P(None, "a")}),
    "random numbers": _of(RANDOM, {"a": 2}, out_specs={"result.0": mg.P("a")}),
    **{f"program {seed}": _of_random(random_program(seed)) for seed in (3, 11, 23, 31, 40)},
    **{f"wide program {seed}": _of_random(random_program(seed, WIDE)) for seed in (5, 12, 19)},
    **{f"local program {seed}": _of_random(random_local_program(seed)) for seed in (13, 23, 33)},
    "program on two meshes": _of_random(random_program_on_two_meshes(18)),
}  # fmt: skip
