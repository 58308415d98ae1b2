"""Partition: local shapes, masks for uneven tiles, and initial values that count once. Integers make results exact."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from meshgen.ir.graph import DTYPES
from meshgen.spec import P, Sharding
from tests.sharding.local_programs import Program, node_of, ops, whole_numbers

SIZES = [1, 2, 10, 13]  # On 4 devices: a single row, empty tiles, a short tile, and a tile of one row.


@pytest.mark.parametrize("rows", SIZES)
def test_elementwise_op_runs_on_local_tiles(rows: int) -> None:
    p = Program(x=4)
    a = p.input(f"f32[{rows},3]", P("x"))
    double = p.add("add", [a, a], f"f32[{rows},3]", P("x"))
    x = whole_numbers(f"f32[{rows},3]")
    module = p.local(double)
    assert module.graph.inputs[0].type.shape == (-(-rows // 4), 3)
    assert module.in_types[0].shape == (rows, 3)
    assert module.stage == "partition" and module.out_shardings == [P("x", None)]
    assert ops(module) == ["add"]
    assert_array_equal(p.run([x], double)[0], x + x)


@pytest.mark.parametrize("rows", SIZES)
def test_uneven_contraction_masks_both_operands(rows: int) -> None:
    p = Program(x=4, y=1)
    a, b = p.input(f"f32[3,{rows}]", P(None, "x")), p.input(f"f32[{rows},2]", P("x", "y"))
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "precision": ()}
    dot = p.add("dot_general", [a, b], "f32[3,2]", P(None, "y", partial="x"), **attrs)
    x, y = whole_numbers(f"f32[3,{rows}]"), whole_numbers(f"f32[{rows},2]", 1)
    module = p.local(dot)
    assert ops(module).count("mask_padding") == (0 if rows % 4 == 0 else 2)
    assert_array_equal(p.run([x, y], dot)[0], x @ y)


def test_even_contraction_has_no_masks() -> None:
    p = Program(x=4)
    a, b = p.input("f32[8]", P("x")), p.input("f32[8]", P("x"))
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (0,), "rhs_contract": (0,), "precision": ()}
    assert ops(p.local(p.add("dot_general", [a, b], "f32[]", P(partial="x"), **attrs))) == ["dot_general"]


_KINDS = {
    "add": ("sum", np.add, "i32 f32 bf16"),
    "multiply": ("product", np.multiply, "i32 f32"),
    "maximum": ("max", np.maximum, "i32 f32 bf16 f8E4M3FN ui8"),
    "minimum": ("min", np.minimum, "i32 f32 bf16 f8E4M3FN ui8"),
    "and": ("and", np.bitwise_and, "i32 ui8"),
    "or": ("or", np.bitwise_or, "i32"),
    "xor": ("xor", np.bitwise_xor, "i32"),
}


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("kind, dtype", [(k, d) for k, row in _KINDS.items() for d in row[2].split()])
def test_reduction_masks_padding_and_counts_initial_value_once(kind: str, dtype: str, rows: int) -> None:
    partial, ufunc, _ = _KINDS[kind]
    p = Program(x=2, y=2)
    a, init = p.input(f"{dtype}[{rows},2]", P(("x", "y"))), p.input(f"{dtype}[]")
    spec = P(None, partial={"x": partial, "y": partial})
    total = p.add("reduce", [a, init], f"{dtype}[2]", spec, dims=(0,), kind=kind)
    x = np.abs(whole_numbers(f"{dtype}[{rows},2]").astype(np.float32)).astype(DTYPES[dtype])
    begin = np.array(3, DTYPES[dtype])
    wide = np.float32 if dtype.startswith(("f", "bf")) else x.dtype
    expected_result = ufunc(ufunc.reduce(x.astype(wide), axis=0), begin.astype(wide))
    assert_array_equal(p.run([x, begin], total)[0].astype(wide), expected_result)


def test_boolean_and_reduction_ignores_empty_tiles() -> None:
    p = Program(x=4)
    a, init = p.input("i1[2]", P("x")), p.constant(True, "i1")
    every = p.add("reduce", [a, init], "i1[]", P(partial={"x": "and"}), dims=(0,), kind="and")
    assert bool(p.run([np.array([True, True])], every)[0])
    assert not bool(p.run([np.array([True, False])], every)[0])


def test_neutral_initial_value_is_not_masked() -> None:
    p = Program(x=2)
    a = p.input("f32[8]", P("x"))
    total = p.add("reduce", [a, p.constant(0, "f32")], "f32[]", P(partial="x"), dims=(0,), kind="add")
    assert ops(p.local(total)) == ["constant", "reduce"]


def test_reduction_of_partial_value_is_partial_over_both_axes() -> None:
    p = Program(x=2, y=3)
    a, init = p.input("f32[5]", P("y", partial="x")), p.input("f32[]", P(partial="x"))
    total = p.add("reduce", [a, init], "f32[]", P(partial=["x", "y"]), dims=(0,), kind="add")
    x = whole_numbers("f32[5]")
    assert_array_equal(p.run([x, np.float32(7)], total)[0], x.sum() + 7)


def test_constants_become_local_splats_or_are_sliced() -> None:
    p = Program(x=4)
    splat, table = p.constant(np.full((10, 2), 3), "f32", P("x")), p.constant(np.arange(10), "i32", P("x"))
    module = p.local(splat, table)
    assert ops(module) == ["constant", "constant", "all_slice"]
    assert module.graph.nodes[0].result.type.shape == (3, 2)
    results = p.run([], splat, table)
    assert_array_equal(results[0], np.full((10, 2), 3, np.float32))
    assert_array_equal(results[1], np.arange(10))


def test_zeros_of_both_signs_are_not_splat() -> None:
    p = Program(x=2)
    zeros = p.constant([0.0, -0.0], "f32", P("x"))
    assert_array_equal(np.signbit(p.run([], zeros)[0]), [False, True])


@pytest.mark.parametrize("dtype", ["i32", "f32", "bf16", "ui8"])
@pytest.mark.parametrize("dim", [0, 1])
def test_iota_has_global_indices_in_every_dtype(dtype: str, dim: int) -> None:
    # more than 256 rows, beyond which bf16 cannot represent every integer
    shape = (200, 2) if dtype == "ui8" else (1003, 2)
    p = Program(x=4)
    counted = p.add("iota", [], f"{dtype}[{shape[0]},2]", P("x"), dim=dim)
    expected_result = np.broadcast_to(np.arange(shape[dim]).reshape((-1, 1) if dim == 0 else (1, -1)), shape)
    assert_array_equal(p.run([], counted)[0], expected_result.astype(DTYPES[dtype]))


def test_process_index_is_computed_once() -> None:
    p = Program(x=4)
    first, second = (p.add("iota", [], f"i32[{n}]", P("x"), dim=0) for n in (8, 12))
    assert ops(p.local(first, second)).count("process_index") == 1


def test_reshape_merges_sharded_dims_locally() -> None:
    p = Program(x=2, y=3)
    a = p.input("f32[6,4,5]", P("x", None, "y"))
    merged = p.add("reshape", [a], "f32[24,5]", P("x", "y"))
    x = whole_numbers("f32[6,4,5]")
    assert p.local(merged).graph.nodes[0].result.type.shape == (12, 2)
    assert_array_equal(p.run([x], merged)[0], x.reshape(24, 5))


def test_reshape_axis_can_span_two_factors() -> None:
    p = Program(x=4)
    a = p.input("f32[2,6]", P("x:(1)2", "x:(2)2"))
    merged = p.add("reshape", [a], "f32[12]", P("x"))
    x = whole_numbers("f32[2,6]")
    assert_array_equal(p.run([x], merged)[0], x.reshape(12))


def test_reshape_of_uneven_dim_can_add_unit_dims() -> None:
    p = Program(x=4)
    column = p.add("reshape", [p.input("f32[10]", P("x"))], "f32[10,1]", P("x"))
    x = whole_numbers("f32[10]")
    assert_array_equal(p.run([x], column)[0], x[:, None])


def test_slice_pad_concatenate_reverse_of_unsharded_dims_are_local() -> None:
    p = Program(x=4)
    a, fill = p.input("f32[10,6]", P("x")), p.input("f32[]")
    cut = p.add("slice", [a], "f32[10,2]", P("x"), start=(0, 1), limit=(10, 5), stride=(1, 2))
    pad = p.add("pad", [cut, fill], "f32[10,6]", P("x"), low=(0, 1), high=(0, 2), interior=(0, 1))
    two = p.add("concatenate", [pad, a], "f32[10,12]", P("x"), dim=1)
    back = p.add("reverse", [two], "f32[10,12]", P("x"), dims=(1,))
    x = whole_numbers("f32[10,6]")
    padded = np.full((10, 6), 9, np.float32)
    padded[:, 1:4:2] = x[:, 1:5:2]
    assert node_of(p.local(back), "slice").attrs.limit == (3, 5)
    assert_array_equal(p.run([x, np.float32(9)], back)[0], np.concatenate([padded, x], 1)[:, ::-1])


def test_broadcast_of_new_dim_is_local() -> None:
    p = Program(x=3)
    a = p.input("f32[1,4]", P())
    wide = p.add("broadcast_in_dim", [a], "f32[7,4]", P("x"), dims=(0, 1))
    x = whole_numbers("f32[1,4]")
    assert_array_equal(p.run([x], wide)[0], np.broadcast_to(x, (7, 4)))


def test_convolution_over_uneven_channels_is_masked() -> None:
    p = Program(x=4)
    image, kernel = p.input("f32[2,5,6]", P(None, "x")), p.input("f32[3,5,2]", P(None, "x"))
    attrs = {
        "input_batch": 0, "input_feature": 1, "input_spatial": (2,), "kernel_output_feature": 0,
        "kernel_input_feature": 1, "kernel_spatial": (2,), "output_batch": 0, "output_feature": 1,
        "output_spatial": (2,), "window_strides": (1,), "low": (0,), "high": (0,), "lhs_dilation": (1,),
        "rhs_dilation": (1,), "window_reversal": (False,), "feature_group_count": 1, "batch_group_count": 1,
        "precision": (),
    }  # fmt: skip
    result = p.add("convolution", [image, kernel], "f32[2,3,5]", P(partial="x"), **attrs)
    x, w = whole_numbers("f32[2,5,6]"), whole_numbers("f32[3,5,2]", 1)
    expected_result = sum(np.einsum("bih,oi->boh", x[:, :, k : k + 5], w[:, :, k]) for k in range(2))
    assert_array_equal(p.run([x, w], result)[0], expected_result)


def test_dynamic_slice_of_unsharded_dim_is_local() -> None:
    p = Program(x=4)
    a, row, column = p.input("f32[10,6]", P("x")), p.input("i32[]"), p.input("i32[]")
    cut = p.add("dynamic_slice", [a, row, column], "f32[10,2]", P("x"), slice_sizes=(10, 2))
    x = whole_numbers("f32[10,6]")
    assert_array_equal(p.run([x, np.int32(3), np.int32(9)], cut)[0], x[:, 4:6])


def test_global_arguments_are_sliced_in_program() -> None:
    p = Program(x=4, y=2)
    a, b = p.input("f32[10,3]", P("x", "y")), p.input("f32[10,3]", P(("y", "x"), partial={}))
    c = p.input("f32[5]", P(partial="y"))
    outputs = [p.add("negate", [v], str(v.type), v.sharding) for v in (a, b, c)]
    args = [whole_numbers(str(v.type), i) for i, v in enumerate((a, b, c))]
    module = p.local(*outputs, arguments="global")
    assert [v.type.shape for v in module.graph.inputs] == [(10, 3), (10, 3), (5,)]
    assert ops(module) == ["all_slice", "all_slice", "all_slice", "to_partial", "negate", "negate", "negate"]
    for got, x in zip(p.run(args, *outputs, arguments="global"), args, strict=True):
        assert_array_equal(got, -x)


def test_global_arguments_with_offsets_and_halos_are_sliced() -> None:
    from dataclasses import replace

    p = Program(x=2)
    a = p.input("f32[5]", replace(P("x"), offsets=((0, 4, 5),)))
    b = p.input("f32[6]", replace(P("x"), halo=((1, 1),)))
    outputs = [p.add("negate", [v], str(v.type), v.sharding) for v in (a, b)]
    args = [whole_numbers("f32[5]"), whole_numbers("f32[6]", 1)]
    for got, x in zip(p.run(args, *outputs, arguments="global"), args, strict=True):
        assert_array_equal(got, -x)
    assert p.local(*outputs).graph.inputs[0].type.shape == (4,)


def test_halo_of_zero_rows_is_equal_to_no_halo() -> None:
    """Check `update_halo` of a value whose sharding states an explicit halo of zero rows, also over axes of one device."""
    p = Program(y=2, z=1, w=1)
    a = p.input("f32[2,6]", Sharding((("z",), ()), (), ((0, 0), (0, 0))))
    wide = Sharding(((), ("w",)), (), ((0, 0), (2, 2)))
    halo = p.add("update_halo", [a], "f32[2,6]", wide, sharding=wide, shape=(2, 6))
    x = whole_numbers("f32[2,6]")
    assert_array_equal(p.run([x], p.add("negate", [halo], "f32[2,6]", wide))[0], -x)
