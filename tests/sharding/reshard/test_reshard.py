"""Reshard plans move the right data on all simulated ranks, and few bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshgen.errors import ShardingError
from meshgen.ir.graph import TensorType
from meshgen.mesh import Axis, Mesh, make_mesh
from meshgen.sharding.reshard.plan import ReshardPlan, plan_reshard, same_layout
from meshgen.spec import P, Sharding, fit
from tests.sharding.reshard.reshard_oracle import random_sharding, run_plan

XY = make_mesh({"x": 2, "y": 4})
MATRIX = TensorType((4096, 4096), "f32")


def plan(source: Sharding, target: Sharding, type: TensorType = MATRIX, mesh: Mesh = XY) -> ReshardPlan:
    return plan_reshard(type, fit(source, type.rank), fit(target, type.rank), mesh)


def steps(source: Sharding, target: Sharding, type: TensorType = MATRIX, mesh: Mesh = XY) -> list[str]:
    return [f"{s.op} {s.attrs['axes']}" if "axes" in s.attrs else s.op for s in plan(source, target, type, mesh).steps]


@pytest.mark.parametrize(
    ("source", "target", "expected_steps"),
    [
        (P("x"), P(None, "x"), ["all_to_all ('x',)"]),
        (P(("x", "y")), P(), ["all_gather ('x', 'y')"]),
        (P("x"), P("x", "y"), ["all_slice ('y',)"]),
        (P(), P(("y", "x")), ["all_slice ('y', 'x')"]),
        (P(("x", "y")), P(("y", "x")), ["permute"]),
        (P("x", "y"), P("y", "x"), ["retile"]),
        (P(None, None, partial="x"), P(), ["all_reduce ('x',)"]),
        (P(None, None, partial=("x", "y")), P(("y", "x")), ["reduce_scatter ('y', 'x')"]),
        (P("y", None, partial="x"), P(("y", "x")), ["reduce_scatter ('x',)"]),
        (P(None, None, partial={"y": "max"}), P("x"), ["all_slice ('x',)", "all_reduce ('y',)"]),
        (P(), P(None, None, partial="x"), ["to_partial ('x',)"]),
        (P("x"), P("x"), []),
        (P("x", "y"), P(), ["all_gather ('x',)", "all_gather ('y',)"]),
    ],
)
def test_reshard_uses_expected_steps(source: Sharding, target: Sharding, expected_steps: list[str]) -> None:
    assert steps(source, target) == expected_steps


@pytest.mark.parametrize(
    ("source", "target", "most"),
    [(P("x", "y"), P("y", "x"), 8388608), (P("x"), P("y"), 16777216), (P(("x", "y")), P(None, ("x", "y")), 7340032)],
    ids=["swap_2d", "axis_replace", "row_to_col"],
)
def test_reshard_bytes_equal_lower_bound(source: Sharding, target: Sharding, most: int) -> None:
    reshard = plan(source, target)
    assert reshard.ring_bytes <= most
    assert reshard.ring_bytes == reshard.bound_bytes


def test_reshard_merges_axes_into_one_dim_without_full_gather() -> None:
    cube = TensorType((256, 256, 256), "f32")
    reshard = plan(P("y", None, "x"), P(None, ("x", "y")), cube)
    assert reshard.ring_bytes == reshard.bound_bytes == 7340032


def test_small_values_reshard_in_one_step() -> None:
    assert len(plan(P("x", "y"), P(("y", "x")), TensorType((16, 16), "f32")).steps) == 1


def test_reshard_prefers_collectives_over_sends_at_equal_bytes() -> None:
    square = make_mesh({"x": 2, "y": 2})
    for size in (12, 4096):
        reshard = plan(P("x", "y"), P(), TensorType((size, size), "f32"), square)
        assert [s.op for s in reshard.steps] == ["all_gather", "all_gather"]
        assert reshard.ring_bytes == reshard.bound_bytes


def test_reshard_reduces_bytes_over_slow_link() -> None:
    mesh = Mesh((Axis("host", 2, bandwidth=10e9, latency=20e-6), Axis("gpu", 4)))
    reshard = plan(P(None, None, partial=("host", "gpu")), P(), MATRIX, mesh)
    assert [(s.op, s.attrs["axes"]) for s in reshard.steps][1:-1] == [("all_reduce", ("host",))]
    assert reshard.steps[1].ring_bytes == MATRIX.nbytes // 4


def test_reshard_merges_sub_axes_and_keeps_target_spelling() -> None:
    mesh = make_mesh({"x": 8})
    reshard = plan(P("x:(1)2", "x:(2)4"), P("x"), MATRIX, mesh)
    assert [(s.op, s.attrs["axes"]) for s in reshard.steps] == [("all_to_all", ("x:(2)4",))]
    assert reshard.steps[-1].sharding == fit(P("x"), 2)
    assert not plan(P(("x:(1)2", "x:(2)4")), P("x"), MATRIX, mesh).steps


def test_reshard_over_axis_of_size_one_has_no_steps() -> None:
    mesh = make_mesh({"one": 1, "x": 2})
    assert not plan(P(("one", "x"), None, partial=()), P("x", "one"), MATRIX, mesh).steps
    assert same_layout(fit(P("one"), 2), fit(P(None, None, partial="one"), 2), MATRIX, mesh)
    assert not same_layout(fit(P("x"), 2), fit(P(), 2), MATRIX, mesh)


def test_offsets_equal_to_even_tiles_need_no_reshard() -> None:
    even = replace(fit(P("x"), 2), offsets=((0, 5, 10), ()))
    assert not plan(even, P("x"), TensorType((10, 3), "f32")).steps


def test_uneven_dim_is_gathered_fully_or_retiled() -> None:
    rows = TensorType((10, 8), "f32")  # 10 rows give tiles of 2 over (x, y), but tiles of 5 over x.
    assert steps(P(("x", "y")), P(), rows) == ["all_gather ('x', 'y')"]
    assert steps(P(("x", "y")), P("x"), rows) == ["retile"]
    assert steps(P("x"), P(("x", "y")), rows) == ["retile"]
    assert steps(P(), P(("x", "y")), rows) == ["all_slice ('x', 'y')"]


SHAPES = [(), (1,), (7,), (8, 12), (10, 3), (2, 5), (6, 4, 8), (5, 3, 2), (0, 4)]
MESHES = [make_mesh({"x": 2, "y": 3}), make_mesh({"x": 2, "y": 2, "z": 2}), make_mesh({"x": 4, "one": 1})]


@pytest.mark.parametrize("seed", range(120))
def test_reshard_gives_every_rank_its_tile(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, mesh = SHAPES[seed % len(SHAPES)], MESHES[int(rng.integers(len(MESHES)))]
    source, target = (random_sharding(rng, len(shape), mesh, partial=True) for _ in range(2))
    x = rng.integers(-99, 99, shape, dtype=np.int32)
    run_plan(plan_reshard(TensorType(shape, "i32"), source, target, mesh), x, mesh, rng)


@pytest.mark.parametrize("seed", range(40))
def test_reshard_over_sub_axes_gives_every_rank_its_tile(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mesh = make_mesh({"x": 8, "y": 2})
    axis_factorings = [("x", "y"), ("x:(1)2", "x:(2)4", "y"), ("x:(1)4", "x:(4)2", "y"), ("x:(2)2", "y")]
    x = rng.integers(-99, 99, [(16, 8), (10, 3), (5, 32)][seed % 3], dtype=np.int32)
    source, target = (
        random_split(rng, axis_factorings[int(rng.integers(len(axis_factorings)))], mesh) for _ in range(2)
    )
    run_plan(plan_reshard(TensorType(x.shape, "i32"), source, target, mesh), x, mesh, rng)


def random_split(rng: np.random.Generator, axes: tuple[str, ...], mesh: Mesh) -> Sharding:
    """Return a random sharding: each axis shards one of two dims, is partial, or replicates."""
    dim_of_axis = {axis: int(rng.integers(0, 4)) for axis in axes}
    order = [axes[i] for i in rng.permutation(len(axes))]
    dims = tuple(tuple(axis for axis in order if dim_of_axis[axis] == dim) for dim in range(2))
    partial = sorted((axis for axis in axes if dim_of_axis[axis] == 2), key=mesh.order)
    return Sharding(dims, tuple((axis, "sum") for axis in partial))


@pytest.mark.parametrize("kind", ["sum", "max", "min", "product", "and", "or", "xor"])
@pytest.mark.parametrize("target", [P(), P("x", "y"), P(("y", "x"))], ids=str)
def test_reshard_of_every_partial_kind_is_correct(kind: str, target: Sharding) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(-99, 99, (10, 6), dtype=np.int32)
    type = TensorType(x.shape, "i32")
    for source in (P(None, "y", partial={"x": kind}), P(None, None, partial={"x": kind, "y": kind})):
        run_plan(plan(source, target, type), x, XY, rng)
    run_plan(plan(target, P("y", None, partial={"x": kind}), type), x, XY, rng)


SQUARE = make_mesh({"x": 4, "y": 4, "z": 2, "w": 2})


@pytest.mark.parametrize(
    ("source", "target", "expected_steps", "expected_bytes"),
    [
        (P(partial="x"), P(partial="y"), ["permute"], 16384),
        (P(partial="x"), P("x", partial="y"), ["retile"], 4096),
        (P("y", partial="x"), P("x", partial="y"), ["permute"], 4096),
        (P(partial="x"), P(partial=("z", "w")), ["permute"], 16384),
        (P(partial=("x", "z")), P(partial=("y", "z")), ["permute"], 16384),
        (P(partial="x"), P(partial=("y", "z")), ["permute", "to_partial ('z',)"], 16384),
        (P(partial={"x": "max"}), P(partial={"y": "max"}), ["permute"], 16384),
        (P(partial={"x": "max"}), P(partial={"y": "sum"}), ["all_reduce ('x',)", "to_partial ('y',)"], 24576),
    ],
    ids=str,
)
def test_summands_move_to_devices_along_other_axes(
    source: Sharding, target: Sharding, expected_steps: list[str], expected_bytes: int
) -> None:
    """Check that a device sends its summand once. A reduction over four devices would move 1.5 times as many bytes."""
    rows = TensorType((64, 64), "f32")
    assert steps(source, target, rows, SQUARE) == expected_steps
    reshard = plan(source, target, rows, SQUARE)
    assert reshard.ring_bytes == expected_bytes
    rng = np.random.default_rng(0)
    reshard = plan(source, target, TensorType((10, 6), "i32"), SQUARE)
    run_plan(reshard, rng.integers(-99, 99, (10, 6), dtype=np.int32), SQUARE, rng)


def test_mixed_partial_kinds_are_reduced_innermost_first() -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(-99, 99, (8, 6), dtype=np.int32)
    source = P(None, None, partial={"x": "max", "y": "sum"})
    reshard = plan(source, P("x", "y"), TensorType(x.shape, "i32"))
    assert next(a for s in reshard.steps for a in s.attrs.get("axes", ()) if s.op != "all_slice") == "y"
    run_plan(reshard, x, XY, rng)


@pytest.mark.parametrize(
    ("source", "target", "reduces"),
    [
        ({"y": "xor"}, {"x": "product", "y": "xor"}, True),
        ({"x": "product"}, {"x": "product", "y": "xor"}, False),
        ({"y": "sum"}, {"x": "sum", "y": "sum"}, False),
        ({}, {"x": "sum", "y": "product", "z": "sum"}, False),
        ({"y": "product"}, {"x": "sum", "y": "product", "z": "sum"}, True),
    ],
)
def test_mixed_partial_kinds_are_created_from_outside_in(
    source: dict[str, str], target: dict[str, str], reduces: bool
) -> None:
    """Check a value that is partial along an inner axis and becomes partial along an outer axis with another kind.

    The value is reduced first, because reductions of different kinds do not commute.
    """
    rng = np.random.default_rng(7)
    mesh = make_mesh({"x": 2, "y": 2, "z": 2})
    x = rng.integers(-99, 99, (6, 3), dtype=np.int32)
    reshard = plan(P(None, None, partial=source), P(None, None, partial=target), TensorType(x.shape, "i32"), mesh)
    assert any(step.op == "all_reduce" for step in reshard.steps) is reduces
    run_plan(reshard, x, mesh, rng)


@pytest.mark.parametrize("rows", [16, 10, 5, 3])
def test_reshard_between_halos_and_offsets_is_correct(rows: int) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-99, 99, (rows, 6), dtype=np.int32)
    plain = fit(P("y"), 2)
    wide = replace(plain, halo=((2, 1), (0, 0)))
    uneven = replace(plain, offsets=((0, 1, 1, rows - 1, rows), ()))
    partial = replace(uneven, partial=(("x", "sum"),))
    ends = [plain, wide, uneven, partial, fit(P(), 2), fit(P(None, "x"), 2)]
    for source in ends:
        for target in ends:
            run_plan(plan(source, target, TensorType(x.shape, "i32")), x, XY, rng)


def test_halo_costs_its_rows_to_add_and_nothing_to_drop() -> None:
    plain = fit(P("y"), 2)
    wide, wider = (replace(plain, halo=(rows, (0, 0))) for rows in ((2, 1), (3, 1)))
    assert plan(wide, plain).ring_bytes == 0
    reshard = plan(plain, wide)
    assert [(s.op, s.ring_bytes) for s in reshard.steps] == [("update_halo", 3 * 4096 * 4)]
    assert plan(wide, wider).ring_bytes <= 4 * 4096 * 4
    assert plan(wider, wide).ring_bytes == 0


def test_halo_over_axis_of_one_device_is_kept() -> None:
    mesh, rng = make_mesh({"one": 1, "x": 3, "y": 3}), np.random.default_rng(8)
    source = Sharding((("one", "x"),), halo=((1, 0),))
    target = Sharding((("one",),), (("x", "min"),), halo=((1, 0),))
    x = np.asarray([5, -7], np.int32)
    run_plan(plan_reshard(TensorType((2,), "i32"), source, target, mesh), x, mesh, rng)


def test_halo_is_added_after_tiles_are_moved() -> None:
    wide = replace(fit(P(None, "y"), 2), halo=((0, 0), (1, 1)))
    assert [s.op for s in plan(fit(P("y"), 2), wide).steps] == ["retile"]
    assert [s.op for s in plan(P(None, "y", partial="x"), wide).steps] == ["all_reduce", "update_halo"]
    reshard = plan(replace(fit(P("y"), 2), halo=((1, 1), (0, 0))), P(None, "y"))
    assert reshard.ring_bytes == 3 * 4096 * 4096 // 16 * 4, "without its halo the tile goes through an all_to_all"


def test_reshard_between_non_nesting_sub_axes_is_correct() -> None:
    mesh = make_mesh({"x": 6})
    rng = np.random.default_rng(4)
    x = rng.integers(-99, 99, (12, 6), dtype=np.int32)
    for source in (fit(P("x:(1)2"), 2), P(None, None, partial="x:(1)2")):
        run_plan(plan(source, P(None, "x:(1)3"), TensorType(x.shape, "i32"), mesh), x, mesh, rng)


def test_intermediate_tiles_are_no_larger_than_ends() -> None:
    rng = np.random.default_rng(5)
    mesh, type = make_mesh({"x": 2, "y": 2, "z": 4}), TensorType((64, 64, 64), "f32")
    for _ in range(40):
        source, target = (random_sharding(rng, 3, mesh, partial=True) for _ in range(2))
        sizes = [np.prod(s.local_shape(type.sizes, mesh)) for s in (source, target)]
        for step in plan_reshard(type, source, target, mesh).steps:
            assert np.prod(step.sharding.local_shape(type.sizes, mesh)) <= max(sizes)


def test_reshard_bytes_are_close_to_lower_bound() -> None:
    """Check random 3-D reshards on 8 and 16 devices. XLA moves 2.02 times the lower bound on average for these."""
    rng = np.random.default_rng(6)
    ratios: list[float] = []
    for mesh in (make_mesh({"x": 2, "y": 2, "z": 2}), make_mesh({"x": 2, "y": 2, "z": 4})):
        for _ in range(60):
            source, target = (random_sharding(rng, 3, mesh) for _ in range(2))
            reshard = plan_reshard(TensorType((512, 512, 512), "f32"), source, target, mesh)
            if reshard.bound_bytes:
                ratios.append(reshard.ring_bytes / reshard.bound_bytes)
            else:
                assert reshard.ring_bytes == 0
    assert min(ratios) >= 1
    assert np.mean(ratios) < 1.05


def test_plans_are_shared_between_dtypes_of_same_width() -> None:
    first = plan(P("x"), P("y"), TensorType((8, 8), "f32"))
    assert plan(P("x"), P("y"), TensorType((8, 8), "i32")) is first


def test_reshard_reports_faults_of_both_shardings() -> None:
    with pytest.raises(ShardingError) as caught:
        plan(P("q"), P("x", "x"))
    assert [d.code for d in caught.value.diagnostics] == ["MG0202", "MG0203"]
    with pytest.raises(ShardingError, match="MG0207"):
        plan_reshard(TensorType((None, 4), "f32"), P("x", None), P(None, "x"), XY)


def test_halo_is_dropped_before_gather() -> None:
    """Check that the halo is not gathered: with it, each device would receive tiles from three others, one message
    each.
    """
    halo = Sharding((("y",), ()), halo=((2, 2), (0, 0)))
    first, second = plan(halo, P(), TensorType((4096, 4), "f32")).steps
    assert (first.op, first.ring_bytes, second.op) == ("retile", 0, "all_gather")
    assert first.sharding == fit(P("y"), 2)
