"""Tests of the operand bytes that kernels read: of lookup tables only the gathered rows, also through other ops."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bodies import Body

from meshgen.codegen.roofline.read_bytes import read_bytes
from meshgen.ir.graph import Value
from meshgen.runtime.in_place import UPDATE

ROWS, TABLE, TOKENS = 8 * 4, 1000 * 4, 8


def looked_up(body: Body, table: Value) -> Value:
    return body.op(
        "gather", table, body.inputs[1], to=f"{table.type.dtype}[8,4]", offset_dims=(1,), collapsed_slice_dims=(0,),
        start_index_map=(0,), index_vector_dim=1, slice_sizes=(1, 4),
    )  # fmt: skip


def converted(body: Body, table: Value) -> Value:
    return looked_up(body, body.op("convert", table, to="f32[1000,4]"))


def turned(body: Body, table: Value) -> Value:
    flat = body.op("reshape", table, to="bf16[4000]")
    return looked_up(body, body.op("reshape", body.op("negate", flat), to="bf16[1000,4]"))


def twice(body: Body, table: Value) -> Value:
    return body.op("add", body.op("convert", looked_up(body, table), to="f32[8,4]"), converted(body, table))


@pytest.mark.parametrize("emit, rows", [(looked_up, 1), (converted, 1), (turned, 1), (twice, 2)])
def test_lookup_reads_only_the_gathered_rows(emit: Callable[[Body, Value], Value], rows: int) -> None:
    body = Body("bf16[1000,4]", "i32[8]")
    assert read_bytes(body.done(emit(body, body.inputs[0]))) == 2 * ROWS * rows + 4 * TOKENS


def test_table_with_another_user_is_read_completely_once() -> None:
    body = Body("bf16[1000,4]", "i32[8]")
    table = body.op("convert", body.inputs[0], to="f32[1000,4]")
    body.done(looked_up(body, table), body.reduce("add", table, 0))
    assert read_bytes(body.graph) == 2 * TABLE + 4 * TOKENS


def test_slices_and_updates_read_only_their_elements() -> None:
    body = Body("f32[64,4]", "f32[2,4]", "i32[]")
    x, row, start = body.inputs
    half = body.op("slice", x, start=(0, 0), limit=(32, 4), stride=(1, 1))
    part = body.op("slice", body.op("tanh", half), start=(4, 0), limit=(6, 4), stride=(1, 1))
    assert read_bytes(body.done(body.op("add", part, row))) == 2 * 4 * 4 * 2
    wide = body.op("broadcast_in_dim", row, to="f32[64,2,4]", dims=(1, 2))
    assert read_bytes(body.done(wide)) == 2 * 4 * 4
    assert read_bytes(body.done(body.op(UPDATE, x, row, start, body.constant(0, "i32")))) == 2 * 4 * 4 + 4
