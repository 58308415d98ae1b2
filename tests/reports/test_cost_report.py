"""The predicted step time, and the step time without overlap."""

from __future__ import annotations

import pytest

from meshgen import api

T = "tensor<256x256xf32>"
EXCHANGED = f"""func.func @main(%x: {T}, %y: {T}, %w: {T}, %n: tensor<i32>) -> ({T}, {T}) {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %a, %b, %c = stablehlo.while(%p = %x, %q = %y, %i = %zero) : {T}, {T}, tensor<i32>
  cond {{
    %go = stablehlo.compare LT, %i, LIMIT : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  }} do {{
    %r = stablehlo.dot_general %p, %w, contracting_dims = [1] x [0] : ({T}, {T}) -> {T}
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %q, %r, %next : {T}, {T}, tensor<i32>
  }}
  return %a, %b : {T}, {T}
}}
"""


@pytest.mark.parametrize("limit", ["%n", "%forty"])
def test_serial_time_equals_step_time_on_one_device(limit: str) -> None:
    """The loop copies exchanged carried values between iterations; both times include the copies."""
    text = EXCHANGED.replace("LIMIT", limit).replace(
        "  %one =", "  %forty = stablehlo.constant dense<40> : tensor<i32>\n  %one ="
    )
    cost = api.plan(text, target="cuda:sm_90").cost
    assert cost.serial_seconds == pytest.approx(cost.step_seconds, rel=1e-9)
    assert cost.step_seconds > 0 and cost.overlap_gain_seconds == pytest.approx(0, abs=1e-12)
