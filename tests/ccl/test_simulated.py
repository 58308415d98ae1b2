"""Collectives: the seeds' tables, uneven tiles, kinds, orders of axes, and what is left undefined."""

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
    kept = dtype_name(arrays[0].dtype)
    node = Node(op, [Value(TensorType(arrays[0].shape, kept))], [Value(TensorType(local, dtype or kept))], attrs)
    mailbox = attrs.pop("mailbox", None)
    found = run_collective(node, mesh, arrays, mailbox)
    assert all(f.shape == local and dtype_name(f.dtype) == (dtype or kept) for f in found)
    return found


def rows(shards: list[Any]) -> list[Any]:
    return [s.tolist() for s in shards]


QUADRANTS = [
    np.int8([[1, 2], [3, 4]]),
    np.int8([[5, 6], [7, 8]]),
    np.int8([[9, 10], [11, 12]]),
    np.int8([[13, 14], [15, 16]]),
]


def test_all_gather_as_in_the_dialect() -> None:
    top, bottom = [[1, 2, 5, 6], [3, 4, 7, 8]], [[9, 10, 13, 14], [11, 12, 15, 16]]
    assert rows(collective("all_gather", QUADRANTS, GRID, (2, 4), axes=("b",), dim=1)) == [top, top, bottom, bottom]


def test_reduce_scatter_as_in_the_dialect() -> None:
    found = collective(
        "reduce_scatter", [q.astype(np.float32) for q in QUADRANTS], GRID, (1, 2), "f64", axes=("b",), dim=0, kind="max"
    )
    assert rows(found) == [[[5, 6]], [[7, 8]], [[13, 14]], [[15, 16]]]


def test_all_to_all_as_in_the_dialect() -> None:
    shards = [np.int8([[11, 12], [13, 14], [15, 16]]) + 10 * i for i in range(3)]
    found = collective("all_to_all", shards, make_mesh({"x": 3}), (3, 2), axes=("x",), split_dim=0, concat_dim=0)
    assert rows(found) == [
        [[11 + 2 * i, 12 + 2 * i], [21 + 2 * i, 22 + 2 * i], [31 + 2 * i, 32 + 2 * i]] for i in range(3)
    ]


def test_the_order_of_axes_is_the_order_of_the_group() -> None:
    shards = [np.int32([i]) for i in range(4)]
    assert rows(collective("all_gather", shards, GRID, (4,), axes=("a", "b"), dim=0))[0] == [0, 1, 2, 3]
    assert rows(collective("all_gather", shards, GRID, (4,), axes=("b", "a"), dim=0))[0] == [0, 2, 1, 3]
    assert rows(collective("all_gather", shards, GRID, (1,), axes=(), dim=0)) == [[0], [1], [2], [3]]
    whole = [np.arange(4, dtype=np.int32)] * 4
    assert rows(collective("all_slice", whole, GRID, (1,), axes=("b", "a"), dim=0)) == [[0], [2], [1], [3]]


