"""Normalisation statistics in one exchange: numbers also where the mean is large, and every refusal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from meshgen.ir.graph import Module, Value
from meshgen.ops.types.inference import verify_node
from meshgen.runtime.simulate import simulate
from meshgen.sharding.optimizations.all_reduce_untie import all_reduce_untie
from meshgen.sharding.optimizations.collective_cse import collective_cse
from meshgen.sharding.optimizations.mean_variance_merge import mean_variance_merge
from meshgen.sharding.optimizations.rewrite import total_bytes
from meshgen.sharding.optimize import optimize_local
from meshgen.spec import P, Sharding
from tests.sharding.local_programs import Program, node_of, ops

U = 2.0**-24  # unit roundoff of f32


def _variance(p: Program, x: Value, dims: tuple[int, ...], *, keep: bool = True, scale: float | None = None,
              axes: tuple[str, ...] = ("x",), kind: str = "f32", twice: bool = True) -> list[Value]:  # fmt: skip
    """Mean and variance over `dims` as people write them, with kept dims of size 1 or none."""
    sizes = x.type.sizes
    rows = int(np.prod([sizes[d] for d in dims]))

    def average(value: Value) -> Value:
        total = p.add("reduce", [value, p.constant(0, kind)], _text(kind, kept), partial, dims=dims, kind="add")
        if keep:
            total = p.add("broadcast_in_dim", [total], _text(kind, ones), partial, dims=kept_dims)
        shape = ones if keep else kept
        number = p.constant(np.full(shape, rows if scale is None else scale), kind)
        part = p.add("divide", [total, number], _text(kind, shape), partial)
        return p.add("all_reduce", [part], _text(kind, shape), axes=axes, kind="sum", why="a statistic")

    kept_dims = tuple(d for d in range(len(sizes)) if d not in dims)
    kept = [sizes[d] for d in kept_dims]
    ones = [1 if d in dims else s for d, s in enumerate(sizes)]
    partial = P(partial=axes)
    mean = average(x)
    spread_dims = tuple(range(len(sizes))) if keep else kept_dims
    spread = p.add("broadcast_in_dim", [mean], _text(kind, sizes), x.sharding, dims=spread_dims)
    centered = p.add("subtract", [x, spread], _text(kind, sizes), x.sharding)
    other = centered if twice else x
    return [mean, average(p.add("multiply", [centered, other], _text(kind, sizes), x.sharding))]


def _text(kind: str, sizes: Any) -> str:
    return f"{kind}[{','.join(map(str, sizes))}]"


def _counts(module: Module) -> list[str]:
    return [op for op in ops(module) if op in ("all_reduce", "all_gather")]


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(
    "spec, dims", [(P(None, "x"), (1,)), (P("x"), (0,)), (P("x", None), (0, 1)), (P(None, "x"), (0, 1))]
)
@pytest.mark.parametrize("mean", [0.0, 1000.0])
def test_one_exchange_has_the_same_statistics(spec: Sharding, dims: tuple[int, ...], keep: bool, mean: float) -> None:
    """Each device's rows have another mean. Errors: of a mean 2 n u |x|, which each squared deviation takes twice."""
    p = Program(x=2)
    before = p.local(*_variance(p, p.input("f32[6,10]", spec), dims, keep=keep))
    after = mean_variance_merge(before)
    assert _counts(before) == ["all_reduce"] * 2
    assert _counts(after) == ["all_gather"]
    assert total_bytes(after.graph, p.mesh) <= total_bytes(before.graph, p.mesh)
    assert not [fault for node in after.graph.nodes for fault in verify_node(node)]
    assert "a statistic" in node_of(after, "all_gather").notes.why
    x = (np.random.default_rng(0).standard_normal((6, 10)) + mean + 3 * np.arange(10)).astype(np.float32)
    found, exact = simulate(after, [x]), x.astype(np.float64)
    rows = int(np.prod([x.shape[d] for d in dims]))
    error = 2 * rows * U * float(np.abs(exact).max())
    wanted = [exact.mean(dims, keepdims=keep), exact.var(dims, keepdims=keep)]
    apart = float(np.abs(exact - exact.mean(dims, keepdims=True)).max())
    np.testing.assert_allclose(found[0], wanted[0], rtol=0, atol=error)
    np.testing.assert_allclose(found[1], wanted[1], rtol=4 * rows * U, atol=4 * apart * error + error**2)


def test_a_sum_of_squares_would_fail_where_this_does_not() -> None:
    """Mean 4096, deviations of 1/16: the squares have 24 bits before the point, their sum keeps nothing of 1/256."""
    p = Program(x=2)
    after = mean_variance_merge(p.local(*_variance(p, p.input("f32[1,64]", P(None, "x")), (1,))))
    x = np.float32(4096) + np.where(np.arange(64) % 2, 1, -1).astype(np.float32)[None] / np.float32(16)
    np.testing.assert_allclose(simulate(after, [x])[1], 1 / 256, rtol=1e-6)
    cancelled = np.mean(x * x, dtype=np.float32) - np.mean(x, dtype=np.float32) ** 2
    assert abs(cancelled - 1 / 256) > 1e-3


def test_any_scale_of_the_sums_is_followed() -> None:
    p = Program(x=2)
    x = p.input("f32[3,8]", P(None, "x"))
    before = p.local(*_variance(p, x, (1,), scale=5.0))  # no mean, but a number that deviations are taken from
    data = np.random.default_rng(0).integers(-8, 8, (3, 8)).astype(np.float32)
    after = mean_variance_merge(before)
    assert _counts(after) == ["all_gather"]
    for left, right in zip(simulate(before, [data]), simulate(after, [data]), strict=True):
        np.testing.assert_allclose(left, right, rtol=64 * U, atol=64 * U * 8**2)


