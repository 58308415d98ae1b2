"""Invalid shardings that partition rejects with a reason, instead of producing a wrong program."""

from __future__ import annotations

from dataclasses import replace

import pytest
from numpy.testing import assert_array_equal

from meshgen.errors import Location, ProgramError, ShardingError
from meshgen.ir.graph import Graph, Module, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.sharding.partition import partition
from meshgen.spec import P, Sharding
from tests.sharding.local_programs import Program, ops, whole_numbers


def _error_message(p: Program, *outputs: Value) -> str:
    with pytest.raises(ProgramError) as caught:
        p.local(*outputs)
    return str(caught.value)


def test_tied_dims_with_different_shardings_are_rejected() -> None:
    p = Program(x=2)
    a, b = p.input("f32[8]", P("x")), p.input("f32[8]")
    assert "MG0206" in _error_message(p, p.add("add", [a, b], "f32[8]", P("x")))


def test_tied_dims_with_different_axis_order_are_rejected() -> None:
    p = Program(x=2, y=2)
    a, b = p.input("f32[8]", P(("x", "y"))), p.input("f32[8]", P(("y", "x")))
    assert "['y', 'x']" in _error_message(p, p.add("add", [a, b], "f32[8]", P(("x", "y"))))


def test_axis_that_shards_two_factors_is_rejected() -> None:
    p = Program(x=2)
    table, indices = p.input("f32[6,3]", P("x")), p.input("i32[4,1]", P("x"))
    attrs = {
        "offset_dims": (1,), "collapsed_slice_dims": (0,), "operand_batching_dims": (), "slice_sizes": (1, 3),
        "start_indices_batching_dims": (), "start_index_map": (0,), "index_vector_dim": 1, "indices_are_sorted": False,
    }  # fmt: skip
    assert "splits both" in _error_message(p, p.add("gather", [table, indices], "f32[4,3]", P("x"), **attrs))


def test_complete_result_of_sharded_sum_is_rejected() -> None:
    p = Program(x=2)
    a, init = p.input("f32[8]", P("x")), p.constant(0, "f32")
    text = _error_message(p, p.add("reduce", [a, init], "f32[]", P(), dims=(0,), kind="add"))
    assert "must be partial (sum), not complete" in text


@pytest.mark.parametrize("op", ["tanh", "abs", "exponential"])
def test_nonlinear_op_on_partial_value_is_rejected(op: str) -> None:
    p = Program(x=2)
    a = p.input("f32[8]", P(partial="x"))
    assert "not linear" in _error_message(p, p.add(op, [a], "f32[8]", P(partial="x")))


def test_add_of_partial_and_replicated_value_is_rejected() -> None:
    p = Program(x=2)
    a, b = p.input("f32[8]", P(partial="x")), p.input("f32[8]")
    assert "not linear" in _error_message(p, p.add("add", [a, b], "f32[8]", P(partial="x")))


def test_partial_operand_with_complete_result_is_rejected() -> None:
    p = Program(x=2)
    a = p.input("f32[8]", P(partial="x"))
    assert "result is complete" in _error_message(p, p.add("negate", [a], "f32[8]", P()))


def test_partial_result_of_complete_operand_is_rejected() -> None:
    p = Program(x=2)
    assert "no operand or factor makes" in _error_message(
        p, p.add("negate", [p.input("f32[8]")], "f32[8]", P(partial="x"))
    )


def test_sharded_sort_dim_is_rejected() -> None:
    p = Program(x=2)
    sorted_rows = p.add("sort", [p.input("f32[9]", P("x"))], "f32[9]", P("x"), dim=0, is_stable=True)
    assert "must not be split" in _error_message(p, sorted_rows)


def test_reshape_of_uneven_tiles_is_rejected() -> None:
    p = Program(x=4)
    text = _error_message(p, p.add("reshape", [p.input("f32[10,8]", P("x"))], "f32[80]", P("x")))
    assert "80 = 10 x 8 rows" in text


def test_reshape_with_sharded_minor_factor_is_rejected() -> None:
    p = Program(x=3)
    assert "cuts across" in _error_message(p, p.add("reshape", [p.input("f32[4,3]", P(None, "x"))], "f32[12]", P("x")))


def test_unequal_tiles_are_rejected_by_reductions() -> None:
    spec = replace(P("x"), offsets=((0, 4, 5),))
    p = Program(x=2)
    a, init = p.input("f32[5]", spec), p.constant(0, "f32")
    double = p.add("add", [a, a], "f32[5]", spec)
    x = whole_numbers("f32[5]")
    assert_array_equal(p.run([x], double)[0], x + x)
    assert "unequal tiles" in _error_message(
        p, p.add("reduce", [double, init], "f32[]", P(partial="x"), dims=(0,), kind="add")
    )


def test_iota_with_unequal_tiles_is_rejected() -> None:
    p = Program(x=2)
    assert "unequal tiles" in _error_message(
        p, p.add("iota", [], "i32[5]", Sharding((("x",),), offsets=((0, 4, 5),)), dim=0)
    )


