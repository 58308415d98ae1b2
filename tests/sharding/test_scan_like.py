"""Partition of ops that need little data of other tiles along a sharded dim: cumulative ops, top_k, reverse, dynamic
slices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshgen.errors import ShardingError
from meshgen.ir.graph import Annotation, Graph, Module, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.sharding.analyze import analyze
from meshgen.sharding.materialize import materialize
from meshgen.sharding.optimize import optimize
from meshgen.sharding.partition import partition
from meshgen.sharding.propagate import propagate
from meshgen.spec import P, Sharding, fit
from tests.sharding.local_programs import Program, assert_same_as_one_device, node_of, ops, tensor, whole_numbers

DEVICES = [1, 2, 3, 8]  # 13 rows are uneven on any device count; 8 devices have an empty tile.


def _region(op: str, dtype: str) -> Graph:
    scalar = TensorType((), dtype)
    body = Graph("body", [Value(scalar), Value(scalar)])
    body.outputs = [body.inputs[1]] if op == "replace" else [body.add(op, body.inputs, [scalar]).result]
    return body


def _scan(p: Program, x: Value, init: Value, dim: int, *, forward: bool = True, op: str = "add") -> Value:
    size, rank = x.type.sizes[dim], x.type.rank
    padding = {"low" if forward else "high": size - 1}
    attrs: dict[str, Any] = {
        "window_dimensions": size, "window_strides": 1, "base_dilations": 1, "window_dilations": 1,
        "low": 0, "high": 0, **padding,
    }  # fmt: skip
    rest = {"low": 0, "high": 0}
    spread = {name: tuple(n if d == dim else rest.get(name, 1) for d in range(rank)) for name, n in attrs.items()}
    cumulative = p.add("reduce_window", [x, init], str(x.type), x.sharding, **spread)
    p.graph.nodes[-1].regions = (_region(op, x.type.dtype),)
    return cumulative


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("op, init", [("add", 0), ("add", 7), ("maximum", -9), ("minimum", 2), ("multiply", 2)])
def test_cumulative_op_over_sharded_dim_is_correct(devices: int, forward: bool, op: str, init: int) -> None:
    p = Program(y=2, x=devices)
    x, start = p.input("i32[3,13]", P("y", "x")), p.input("i32[]")
    assert_same_as_one_device(
        p, [whole_numbers("i32[3,13]"), np.int32(init)], _scan(p, x, start, 1, forward=forward, op=op)
    )


def test_cumulative_sum_gathers_one_row_per_device() -> None:
    p = Program(x=4)
    x, zero = p.input("f32[20,6]", P("x")), p.input("f32[]")
    program = p.local(_scan(p, x, zero, 0))
    gathered = node_of(program, "all_gather")
    assert gathered.operands[0].type == tensor("f32[1,6]")
    assert "totals of other tiles" in gathered.notes.why
    assert "fetch_rows" not in ops(program)


def test_cumulative_op_over_two_axes_of_dim_is_correct() -> None:
    p = Program(x=2, y=3)
    x, start = p.input("f32[13]", P(("y", "x"))), p.input("f32[]")
    assert_same_as_one_device(p, [whole_numbers("f32[13]"), np.float32(3)], _scan(p, x, start, 0))


def test_window_padded_at_both_ends_is_not_cumulative() -> None:
    p = Program(x=2)
    x, init = p.input("f32[5]", P("x")), p.input("f32[]")
    attrs = {"window_dimensions": (5,), "low": (2,), "high": (2,)}
    ones = dict.fromkeys(("window_strides", "base_dilations", "window_dilations"), (1,))
    pooled = p.add("reduce_window", [x, init], "f32[5]", P("x"), **attrs, **ones)
    p.graph.nodes[-1].regions = (_region("add", "f32"),)
    assert "fetch_rows" in ops(p.local(pooled))
    assert_same_as_one_device(p, [whole_numbers("f32[5]"), np.float32(0)], pooled)


def _top_k(p: Program, x: Value, k: int, spec: Sharding | None = None) -> list[Value]:
    shape = (*x.type.sizes[:-1], k)
    kinds = [TensorType(shape, x.type.dtype), TensorType(shape, "i32")]
    values = p.graph.add("top_k", [x], kinds, {"k": k}).results
    for value in values:
        value.sharding = fit(spec or P(), len(shape))
    return values


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("k", [0, 1, 2, 5, 13])
@pytest.mark.parametrize("dtype", ["f32", "i8", "ui8", "bf16"])
def test_top_k_over_sharded_dim_is_correct(devices: int, k: int, dtype: str) -> None:
    """The values are few, so that the order of ties matters. They include the lowest value of the dtype."""
    p = Program(y=2, x=devices)
    x = p.input(f"{dtype}[3,13]", P("y", "x"))
    lowest = np.iinfo(x.type.numpy_dtype).min if "i" in dtype else -np.inf
    draw = np.random.default_rng(k).integers(0, 4, (3, 13))
    args = np.where(draw == 0, lowest, draw).astype(x.type.numpy_dtype)
    assert_same_as_one_device(p, [args], *_top_k(p, x, k, P("y")))


def test_top_k_with_nan_and_inf_is_correct() -> None:
    p = Program(x=4)
    x = p.input("f32[10]", P("x"))
    row = np.array([1, np.nan, -np.inf, -np.nan, 3, -np.inf, np.inf, -np.nan, 2, -0.0], np.float32)
    assert_same_as_one_device(p, [row], *_top_k(p, x, 10))


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("size", [1, 8, 13])
def test_reverse_of_sharded_dims_is_correct(devices: int, size: int) -> None:
    p = Program(x=devices, y=2)
    x = p.input(f"i32[{size},5,2]", P("x", "y"))
    turned = p.add("reverse", [x], str(x.type), P("x", "y"), dims=(0, 1))
    assert_same_as_one_device(p, [np.arange(size * 10, dtype=np.int32).reshape(size, 5, 2)], turned)


def test_reverse_moves_one_tile() -> None:
    p = Program(x=4)
    x = p.input("f32[16,3]", P("x"))
    program = p.local(p.add("reverse", [x], "f32[16,3]", P("x"), dims=(0,)))
    assert analyze(program).ring_bytes == 4 * 3 * 4


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("start", [-3, 0, 4, 9, 100])
@pytest.mark.parametrize("slice_rows", [1, 4, 12])
def test_dynamic_slice_of_sharded_dim_is_correct(devices: int, start: int, slice_rows: int) -> None:
    p = Program(y=2, x=devices)
    x, row, column = p.input("f32[13,6]", P("x", "y")), p.input("i64[]"), p.input("i64[]")
    kind = f"f32[{slice_rows},6]"
    part = p.add("dynamic_slice", [x, row, column], kind, P(None, "y", partial="x"), slice_sizes=(slice_rows, 6))
    assert devices == 1 or not analyze(p.local(part)).collectives
    assert_same_as_one_device(p, [whole_numbers("f32[13,6]"), np.int64(start), np.int64(5)], part)


@pytest.mark.parametrize("dtype, kind", [("i1", "or"), ("ui8", "sum")])
def test_dynamic_slice_of_two_sharded_dims_is_correct(dtype: str, kind: str) -> None:
    p = Program(y=2, x=3)
    x = p.input(f"{dtype}[7,5,4]", P("x", "y"))
    starts = [p.input("ui8[]") for _ in range(3)]
    partial = fit(P(partial={"x": kind, "y": kind}), 3)
    partial = Sharding(partial.dims, (("y", kind), ("x", kind)))
    part = p.add("dynamic_slice", [x, *starts], f"{dtype}[3,2,2]", partial, slice_sizes=(3, 2, 2))
    args = np.random.default_rng(0).integers(0, 2, (7, 5, 4)).astype(x.type.numpy_dtype)
    assert_same_as_one_device(p, [args, np.uint8(3), np.uint8(2), np.uint8(200)], part)


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("start", [-3, 0, 4, 9, 100])
@pytest.mark.parametrize("slice_rows", [0, 1, 4, 12])
def test_dynamic_update_slice_of_sharded_dim_is_local(devices: int, start: int, slice_rows: int) -> None:
    p = Program(y=2, x=devices)
    x, update = p.input("f32[13,6]", P("x", "y")), p.input(f"f32[{slice_rows},6]", P(None, "y"))
    starts = [p.input("i32[]"), p.input("i32[]")]
    written = p.add("dynamic_update_slice", [x, update, *starts], "f32[13,6]", P("x", "y"))
    assert not analyze(p.local(written)).collectives
    args = [whole_numbers("f32[13,6]"), whole_numbers(f"f32[{slice_rows},6]", 1), np.int32(start), np.int32(0)]
    assert_same_as_one_device(p, args, written)


@pytest.mark.parametrize("start_indices", [(0, 0, 0), (2, 3, 1), (6, 1, 9)])
def test_dynamic_update_slice_over_several_dims_is_correct(start_indices: tuple[int, int, int]) -> None:
    p = Program(y=2, x=3)
    x, update = p.input("i32[7,5,4]", P("x", "y")), p.input("i32[5,2,3]")
    starts = [p.input("i32[]") for _ in range(3)]
    written = p.add("dynamic_update_slice", [x, update, *starts], "i32[7,5,4]", P("x", "y"))
    args = [whole_numbers("i32[7,5,4]"), whole_numbers("i32[5,2,3]", 1), *map(np.int32, start_indices)]
    assert_same_as_one_device(p, args, written)


ROWS = {
    "update_window_dims": (1,), "inserted_window_dims": (0,), "input_batching_dims": (),
    "scatter_indices_batching_dims": (), "scatter_dims_to_operand_dims": (0,), "index_vector_dim": 1,
    "indices_are_sorted": False, "unique_indices": False,
}  # fmt: skip


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("op", ["add", "replace", "maximum"])
@pytest.mark.parametrize("dtype", ["i32", "i64", "ui8"])
def test_scatter_into_sharded_rows_is_local(devices: int, op: str, dtype: str) -> None:
    p = Program(y=2, x=devices)
    x, index = p.input("f32[13,4]", P("x", "y")), p.input(f"{dtype}[6,1]")
    update = p.input("f32[6,4]", P(None, "y"))
    written = p.add("scatter", [x, index, update], "f32[13,4]", P("x", "y"), **ROWS)
    p.graph.nodes[-1].regions = (_region(op, "f32"),)
    assert not analyze(p.local(written)).collectives
    row_indices = [3, 12, 12, 0, 13, 250] if dtype == "ui8" else [3, 12, 12, -1, 13, 2**40 if dtype == "i64" else 99]
    row_indices = np.array(row_indices).astype(index.type.numpy_dtype)[:, None]
    assert_same_as_one_device(p, [whole_numbers("f32[13,4]"), row_indices, whole_numbers("f32[6,4]", 1)], written)


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("op, kind", [("add", "sum"), ("multiply", "product"), ("minimum", "min")])
def test_scatter_of_sharded_updates_is_partial(devices: int, op: str, kind: str) -> None:
    p = Program(y=2, x=devices)
    x, index = p.input("f32[7,4]", P("y")), p.input("i32[13,1]", P("x"))
    update = p.input("f32[13,4]", P("x"))
    part = p.add("scatter", [x, index, update], "f32[7,4]", P("y", partial={"x": kind}), **ROWS)
    p.graph.nodes[-1].regions = (_region(op, "f32"),)
    row_indices = np.random.default_rng(0).integers(-2, 9, (13, 1)).astype(np.int32)
    assert_same_as_one_device(p, [whole_numbers("f32[7,4]"), row_indices, whole_numbers("f32[13,4]", 1)], part)


def test_scatter_of_points_with_one_sharded_dim_is_correct() -> None:
    p = Program(x=3)
    x, index, update = p.input("i32[7,4]", P("x")), p.input("i32[9,2]"), p.input("i32[9]")
    points = {**ROWS, "update_window_dims": (), "inserted_window_dims": (0, 1), "scatter_dims_to_operand_dims": (1, 0)}
    written = p.add("scatter", [x, index, update], "i32[7,4]", P("x"), **points)
    p.graph.nodes[-1].regions = (_region("add", "i32"),)
    point_indices = np.random.default_rng(0).integers(-1, 8, (9, 2)).astype(np.int32)
    assert_same_as_one_device(p, [whole_numbers("i32[7,4]"), point_indices, whole_numbers("i32[9]", 1)], written)


def test_replacing_scatter_with_sharded_updates_is_rejected() -> None:
    p = Program(x=2)
    x, index, update = p.input("f32[8,4]"), p.input("i32[6,1]", P("x")), p.input("f32[6,4]", P("x"))
    written = p.add("scatter", [x, index, update], "f32[8,4]", P(), **ROWS)
    p.graph.nodes[-1].regions = (_region("replace", "f32"),)
    with pytest.raises(ShardingError, match="must not be split"):
        p.local(written)


def _compiled(graph: Graph, mesh: dict[str, int], ins: list[Sharding], outs: list[Sharding]) -> Module:
    annotations = [
        [Annotation(fit(s, v.type.rank)) for s, v in zip(specs, values, strict=True)]
        for specs, values in ((ins, graph.inputs), (outs, graph.outputs))
    ]
    module = Module(make_mesh(mesh), graph, in_annotations=list(annotations[0]), out_annotations=list(annotations[1]))
    return partition(optimize(materialize(propagate(module))))


def test_propagation_keeps_sharded_dim_of_cumsum_and_cache() -> None:
    p = Program(x=8)
    x, zero = p.input("f32[1024,64]"), p.input("f32[]")
    p.graph.outputs = [_scan(p, x, zero, 0)]
    program = _compiled(p.graph, {"x": 8}, [P("x"), P()], [P("x")])
    assert analyze(program).ring_bytes == 7 * 64 * 4

    p = Program(x=8)
    cache, row, start, zero = p.input("f32[4096,64]"), p.input("f32[1,64]"), p.input("i32[]"), p.input("i32[]")
    p.graph.outputs = [p.add("dynamic_update_slice", [cache, row, start, zero], "f32[4096,64]")]
    assert analyze(_compiled(p.graph, {"x": 8}, [P("x"), P(), P(), P()], [P("x")])).ring_bytes == 0


def test_small_dynamic_slice_and_top_k_use_cheapest_collectives() -> None:
    p = Program(x=8)
    x, start, zero = p.input("f32[4096,64]"), p.input("i32[]"), p.input("i32[]")
    p.graph.outputs = [p.add("dynamic_slice", [x, start, zero], "f32[16,64]", slice_sizes=(16, 64))]
    counts = analyze(_compiled(p.graph, {"x": 8}, [P("x"), P(), P()], [P()])).counts
    assert counts == {"all_reduce": 1}

    def moved_bytes(rows: int, devices: int) -> int:
        p = Program(x=devices)
        p.graph.outputs = _top_k(p, p.input(f"f32[{rows},4096]"), 4)
        return analyze(_compiled(p.graph, {"x": devices}, [P(None, "x")], [P(), P()])).ring_bytes

    # Values and indices: each device gets all candidates for an eighth of the rows, then all devices gather all
    # results.
    assert moved_bytes(1 << 20, 8) == 2 * 7 * ((1 << 20) // 8) * 4 * (4 + 4)
    assert moved_bytes(32, 8) == 7 * 32 * 4 * (4 + 4), "few rows are gathered, in half as many messages"
    assert moved_bytes(1 << 20, 2) == (1 << 20) * 4 * (4 + 4), "two devices gather: an exchange would move as much"