def test_more_than_two_devices_would_move_more_and_stay() -> None:
    p = Program(x=4)
    before = p.local(*_variance(p, p.input("f32[6,8]", P(None, "x")), (1,)))
    assert _counts(mean_variance_merge(before)) == ["all_reduce"] * 2


def test_two_axes_of_which_one_has_one_device() -> None:
    p = Program(x=2, y=1)
    before = p.local(*_variance(p, p.input("f32[6,8]", P(None, ("x", "y"))), (1,), axes=("x",)))
    assert _counts(mean_variance_merge(before)) == ["all_gather"]


def test_uneven_tiles_are_masked_and_stay() -> None:
    p = Program(x=2)
    before = p.local(*_variance(p, p.input("f32[6,7]", P(None, "x")), (1,)))
    assert _counts(mean_variance_merge(before)) == ["all_reduce"] * 2


def test_what_is_no_square_and_narrow_types_stay() -> None:
    p = Program(x=2)
    before = p.local(*_variance(p, p.input("f32[6,8]", P(None, "x")), (1,), twice=False))
    assert _counts(mean_variance_merge(before)) == ["all_reduce"] * 2
    p = Program(x=2)
    before = p.local(*_variance(p, p.input("bf16[6,8]", P(None, "x")), (1,), kind="bf16"))
    assert _counts(mean_variance_merge(before)) == ["all_reduce"] * 2


def test_a_mean_over_other_dims_stays() -> None:
    """A square x: the mean of rows is taken off columns, so the identity does not hold."""
    p = Program(x=2)
    x = p.input("f32[8,8]", P(None, "x"))
    partial = P(partial="x")
    zero, eight = p.constant(0, "f32"), p.constant(np.full(8, 8), "f32")
    total = p.add("reduce", [x, zero], "f32[8]", partial, dims=(1,), kind="add")
    mean = p.add("all_reduce", [p.add("divide", [total, eight], "f32[8]", partial)], "f32[8]", axes=("x",), kind="sum")
    moved = p.add("all_slice", [mean], "f32[8]", P("x"), axes=("x",), dim=0)
    spread = p.add("broadcast_in_dim", [moved], "f32[8,8]", P(None, "x"), dims=(1,))
    apart = p.add("subtract", [x, spread], "f32[8,8]", P(None, "x"))
    square = p.add("multiply", [apart, apart], "f32[8,8]", P(None, "x"))
    summed = p.add("reduce", [square, zero], "f32[8]", partial, dims=(1,), kind="add")
    result = p.add("all_reduce", [summed], "f32[8]", axes=("x",), kind="sum")
    assert _counts(mean_variance_merge(p.local(mean, result))) == ["all_reduce"] * 2


def _mean_square(p: Program, x: Value, *, order: int = 0, op: str = "subtract") -> list[Value]:
    """Mean and mean square minus squared mean as propagation leaves it: `partial mean * mean` is reduced again."""
    partial = P(partial="x")
    zero, rows = p.constant(0, "f32"), p.constant(np.full(3, 8), "f32")

    def average(value: Value) -> Value:
        total = p.add("reduce", [value, zero], "f32[3]", partial, dims=(1,), kind="add")
        return p.add("divide", [total, rows], "f32[3]", partial)

    part = average(x)
    mean = p.add("all_reduce", [part], "f32[3]", axes=("x",), kind="sum", why="a mean")
    square = average(p.add("multiply", [x, x], "f32[3,8]", x.sharding))
    product = p.add("multiply", [part, mean] if order == 0 else [mean, part], "f32[3]", partial)
    ends = [square, product] if order == 0 else [product, square]
    return [mean, p.add("all_reduce", [p.add(op, ends, "f32[3]", partial)], "f32[3]", axes=("x",), kind="sum", why="b")]


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("op", ["add", "subtract"])
def test_mean_square_minus_squared_mean_is_one_message(devices: int, order: int, op: str) -> None:
    p = Program(x=devices)
    before = p.local(*_mean_square(p, p.input("f32[3,8]", P(None, "x")), order=order, op=op))
    after = optimize_local(before)
    assert _counts(all_reduce_untie(before)) == ["all_reduce"] * 2
    assert _counts(after) == ["all_reduce"]
    assert total_bytes(after.graph, p.mesh) <= total_bytes(before.graph, p.mesh)
    x = np.random.default_rng(0).integers(-4, 5, (3, 8)).astype(np.float32)
    for left, right in zip(simulate(before, [x]), simulate(after, [x]), strict=True):
        np.testing.assert_array_equal(left, right)  # eighths of small whole numbers are exact


def test_a_product_with_something_else_is_reduced_as_it_was() -> None:
    """The other factor differs from device to device, so it cannot be taken out of the sum."""
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


def test_the_same_mean_written_twice_is_one() -> None:
    """As `x.mean()` and `x.var()` make it: the sum, its number of rows and the division occur twice."""
    p = Program(x=4)
    x = p.input("f32[6,8]", P(None, "x"))
    first = _variance(p, x, (1,))
    second = _variance(p, x, (1,))
    module = Module(p.mesh, replace(p.graph, outputs=[*first, *second]), "materialize")
    assert _counts(collective_cse(module)) == ["all_reduce"] * 2


def test_the_pass_is_one_of_those_after_partition() -> None:
    p = Program(x=2)
    before = p.local(*_variance(p, p.input("f32[6,8]", P(None, "x")), (1,)))
    assert _counts(optimize_local(before)) == ["all_gather"]