def test_collective_with_wrong_result_sharding_is_rejected() -> None:
    p = Program(x=2, y=2)
    a = p.input("f32[8]", P(("x", "y")))
    assert "cannot go from" in _error_message(p, p.add("all_gather", [a], "f32[8]", P("y"), axes=("x",), dim=0))
    p = Program(x=2, y=2)
    a = p.input("f32[8]", P(partial={"x": "max"}))
    assert "cannot go from" in _error_message(p, p.add("all_reduce", [a], "f32[8]", P(), axes=("x",), kind="sum"))


def test_slice_of_non_nesting_tiles_is_rejected() -> None:
    p = Program(x=4, y=2)
    # x alone gives tiles of 3 rows; x and y (8 devices) give tiles of 2 rows, which do not nest in them
    a = p.input("f32[10]", P("x"))
    assert "3 is not 2 x 2" in _error_message(p, p.add("all_slice", [a], "f32[10]", P(("x", "y")), axes=("y",), dim=0))


def test_retile_of_partial_value_is_rejected() -> None:
    p = Program(x=2)
    a = p.input("f32[8]", P(partial="x"))
    attrs = {"source": P(None, partial="x"), "target": P("x"), "shape": (8,)}
    assert "reduce" in _error_message(p, p.add("retile", [a], "f32[8]", P("x"), **attrs))


def test_partition_removes_axes_of_one_device() -> None:
    p = Program(x=1, y=2)
    a = p.input("f32[8]", P("x", partial="y"))
    gathered = p.add("all_gather", [a], "f32[8]", P(partial="y"), axes=("x",), dim=0)
    total = p.add("all_reduce", [gathered], "f32[8]", P(), axes=("x", "y"), kind="sum")
    module = p.local(total)
    assert ops(module) == ["all_reduce"] and module.graph.nodes[0].attrs.axes == ("y",)
    x = whole_numbers("f32[8]")
    assert_array_equal(p.run([x], total)[0], x)


def test_partition_reports_all_faults_with_locations() -> None:
    p = Program(x=2)
    a = p.input("f32[8]", P(partial="x"))
    first, second = (p.add(op, [a], "f32[8]", P(partial="x")) for op in ("tanh", "sine"))
    for node, line in zip(p.graph.nodes, (3, 4), strict=True):
        node.loc = Location("model.mlir", line)
    with pytest.raises(ShardingError) as caught:
        p.local(first, second)
    assert [(d.code, str(d.loc)) for d in caught.value.diagnostics] == [
        ("MG0206", "model.mlir:3"),
        ("MG0206", "model.mlir:4"),
    ]


def test_sharded_op_without_partitioner_is_rejected() -> None:
    p = Program(x=2)
    replicated = p.add("custom", [p.input("f32[8]")], "f32[8]")
    assert ops(p.local(replicated)) == ["custom"]
    split = p.add("custom", [p.input("f32[8]", P("x"))], "f32[8]", P("x"))
    assert "MG0103" in _error_message(p, split)


def test_partition_with_unknown_sizes_is_rejected() -> None:
    value = Value(TensorType((None, 3), "f32"), "a", P(None, None))
    module = Module(make_mesh({"x": 2}), Graph("main", [value], [], [value]), "materialize")
    with pytest.raises(ShardingError, match="unknown until load"):
        partition(module)
    value = Value(TensorType((4, 3), "f32"), "a", P("x", None))
    module = replace(module, mesh=make_mesh({"x": None}), graph=Graph("main", [value], [], [value]))
    with pytest.raises(ShardingError, match="MG0201"):
        partition(module)


def _loop(p: Program, body_spec: Sharding) -> Value:
    """Return the result of `while i < 3: v = v + v`. In the loop body, `v` has the sharding `body_spec`."""
    counter, value = p.constant(0, "i32"), p.input("f32[5]", P("x"))
    condition, body = Program(x=2), Program(x=2)
    i, _ = condition.input("i32[]"), condition.input("f32[5]", P("x"))
    three = condition.constant(3, "i32")
    less = condition.add("compare", [i, three], "i1[]", direction="LT", compare_type="SIGNED")
    condition.graph.outputs = [less]
    i, v = body.input("i32[]"), body.input("f32[5]", body_spec)
    following = body.add("add", [i, body.constant(1, "i32")], "i32[]")
    body.graph.outputs = [following, body.add("add", [v, v], "f32[5]", body_spec)]
    node = p.graph.add("while", [counter, value], [counter.type, value.type])
    node.regions = (condition.graph, body.graph)
    node.results[0].sharding, node.results[1].sharding = P(), P("x")
    return node.results[1]


def test_loop_runs_on_local_tiles() -> None:
    p = Program(x=2)
    result = _loop(p, P("x"))
    x = whole_numbers("f32[5]")
    assert_array_equal(p.run([x], result)[0], 8 * x)


def test_loop_carried_value_with_changing_sharding_is_rejected() -> None:
    p = Program(x=2)
    assert "MG0206" in _error_message(p, _loop(p, P(None)))


def test_axis_larger_than_reshape_factors_is_rejected() -> None:
    """Check a reshape of 4 rows to 2 x 2: an axis of size 8 shards both factors, and no factor is left for its last
    part.
    """
    p = Program(x=8)
    assert "cuts across its factors" in _error_message(
        p, p.add("reshape", [p.input("f32[4]", P("x"))], "f32[2,2]", P("x:(1)2", "x:(2)2"))
    )
