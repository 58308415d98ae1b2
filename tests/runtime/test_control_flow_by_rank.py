"""Tests of loops and branches without collectives: ranks choose their paths independently, and regions have kernels."""

from __future__ import annotations

import numpy as np
import pytest

import meshgen as mg
from meshgen.runtime.plan import Schedule


def loop_of(plan: Schedule) -> int:
    return next(n for n, item in enumerate(plan.items) if item.op == "while")


# A loop halves a row until its values are small. The rows of different devices need different numbers of iterations.
HALVES = """
module {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%a: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<f32>) {
    %r = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%t: tensor<1x8xf32>) {
      %l = stablehlo.while(%v = %t) : tensor<1x8xf32> cond {
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        %one = stablehlo.constant dense<1.0> : tensor<f32>
        %s = stablehlo.reduce(%v init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x8xf32>, tensor<f32>) -> tensor<f32>
        %go = stablehlo.compare GT, %s, %one : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      } do {
        %half = stablehlo.constant dense<0.5> : tensor<1x8xf32>
        %next = stablehlo.multiply %v, %half : tensor<1x8xf32>
        stablehlo.return %next : tensor<1x8xf32>
      }
      sdy.return %l : tensor<1x8xf32>
    } : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<f32>
    func.return %r, %sum : tensor<4x8xf32>, tensor<f32>
  }
}
"""


def test_ranks_branch_independently_without_collectives(tmp_path):
    executable = mg.compile(HALVES, target="cpu", in_specs={"a": mg.P("x")})
    item = executable.plan.items[loop_of(executable.plan)]
    assert not item.communicates and [len(region.kernels) for region in item.regions] == [1, 1]
    assert not executable.without_code  # condition and body are ordinary kernels
    a = np.repeat(np.array([[1.0], [4.0], [0.1], [30.0]], np.float32), 8, axis=1)
    halved = np.array([[0.125], [0.125], [0.1], [30 / 2**8]], np.float32) * np.ones(8, np.float32)
    executable.save(tmp_path / "halves.mgx")
    for device in ("reference", "interpret"):
        rows, total = mg.load(tmp_path / "halves.mgx").run([a], device)
        np.testing.assert_array_equal(rows, halved)
        np.testing.assert_allclose(total, a.sum(), rtol=1e-6)


def test_loop_without_collectives_is_not_ordered_with_collectives():
    """The sum over all devices does not depend on the loop, so no event orders the two."""
    plan = mg.compile(HALVES, target="cpu", in_specs={"a": mg.P("x")}).plan
    assert [item.communicates for item in plan.items if item.op in ("while", "all_reduce")].count(True) == 1
    assert all(not item.waits for item in plan.items if item.op == "while")


@pytest.mark.parametrize("form", ["fori", "scan", "cond", "threefry"])
def test_jax_control_flow_without_collectives_has_kernels(form):
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    x = np.linspace(-1, 1, 128, dtype=np.float32).reshape(8, 16)
    function, arg = {
        "fori": (lambda x: jax.lax.fori_loop(0, 4, lambda _, c: c * 2 + 1, x), x),
        "scan": (lambda x: jax.lax.scan(lambda c, row: (jnp.tanh(c @ jnp.ones((16, 16)) + row), c), x[:1], x)[1], x),
        "cond": (lambda x: jax.lax.cond(x[0, 0] > 0, lambda x: x * 2, lambda x: -x, x), x),
        "threefry": (lambda key: jax.random.bits(key, (8, 16)), np.array([1, 2], np.uint32)),
    }[form]
    lowered = jax.jit(function).trace(arg).lower(lowering_platforms=("cpu",))
    executable = mg.compile(lowered, {"x": 8}, target="cpu")
    assert not executable.without_code
    np.testing.assert_allclose(executable(arg), np.asarray(function(arg)), rtol=2e-5, atol=1e-6)
