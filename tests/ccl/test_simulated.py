"""Tests of simulated collectives: examples of the dialect, uneven tiles, reduction kinds, and undefined results."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from meshgen.ccl.simulated import Mailbox, run_collective
from meshgen.errors import ProgramError, RuntimeFailure
from meshgen.ir.graph import Node, TensorType, Value, dtype_name
from meshgen.mesh import make_mesh
from meshgen.runtime.simulate import assemble, shard_all
from meshgen.spec import P, Sharding, fit

GRID = make_mesh({"a": 2, "b": 2})
LINE = make_mesh({"x": 4})
BF16 = np.dtype(ml_dtypes.bfloat16)


def collective(
    op: str, shards: list[Any], mesh: Any, local: tuple[int, ...], dtype: str | None = None, **attrs: Any
) -> list[Any]:
    arrays = [np.asarray(s) for s in shards]
    operand_dtype = dtype_name(arrays[0].dtype)
    node = Node(
        op,
        [Value(TensorType(arrays[0].shape, operand_dtype))],
        [Value(TensorType(local, dtype or operand_dtype))],
        attrs,
    )
    mailbox = attrs.pop("mailbox", None)
    results = run_collective(node, mesh, arrays, mailbox)
    assert all(f.shape == local and dtype_name(f.dtype) == (dtype or operand_dtype) for f in results)
    return results


def rows(shards: list[Any]) -> list[Any]:
    return [s.tolist() for s in shards]


QUADRANTS = [
    np.int8([[1, 2], [3, 4]]),
    np.int8([[5, 6], [7, 8]]),
    np.int8([[9, 10], [11, 12]]),
    np.int8([[13, 14], [15, 16]]),
]


def test_all_gather_matches_dialect_example() -> None:
    top, bottom = [[1, 2, 5, 6], [3, 4, 7, 8]], [[9, 10, 13, 14], [11, 12, 15, 16]]
    assert rows(collective("all_gather", QUADRANTS, GRID, (2, 4), axes=("b",), dim=1)) == [top, top, bottom, bottom]


def test_reduce_scatter_matches_dialect_example() -> None:
    results = collective(
        "reduce_scatter", [q.astype(np.float32) for q in QUADRANTS], GRID, (1, 2), "f64", axes=("b",), dim=0, kind="max"
    )
    assert rows(results) == [[[5, 6]], [[7, 8]], [[13, 14]], [[15, 16]]]


def test_all_to_all_matches_dialect_example() -> None:
    shards = [np.int8([[11, 12], [13, 14], [15, 16]]) + 10 * i for i in range(3)]
    results = collective("all_to_all", shards, make_mesh({"x": 3}), (3, 2), axes=("x",), split_dim=0, concat_dim=0)
    assert rows(results) == [
        [[11 + 2 * i, 12 + 2 * i], [21 + 2 * i, 22 + 2 * i], [31 + 2 * i, 32 + 2 * i]] for i in range(3)
    ]


def test_axis_order_determines_group_order() -> None:
    shards = [np.int32([i]) for i in range(4)]
    assert rows(collective("all_gather", shards, GRID, (4,), axes=("a", "b"), dim=0))[0] == [0, 1, 2, 3]
    assert rows(collective("all_gather", shards, GRID, (4,), axes=("b", "a"), dim=0))[0] == [0, 2, 1, 3]
    assert rows(collective("all_gather", shards, GRID, (1,), axes=(), dim=0)) == [[0], [1], [2], [3]]
    whole = [np.arange(4, dtype=np.int32)] * 4
    assert rows(collective("all_slice", whole, GRID, (1,), axes=("b", "a"), dim=0)) == [[0], [2], [1], [3]]


@pytest.mark.parametrize("size", [1, 2, 5, 10, 12])
def test_all_gather_inverts_all_slice_for_uneven_sizes(size: int) -> None:
    x = np.arange(size * 3, dtype=np.float32).reshape(size, 3)
    tile = -(-size // 4)
    slices = collective("all_slice", [x] * 4, LINE, (tile, 3), axes=("x",), dim=0)
    assert np.isnan(np.concatenate(slices)[size:]).all()  # padding contains NaN
    for back in collective("all_gather", slices, LINE, (size, 3), axes=("x",), dim=0):
        assert (back == x).all()


@pytest.mark.parametrize("size, other", [(10, 7), (2, 3), (4, 8)])
def test_all_to_all_moves_sharding_for_uneven_sizes(size: int, other: int) -> None:
    x = np.arange(size * other, dtype=np.float32).reshape(size, other)
    before, after = fit(P("x"), 2), fit(P(None, "x"), 2)
    local = after.local_shape(x.shape, LINE)
    results = collective("all_to_all", shard_all(x, before, LINE), LINE, local, axes=("x",), split_dim=1, concat_dim=0)
    assert (assemble(results, after, x.shape, LINE) == x).all()


KINDS = {
    "sum": [10, 26],
    "max": [4, 8],
    "min": [1, 5],
    "product": [24, 1680],
    "and": [0, 0],
    "or": [7, 15],
    "xor": [4, 12],
}


@pytest.mark.parametrize("kind", KINDS)
def test_all_reduce_and_reduce_scatter_support_every_kind(kind: str) -> None:
    shards = [np.int32([i, i + 4]) for i in range(1, 5)]
    results = collective("all_reduce", shards, LINE, (2,), axes=("x",), kind=kind)
    reference = KINDS[kind]
    assert rows(results) == [reference] * 4
    scattered = collective("reduce_scatter", shards, LINE, (1,), axes=("x",), kind=kind, dim=0)
    assert rows(scattered[:2]) == [[reference[0]], [reference[1]]]


def test_all_reduce_rounds_bf16_once_and_converts_before_sum() -> None:
    mesh = make_mesh({"x": 64})
    shards = [np.full((1,), 1.0 if i else 256.0, BF16) for i in range(64)]
    # the exact sum 319 is rounded to bf16
    assert float(collective("all_reduce", shards, mesh, (1,), axes=("x",), kind="sum")[5][0]) == 320.0
    wide = collective("all_reduce", [np.int8([100])] * 4, LINE, (1,), "i32", axes=("x",), kind="sum")
    assert rows(wide) == [[400]] * 4


def test_replicated_results_share_one_array() -> None:
    results = collective("all_reduce", QUADRANTS, GRID, (2, 2), axes=("a",), kind="sum")
    assert results[0] is results[2] and results[1] is results[3]


def test_all_reduce_inverts_to_partial() -> None:
    for kind in ("sum", "max", "min", "product", "and", "or", "xor"):
        x = np.int32([5, -7])
        partial = collective("to_partial", [x] * 4, LINE, (2,), axes=("x",), kind=kind)
        assert rows(collective("all_reduce", partial, LINE, (2,), axes=("x",), kind=kind)) == [[5, -7]] * 4


def test_rooted_collectives_define_only_root_results() -> None:
    shards = [np.float32([i, i]) for i in range(4)]
    assert rows(collective("broadcast", shards, GRID, (2,), axes=("a",), root=(1,))) == [[2, 2], [3, 3], [2, 2], [3, 3]]
    gathered = collective("gather_to", shards, GRID, (4,), axes=("b",), dim=0, root=(1,))
    assert gathered[1].tolist() == [0, 0, 1, 1] and gathered[3].tolist() == [2, 2, 3, 3] and np.isnan(gathered[0]).all()
    reduced = collective("reduce_to", shards, GRID, (2,), axes=("b", "a"), kind="sum", root=(0, 1))
    assert reduced[2].tolist() == [6, 6] and all(np.isnan(reduced[r]).all() for r in (0, 1, 3))
    scattered = collective(
        "scatter_from", [np.float32([i, i + 10]) for i in range(4)], GRID, (1,), axes=("a",), dim=0, root=(1,)
    )
    assert rows(scattered) == [[2], [3], [12], [13]]


def test_shift_supports_rotation_and_open_ends() -> None:
    shards = [np.float32([i]) for i in range(8)]
    mesh = make_mesh({"a": 2, "b": 4})
    around = collective("shift", shards, mesh, (1,), axes=("b",), shift_axis="b", offset=1, rotate=True)
    assert rows(around) == [[3], [0], [1], [2], [7], [4], [5], [6]]
    half = collective("shift", shards, mesh, (1,), axes=("b",), shift_axis="b", offset=2, rotate=True)
    assert rows(half)[:4] == [[2], [3], [0], [1]]  # the example of the dialect
    open_ = collective("shift", shards, mesh, (1,), axes=("b",), shift_axis="b", offset=-1)
    assert [s[0] for s in open_[:3]] == [1, 2, 3] and np.isnan(open_[3][0])


def test_recv_takes_value_of_matching_send() -> None:
    mailbox = Mailbox()
    shards = [np.float32([i]) for i in range(4)]
    collective("send", shards, GRID, (1,), axes=("a",), destination=(1,), mailbox=mailbox)
    results = collective("recv", shards, GRID, (1,), axes=("a",), source=(0,), mailbox=mailbox)
    assert results[2][0] == 0 and results[3][0] == 1 and np.isnan(results[0][0])
    with pytest.raises(RuntimeFailure, match="no matching send"):
        collective("recv", shards, GRID, (1,), axes=("a",), source=(0,), mailbox=mailbox)


MESH = make_mesh({"a": 2, "b": 3})
SHARDINGS = [
    fit(P(), 2), fit(P("a"), 2), fit(P("b", "a"), 2), fit(P(None, "b"), 2), fit(P(("b", "a")), 2), fit(P(("a", "b")), 2),
    Sharding((("a",), ("b",)), (), ((1, 2), (0, 1))), Sharding((("b",), ()), (), ((4, 4), (0, 0))),
    Sharding((("a",), ("b",)), (), (), ((0, 1, 7), (0, 5, 5, 6))), Sharding(((), ("a",)), (), (), ((), (0, 6, 6))),
]  # fmt: skip


@pytest.mark.parametrize("source", SHARDINGS, ids=str)
@pytest.mark.parametrize("target", SHARDINGS, ids=str)
def test_retile_converts_between_any_two_shardings(source: Sharding, target: Sharding) -> None:
    x = np.arange(42, dtype=np.float32).reshape(7, 6)
    shards = shard_all(x, source, MESH)
    local = target.local_shape(x.shape, MESH)
    results = collective("retile", shards, MESH, local, source=source, target=target, shape=x.shape)
    for result, expected in zip(results, shard_all(x, target, MESH), strict=True):
        assert np.array_equal(result, expected, equal_nan=True)  # compares padding and outer halo too


def test_retile_keeps_summands_separate_and_never_reduces() -> None:
    x = np.arange(6, dtype=np.float32)
    source, target = P("b", partial="a"), P(None, partial="a")
    shards = [s + r for r, s in enumerate(shard_all(x, source, MESH))]
    results = collective("retile", shards, MESH, (6,), source=source, target=target, shape=(6,))
    assert (assemble(results, target, (6,), MESH) == assemble(shards, source, (6,), MESH)).all()
    with pytest.raises(ProgramError, match="cannot reduce"):
        collective("retile", shards, MESH, (6,), source=source, target=P(None), shape=(6,))


def test_partial_axis_of_size_one_is_complete() -> None:
    """A value that is partial over axes of size 1, of any kind, is complete."""
    mesh = make_mesh({"y": 6, "v": 1, "u": 1})
    source, target = P("y", partial={"v": "min", "u": "sum"}), P("y:(3)2")
    shards = shard_all(np.arange(2.0), P("y"), mesh)
    results = collective("retile", shards, mesh, (1,), source=source, target=target, shape=(2,))
    assert (assemble(results, target, (2,), mesh) == np.arange(2.0)).all()


@pytest.mark.parametrize("size", [10, 8, 3])
@pytest.mark.parametrize("halo", [(1, 1), (0, 2), (5, 0)])
def test_update_halo_fetches_from_owners_and_keeps_outer_halo(size: int, halo: tuple[int, int]) -> None:
    sharding = Sharding((("x",),), (), (halo,))
    x = np.arange(size, dtype=np.float32)
    expected_shards = shard_all(x, sharding, LINE)
    stale = []
    for rank, shard in enumerate(expected_shards):
        start, stop = sharding.core(0, size, LINE, rank)
        stale_shard = np.full_like(shard, -1)
        stale_shard[halo[0] : halo[0] + stop - start] = x[start:stop]
        stale.append(stale_shard)
    results = collective("update_halo", stale, LINE, expected_shards[0].shape, sharding=sharding, shape=(size,))
    for result, expected in zip(results, expected_shards, strict=True):
        assert result.tolist() == [-1 if np.isnan(v) else v for v in expected]


def test_collectives_support_scalars() -> None:
    assert (
        rows(collective("all_reduce", [np.float32(i) for i in range(4)], LINE, (), axes=("x",), kind="sum"))
        == [6.0] * 4
    )
    empty = Sharding(())
    results = collective("retile", [np.float32(3)] * 4, LINE, (), source=empty, target=empty, shape=())
    assert rows(results) == [3.0] * 4
