"""Values transferred between two meshes keep the results of one device."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

import meshgen as mg
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.spec import Sharding
from meshgen.testing.oracle import check
from tests.sharding.multi_mesh.meshes_programs import (
    SOURCES,
    TARGETS,
    annotate_on_grid,
    assert_correct_at_all_stages,
    on_main,
    ops,
    traced,
)


@pytest.mark.parametrize("source, target", [*itertools.product(SOURCES, TARGETS)], ids=str)
def test_transfer_between_any_two_shardings_is_correct(source: Sharding, target: Sharding) -> None:
    def program(x: Any) -> Any:
        h = mg.annotate(x * 2.0, replace(source, mesh="a"))
        return mg.annotate(h, replace(target, mesh="b")) + 1.0

    stages = assert_correct_at_all_stages(traced(program, types=["f32[10,7]"], in_specs=None))
    assert (
        ops(stages["materialize"], 0).count("transfer_send")
        == ops(stages["materialize"], 1).count("transfer_recv")
        == 1
    )


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (3, 5), (4, 6), (0, 4)], ids=str)
@pytest.mark.parametrize("meshes", [{"a": {"x": 1}, "b": {"x": 4}}, {"a": {"x": 4}, "b": {"x": 2, "y": 3}}], ids=str)
def test_transfer_of_small_and_empty_shards_is_correct(shape: tuple[int, int], meshes: Any) -> None:
    def program(x: Any) -> Any:
        return mg.annotate(mg.annotate(x, mg.P("x", mesh="a")) + 1.0, mg.P(None, "x", mesh="b")) * 3.0

    assert_correct_at_all_stages(traced(program, meshes, [f"f32[{shape[0]},{shape[1]}]"], in_specs=None))


@pytest.mark.parametrize("dtype", ["f32[]", "i1[5]", "bf16[5,2]", "i32[3,3,3]"])
def test_transfer_of_each_dtype_is_correct(dtype: str) -> None:
    def program(x: Any) -> Any:
        return mg.annotate(mg.annotate(x, mg.P(mesh="a")), mg.P(mesh="b"))

    assert_correct_at_all_stages(traced(program, types=[dtype], in_specs=None))


def test_meshes_can_factor_same_axis_name_differently() -> None:
    """Check an axis x of size 6 that one mesh factors as 3 x 2 and the other as 2 x 3.

    The sharding of one mesh is a hint for the other mesh, but its tiles do not nest there.
    """

    def program(x: Any, y: Any) -> Any:
        transferred = mg.annotate(
            mg.annotate(x, mg.P("x:(1)3", mesh="a"), required=False), mg.P(None, mesh="b"), required=False
        )
        return transferred, mg.annotate(y, mg.P(None, "x:(1)2", mesh="b"))

    assert_correct_at_all_stages(
        traced(program, {"a": {"x": 6}, "b": {"x": 6}}, ["f32[2,4]", "f32[2,4]"], in_specs=None)
    )


def test_value_used_on_both_meshes_is_transferred_once() -> None:
    def program(x: Any, w0: Any, w1: Any) -> Any:
        h = mg.tanh(x @ w0)
        replicated = mg.annotate(h, mg.P(mesh="b"))
        sharded = mg.annotate(h, mg.P("x", mesh="b"))
        return replicated @ w1, sharded + 1.0, h - 1.0

    stages = assert_correct_at_all_stages(traced(program))
    assert ops(stages["propagate"], 0).count("transfer_send") == 1
    assert [part.out_numbers for part in stages["fuse"].parts] == [(2,), (0, 1)]


def test_value_is_transferred_back_to_first_mesh() -> None:
    body = (
        annotate_on_grid("h", "x", "a")
        + annotate_on_grid("g", "h", "b", "[[], [0]]")
        + "  %t = stablehlo.tanh %g : tensor<10x7xf32>\n"
    )
    body += (
        annotate_on_grid("r", "t", "a", "[[1], [0]]")
        + "  %y = stablehlo.add %r, %h : tensor<10x7xf32>\n  return %y : tensor<10x7xf32>"
    )
    stages = assert_correct_at_all_stages(on_main(body))
    assert [op for op in ops(stages["propagate"], 0) if "transfer" in op] == ["transfer_send", "transfer_recv"]
    assert [op for op in ops(stages["propagate"], 1) if "transfer" in op] == ["transfer_recv", "transfer_send"]


def test_partial_sum_is_reduced_before_transfer() -> None:
    def program(x: Any, w: Any) -> Any:
        return mg.annotate(x @ w, mg.P(mesh="b")) + 1.0

    specs = {"x": mg.P(None, "dp", mesh="a"), "w": mg.P("dp", mesh="a")}
    stages = assert_correct_at_all_stages(traced(program, types=["f32[10,8]", "f32[8,6]"], in_specs=specs))
    assert any(op in ("all_reduce", "reduce_scatter") for op in ops(stages["optimize"], 0))


def test_value_is_transferred_around_three_meshes() -> None:
    meshes = {"a": {"x": 2}, "b": {"x": 3}, "c": {"x": 2, "y": 2}}

    def program(x: Any) -> Any:
        h = mg.annotate(x, mg.P("x", mesh="a"))
        for mesh in ("b", "c", "a", "b"):
            h = mg.annotate(mg.tanh(h), mg.P(None, "x", mesh=mesh))
        return h

    stages = assert_correct_at_all_stages(traced(program, meshes, ["f32[7,5]"], in_specs=None))
    assert [part.mesh.name for part in stages["fuse"].parts] == ["a", "b", "c"]


def test_global_input_is_transferred_directly() -> None:
    def program(x: Any, y: Any) -> Any:
        return mg.annotate(x, mg.P("x", mesh="b")) + y

    module = traced(program, types=["f32[10]", "f32[10]"], in_specs={"x": mg.P("dp", mesh="a")})
    options = Options("cpu", "global")
    stages = run_stages(module, options, Timing(), "fuse")
    assert check(module, pipeline=lambda _: stages["fuse"]).ok
