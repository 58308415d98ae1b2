"""Propagation through loops: costs per iteration and costs outside the loop."""

from __future__ import annotations

from meshgen.ir.graph import Module
from meshgen.mlir.text import parse_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.analyze import analyze
from meshgen.testing.oracle import check

TRIPS, ROWS, SIZE, DEVICES = 6, 16, 256, 4
# The recurrence h = tanh(x[i] @ w + h @ w). The state h and the inputs x are sharded on the contracted dim of the
# matmuls, and the weights w on their other dim.
RECURRENCE = f"""
sdy.mesh @mesh = <["x"={DEVICES}]>
func.func @main(%x: tensor<{TRIPS}x{ROWS}x{SIZE}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}, {{"x"}}]>}},
                %w: tensor<{SIZE}x{SIZE}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}]>}})
    -> (tensor<{ROWS}x{SIZE}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}]>}}) {{
  %zero = stablehlo.constant dense<0.0> : tensor<{ROWS}x{SIZE}xf32>
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %r:3 = stablehlo.while(%i = %i0, %c = %w, %h = %zero) : tensor<i32>, tensor<{SIZE}x{SIZE}xf32>, tensor<{ROWS}x{SIZE}xf32>
  cond {{
    %n = stablehlo.constant dense<{TRIPS}> : tensor<i32>
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %o = stablehlo.constant dense<0> : tensor<i32>
    %t = stablehlo.dynamic_slice %x, %i, %o, %o, sizes = [1, {ROWS}, {SIZE}] : (tensor<{TRIPS}x{ROWS}x{SIZE}xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x{ROWS}x{SIZE}xf32>
    %u = stablehlo.reshape %t : (tensor<1x{ROWS}x{SIZE}xf32>) -> tensor<{ROWS}x{SIZE}xf32>
    %a = stablehlo.dot_general %u, %c, contracting_dims = [1] x [0] : (tensor<{ROWS}x{SIZE}xf32>, tensor<{SIZE}x{SIZE}xf32>) -> tensor<{ROWS}x{SIZE}xf32>
    %b = stablehlo.dot_general %h, %c, contracting_dims = [1] x [0] : (tensor<{ROWS}x{SIZE}xf32>, tensor<{SIZE}x{SIZE}xf32>) -> tensor<{ROWS}x{SIZE}xf32>
    %s = stablehlo.add %a, %b : tensor<{ROWS}x{SIZE}xf32>
    %g = stablehlo.tanh %s : tensor<{ROWS}x{SIZE}xf32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %c, %g : tensor<i32>, tensor<{SIZE}x{SIZE}xf32>, tensor<{ROWS}x{SIZE}xf32>
  }}
  return %r#2 : tensor<{ROWS}x{SIZE}xf32>
}}"""


def lowered(module: Module) -> Module:
    return run_stages(module, Options("cpu"), Timing(), "partition")["partition"]


def test_loop_invariant_weights_are_resharded_once() -> None:
    """The weights are resharded before the loop, so each iteration reduces one sum and gathers neither of its terms."""
    analysis = analyze(lowered(parse_text(RECURRENCE)))
    assert {record.kind: record.times for record in analysis.collectives} == {"all_to_all": 1, "reduce_scatter": TRIPS}
    state, weights = (rows * SIZE * 4 * (DEVICES - 1) // DEVICES for rows in (ROWS, SIZE // DEVICES))
    assert analysis.ring_bytes == TRIPS * state + weights
    assert check(parse_text(RECURRENCE), pipeline=lowered).ok
