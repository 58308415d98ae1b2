"""Test of tables computed from constants: expensive entries are computed once, not per element that reads them."""

from __future__ import annotations

from bodies import Body
from test_fuse import fused, launches


def test_rotary_powers_are_computed_once() -> None:
    """Check `x[m, n] * sin(m * base ** -n)`: all rows share the 64 powers of `base`."""
    body = Body("f32[4096,64]")
    (x,) = body.inputs
    steps = body.op("iota", to="f32[64]", dim=0)
    powers = body.op("power", body.splat(1e4, steps), body.op("multiply", steps, body.splat(-1 / 64, steps)))
    rows = body.op("iota", to="f32[4096,64]", dim=0)
    out = body.op("multiply", x, body.op("sine", body.op("multiply", rows, body.wide(powers, x, (1,)))))
    module = fused(body.done(out))
    of_powers = [name for name, kernel in module.kernels.items() if any(node.op == "power" for node in kernel.nodes)]
    assert len(launches(module)) == 2 and [str(v.type) for v in module.kernels[of_powers[0]].outputs] == ["f32[64]"]
    assert len(of_powers) == 1
