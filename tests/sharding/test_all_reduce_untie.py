"""The pass `all-reduce-untie`: a mean and a variance (mean square minus squared mean) need only one message."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.ir.graph import Module, Value
from meshgen.runtime.simulate import simulate
from meshgen.sharding.optimizations.all_reduce_untie import all_reduce_untie
from meshgen.sharding.optimizations.walk import total_bytes
from meshgen.sharding.optimize import optimize_local
from meshgen.spec import P
from tests.sharding.local_programs import Program, ops


def _counts(module: Module) -> list[str]:
    return [op for op in ops(module) if op in ("all_reduce", "all_gather")]


def _mean_square(p: Program, x: Value, *, order: int = 0, op: str = "subtract") -> list[Value]:
    """Return a mean, and the mean square minus the squared mean, as propagation leaves them.

    `partial mean * mean` is reduced a second time.
    """
    partial = P(partial="x")
    zero, rows = p.constant(0, "f32"), p.constant(np.full(3, 8), "f32")

    def average(value: Value) -> Value:
        total = p.add("reduce", [value, zero], "f32[3]", partial, dims=(1,), kind="add")
        return p.add("divide", [total, rows], "f32[3]", partial)

    part = average(x)
    mean = p.add("all_reduce", [part], "f32[3]", axes=("x",), kind="sum", why="a mean")
    square = average(p.add("multiply", [x, x], "f32[3,8]", x.sharding))
    product = p.add("multiply", [part, mean] if order == 0 else [mean, part], "f32[3]", partial)
    terms = [square, product] if order == 0 else [product, square]
    return [
        mean,
        p.add("all_reduce", [p.add(op, terms, "f32[3]", partial)], "f32[3]", axes=("x",), kind="sum", why="b"),
    ]


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("op", ["add", "subtract"])
def test_variance_reductions_are_combined_into_one_message(devices: int, order: int, op: str) -> None:
    p = Program(x=devices)
    before = p.local(*_mean_square(p, p.input("f32[3,8]", P(None, "x")), order=order, op=op))
    after = optimize_local(before)
    assert _counts(all_reduce_untie(before)) == ["all_reduce"] * 2
    assert _counts(after) == ["all_reduce"]
    assert total_bytes(after.graph, p.mesh) <= total_bytes(before.graph, p.mesh)
    x = np.random.default_rng(0).integers(-4, 5, (3, 8)).astype(np.float32)
    for left, right in zip(simulate(before, [x]), simulate(after, [x]), strict=True):
        np.testing.assert_array_equal(left, right)  # The results are multiples of 1/8, which are exact.


def test_all_reduce_with_nonuniform_factor_is_unchanged() -> None:
    """Check a product whose other factor differs between devices, so it cannot be moved out of the sum."""
    p = Program(x=2)
    part, other = p.input("f32[4]", P(partial="x")), p.input("f32[8]", P("x"))
    mine = p.add("retile", [other], "f32[8]", P("x"), source=P("x"), target=P("x"), shape=(8,))
    mean = p.add("all_reduce", [part], "f32[4]", axes=("x",), kind="sum")
    before = p.local(mean, mine)
    tile = before.graph.inputs[1]
    product = before.graph.add("multiply", [before.graph.inputs[0], tile], [tile.type])
    total = before.graph.add("add", [product.result, tile], [tile.type])
    last = before.graph.add("all_reduce", [total.result], [tile.type], {"axes": ("x",), "kind": "sum"})
    before.graph.outputs[1] = last.result
    after = all_reduce_untie(before)
    assert [node.op for node in after.graph.nodes] == [node.op for node in before.graph.nodes]
