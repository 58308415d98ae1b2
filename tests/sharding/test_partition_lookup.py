"""Partition of gather: StableHLO clamps indices to the global tensor, independent of the device that has the row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from meshgen.ir.graph import DTYPES
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.spec import P, Sharding
from tests.sharding.local_programs import Program, ops, whole_numbers

ROWS = {
    "offset_dims": (1,), "collapsed_slice_dims": (0,), "operand_batching_dims": (), "start_indices_batching_dims": (),
    "start_index_map": (0,), "index_vector_dim": 1, "indices_are_sorted": False,
}  # fmt: skip


def _gather(p: Program, table: Any, indices: Any, result: str, spec: Sharding, **attrs: Any) -> Any:
    return p.add("gather", [table, indices], result, spec, **attrs)


@pytest.mark.parametrize("vocabulary", [1, 3, 10, 13])
@pytest.mark.parametrize("dtype", ["i32", "i64", "ui8"])
def test_gather_from_sharded_vocabulary_reads_each_row_once(vocabulary: int, dtype: str) -> None:
    p = Program(x=2, y=2)
    table, indices = p.input(f"f32[{vocabulary},4]", P(("x", "y"))), p.input(f"{dtype}[9,1]")
    sizes = {"slice_sizes": (1, 4)}
    gathered = _gather(p, table, indices, "f32[9,4]", P(partial={"x": "sum", "y": "sum"}), **ROWS, **sizes)
    low = 0 if dtype == "ui8" else -3
    index_values = np.linspace(low, vocabulary + 4, 9).astype(DTYPES[dtype])[:, None]
    x = whole_numbers(f"f32[{vocabulary},4]")
    expected_result = x[np.clip(index_values[:, 0].astype(np.int64), 0, vocabulary - 1)]
    assert_array_equal(p.run([x, index_values], gathered)[0], expected_result)


def test_gather_clamps_64_bit_index_before_narrowing() -> None:
    p = Program(x=2)
    table, indices = p.input("f32[3,4]", P("x")), p.input("i64[2,1]")
    gathered = _gather(p, table, indices, "f32[2,4]", P(partial="x"), **ROWS, slice_sizes=(1, 4))
    x = whole_numbers("f32[3,4]")
    assert_array_equal(p.run([x, np.array([[2**32], [-(2**40)]])], gathered)[0], x[[2, 0]])


def test_gather_with_sharded_batch_and_window_has_no_masks() -> None:
    p = Program(x=4, y=2)
    table, indices = p.input("f32[7,5]", P(None, "y")), p.input("i32[10]", P("x"))
    attrs = {**ROWS, "index_vector_dim": 1, "slice_sizes": (1, 5)}
    gathered = _gather(p, table, indices, "f32[10,5]", P("x", "y"), **attrs)
    module = p.local(gathered)
    assert ops(module) == ["gather"]
    assert module.graph.nodes[0].attrs.slice_sizes == (1, 3)
    x, index_values = whole_numbers("f32[7,5]"), np.arange(10, dtype=np.int32) % 7
    assert_array_equal(p.run([x, index_values], gathered)[0], x[index_values])


@pytest.mark.parametrize("vector_dim", [0, 1])
def test_gather_with_two_sharded_index_dims_is_correct(vector_dim: int) -> None:
    p = Program(x=2, y=2)
    shape = "2,8" if vector_dim == 0 else "8,2"
    table, indices = p.input("f32[5,3,2]", P("x", "y")), p.input(f"i32[{shape}]")
    attrs = {**ROWS, "collapsed_slice_dims": (0, 1), "start_index_map": (1, 0), "index_vector_dim": vector_dim}
    gathered = _gather(p, table, indices, "f32[8,2]", P(partial=["x", "y"]), **attrs, slice_sizes=(1, 1, 2))
    rng = np.random.default_rng(0)
    index_values = rng.integers(-2, 7, (8, 2)).astype(np.int32)
    x = whole_numbers("f32[5,3,2]")
    expected_result = x[np.clip(index_values[:, 1], 0, 4), np.clip(index_values[:, 0], 0, 2)]
    assert_array_equal(p.run([x, index_values.T if vector_dim == 0 else index_values], gathered)[0], expected_result)


def test_gather_with_sharded_batching_dims_is_correct() -> None:
    p = Program(x=4)
    table, indices = p.input("f32[6,5]", P("x")), p.input("i32[6,3,1]", P("x"))
    attrs = {
        **ROWS, "offset_dims": (), "collapsed_slice_dims": (1,), "operand_batching_dims": (0,),
        "start_indices_batching_dims": (0,), "start_index_map": (1,), "index_vector_dim": 2, "slice_sizes": (1, 1),
    }  # fmt: skip
    gathered = _gather(p, table, indices, "f32[6,3]", P("x"), **attrs)
    args = [whole_numbers("f32[6,5]"), np.abs(whole_numbers("i32[6,3,1]"))]
    p.graph.outputs = [gathered]
    assert_array_equal(p.run(args, gathered)[0], evaluate(p.graph, args)[0])