@pytest.mark.parametrize("size", [1, 2, 5, 10, 12])
def test_slice_and_gather_are_inverse_for_uneven_sizes(size: int) -> None:
    x = np.arange(size * 3, dtype=np.float32).reshape(size, 3)
    tile = -(-size // 4)
    slices = collective("all_slice", [x] * 4, LINE, (tile, 3), axes=("x",), dim=0)
    assert np.isnan(np.concatenate(slices)[size:]).all()  # padding is poison
    for back in collective("all_gather", slices, LINE, (size, 3), axes=("x",), dim=0):
        assert (back == x).all()


@pytest.mark.parametrize("size, other", [(10, 7), (2, 3), (4, 8)])
def test_all_to_all_moves_the_split_for_uneven_sizes(size: int, other: int) -> None:
    x = np.arange(size * other, dtype=np.float32).reshape(size, other)
    before, after = fit(P("x"), 2), fit(P(None, "x"), 2)
    local = after.local_shape(x.shape, LINE)
    found = collective("all_to_all", shard_all(x, before, LINE), LINE, local, axes=("x",), split_dim=1, concat_dim=0)
    assert (assemble(found, after, x.shape, LINE) == x).all()


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
def test_all_reduce_kinds(kind: str) -> None:
    shards = [np.int32([i, i + 4]) for i in range(1, 5)]
    found = collective("all_reduce", shards, LINE, (2,), axes=("x",), kind=kind)
    reference = KINDS[kind]
    assert rows(found) == [reference] * 4
    scattered = collective("reduce_scatter", shards, LINE, (1,), axes=("x",), kind=kind, dim=0)
    assert rows(scattered[:2]) == [[reference[0]], [reference[1]]]


def test_bf16_sums_are_rounded_once_and_conversion_comes_first() -> None:
    mesh = make_mesh({"x": 64})
    shards = [np.full((1,), 1.0 if i else 256.0, BF16) for i in range(64)]
    assert float(collective("all_reduce", shards, mesh, (1,), axes=("x",), kind="sum")[5][0]) == 320.0  # 319 rounded
    wide = collective("all_reduce", [np.int8([100])] * 4, LINE, (1,), "i32", axes=("x",), kind="sum")
    assert rows(wide) == [[400]] * 4


def test_replicas_share_one_array() -> None:
    found = collective("all_reduce", QUADRANTS, GRID, (2, 2), axes=("a",), kind="sum")
    assert found[0] is found[2] and found[1] is found[3]


def test_to_partial_is_undone_by_all_reduce() -> None:
    for kind in ("sum", "max", "min", "product", "and", "or", "xor"):
        x = np.int32([5, -7])
        partial = collective("to_partial", [x] * 4, LINE, (2,), axes=("x",), kind=kind)
        assert rows(collective("all_reduce", partial, LINE, (2,), axes=("x",), kind=kind)) == [[5, -7]] * 4


def test_rooted_collectives_leave_the_rest_undefined() -> None:
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


def test_shift_with_and_without_rotation() -> None:
    shards = [np.float32([i]) for i in range(8)]
    mesh = make_mesh({"a": 2, "b": 4})
    around = collective("shift", shards, mesh, (1,), axes=("b",), shift_axis="b", offset=1, rotate=True)
    assert rows(around) == [[3], [0], [1], [2], [7], [4], [5], [6]]
    half = collective("shift", shards, mesh, (1,), axes=("b",), shift_axis="b", offset=2, rotate=True)
    assert rows(half)[:4] == [[2], [3], [0], [1]]  # the dialect's example
    open_ = collective("shift", shards, mesh, (1,), axes=("b",), shift_axis="b", offset=-1)
    assert [s[0] for s in open_[:3]] == [1, 2, 3] and np.isnan(open_[3][0])


def test_send_and_recv() -> None:
    mailbox = Mailbox()
    shards = [np.float32([i]) for i in range(4)]
    collective("send", shards, GRID, (1,), axes=("a",), destination=(1,), mailbox=mailbox)
    found = collective("recv", shards, GRID, (1,), axes=("a",), source=(0,), mailbox=mailbox)
    assert found[2][0] == 0 and found[3][0] == 1 and np.isnan(found[0][0])
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
def test_retile_between_any_two_shardings(source: Sharding, target: Sharding) -> None:
    x = np.arange(42, dtype=np.float32).reshape(7, 6)
    shards = shard_all(x, source, MESH)
    local = target.local_shape(x.shape, MESH)
    found = collective("retile", shards, MESH, local, source=source, target=target, shape=x.shape)
    for mine, right in zip(found, shard_all(x, target, MESH), strict=True):
        assert np.array_equal(mine, right, equal_nan=True)  # padding and outer halo included


def test_retile_keeps_summands_apart_and_never_reduces() -> None:
    x = np.arange(6, dtype=np.float32)
    source, target = P("b", partial="a"), P(None, partial="a")
    shards = [s + r for r, s in enumerate(shard_all(x, source, MESH))]
    found = collective("retile", shards, MESH, (6,), source=source, target=target, shape=(6,))
    assert (assemble(found, target, (6,), MESH) == assemble(shards, source, (6,), MESH)).all()
    with pytest.raises(ProgramError, match="cannot reduce"):
        collective("retile", shards, MESH, (6,), source=source, target=P(None), shape=(6,))


def test_axes_of_one_device_hold_no_summands_of_their_own() -> None:
    """Whatever a value is partial over there, in several kinds too, is whole."""
    mesh = make_mesh({"y": 6, "v": 1, "u": 1})
    source, target = P("y", partial={"v": "min", "u": "sum"}), P("y:(3)2")
    shards = shard_all(np.arange(2.0), P("y"), mesh)
    found = collective("retile", shards, mesh, (1,), source=source, target=target, shape=(2,))
    assert (assemble(found, target, (2,), mesh) == np.arange(2.0)).all()


@pytest.mark.parametrize("size", [10, 8, 3])
@pytest.mark.parametrize("halo", [(1, 1), (0, 2), (5, 0)])
def test_update_halo_fetches_from_owners_and_leaves_the_outside(size: int, halo: tuple[int, int]) -> None:
    sharding = Sharding((("x",),), (), (halo,))
    x = np.arange(size, dtype=np.float32)
    right = shard_all(x, sharding, LINE)
    stale = []
    for rank, shard in enumerate(right):
        start, stop = sharding.core(0, size, LINE, rank)
        kept = np.full_like(shard, -1)
        kept[halo[0] : halo[0] + stop - start] = x[start:stop]
        stale.append(kept)
    found = collective("update_halo", stale, LINE, right[0].shape, sharding=sharding, shape=(size,))
    for mine, expected in zip(found, right, strict=True):
        assert mine.tolist() == [-1 if np.isnan(v) else v for v in expected]


def test_scalars() -> None:
    assert (
        rows(collective("all_reduce", [np.float32(i) for i in range(4)], LINE, (), axes=("x",), kind="sum"))
        == [6.0] * 4
    )
    empty = Sharding(())
    found = collective("retile", [np.float32(3)] * 4, LINE, (), source=empty, target=empty, shape=())
    assert rows(found) == [3.0] * 4
