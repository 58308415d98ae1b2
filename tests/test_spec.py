"""Shardings as values: shard ranges, local shapes, validation, and text forms."""

from __future__ import annotations

import pickle

import pytest

from meshgen.errors import ShardingError
from meshgen.ir.graph import TensorType
from meshgen.mesh import make_mesh
from meshgen.spec import P, Sharding, fit, from_indices

MESH = make_mesh({"x": 4, "y": 2})


def owned(sharding: Sharding, size: int) -> list[tuple[int, int]]:
    mesh = make_mesh({"x": 4})
    return [sharding.ranges((size,), mesh, rank)[0] for rank in range(4)]


def test_uneven_tiles_are_short_or_empty_at_the_end() -> None:
    assert owned(P("x"), 10) == [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert owned(P("x"), 2) == [(0, 1), (1, 2), (2, 2), (2, 2)]
    assert owned(P("x"), 0) == [(0, 0)] * 4
    assert P("x").local_shape((10,), make_mesh({"x": 4})) == (3,)


def test_order_of_axes_is_major_to_minor_and_affects_equality() -> None:
    assert P(("x", "y")) != P(("y", "x"))
    ranges = [P(("y", "x")).ranges((8,), MESH, r)[0] for r in range(8)]
    assert ranges[MESH.rank((3, 0))] == (3, 4) and ranges[MESH.rank((0, 1))] == (4, 5)


def test_shard_ranges_cover_the_tensor_once_per_replica() -> None:
    for spec in (P("x", "y"), P(("y", "x")), P(None, ("x", "y")), P()):
        spec, shape = fit(spec, 2), (7, 9)
        cells = [r for rank in range(8) for r in [spec.ranges(shape, MESH, rank)]]
        count = sum((a[1] - a[0]) * (b[1] - b[0]) for a, b in cells)
        assert count == 63 * 8 // MESH.group_size(spec.used_axes)


def test_halo_is_clipped_at_the_ends_of_the_dim() -> None:
    sharding = Sharding((("x",),), halo=((1, 2),))
    assert owned(sharding, 16) == [(0, 6), (3, 10), (7, 14), (11, 16)]
    assert sharding.local_shape((16,), make_mesh({"x": 4})) == (7,)


def test_offsets_give_unequal_shards() -> None:
    sharding = Sharding((("x",),), offsets=((0, 2, 5, 9, 14),))
    assert owned(sharding, 14) == [(0, 2), (2, 5), (5, 9), (9, 14)]
    assert sharding.local_shape((14,), make_mesh({"x": 4})) == (5,)


@pytest.mark.parametrize(
    "sharding, shape, code, message",
    [
        (P("x"), (4, 4), "MG0204", "has 1 dims, but the tensor has rank 2"),
        (P("q"), (4,), "MG0202", "'q' is not in"),
        (P("x", "x"), (4, 4), "MG0203", "'x' is used more than once"),
        (P("x", "x:(1)2"), (4, 4), "MG0203", "as 'x' too"),
        (P("x", partial="x"), (4,), "MG0203", "used more than once"),
        (P(None, partial={"x": "mean"}), (4,), "MG0204", "unknown partial kind 'mean'"),
        (Sharding(((),), halo=((1, 0),)), (4,), "MG0204", "but is not split"),
        (Sharding((("x",),), halo=((-1, 0),)), (4,), "MG0204", "negative halo"),
        (Sharding((("x",),), halo=((0, 1 << 63),)), (4,), "MG0204", "the limit is 1099511627776"),
        (Sharding((("x",),), halo=((1, 0),), offsets=((0, 1, 2, 3, 4),)), (4,), "MG0204", "exclude each other"),
        (Sharding((("x",),), offsets=((0, 2, 4),)), (4,), "MG0204", "needs 5 offsets, but has 3"),
        (Sharding((("x",),), offsets=((0, 3, 2, 4, 4),)), (4,), "MG0204", "must ascend from 0"),
        (Sharding((("x",),), offsets=((1, 2, 3, 3, 4),)), (4,), "MG0204", "must ascend from 0"),
        (Sharding((("x",),), offsets=((0, 1, 2, 3, 5),)), (4,), "MG0204", "end at 5, but the dim has size 4"),
    ],
)
def test_invalid_sharding_has_one_fault(sharding: Sharding, shape: tuple[int, ...], code: str, message: str) -> None:
    faults = sharding.faults(shape, MESH)
    assert [f.code for f in faults] == [code]
    assert message in faults[0].message


def test_offsets_need_the_size_of_the_axis() -> None:
    sharding = Sharding((("x",), ("y",)), offsets=((), (0, 3, 4)))
    (fault,) = sharding.faults((4, 4), make_mesh({"x": 4, "y": None}))
    assert fault.code == "MG0201" and "mesh axis 'y' that splits it is unknown" in fault.message
    assert sharding.faults((None, 4), make_mesh({"x": None, "y": 2})) == []


def test_even_offsets_are_dropped() -> None:
    even, uneven = (0, 3, 6, 9, 10), (0, 2, 5, 9, 10)
    both = Sharding((("x",), ("y",)), offsets=(even, (0, 1, 4)))
    assert both.without_even_offsets((10, 4), MESH).offsets == ((), (0, 1, 4))
    assert both.without_even_offsets((None, 4), MESH).offsets == both.offsets
    assert Sharding((("x",),), offsets=(even,)).without_even_offsets((10,), MESH) == P("x")
    assert Sharding((("x",),), offsets=(uneven,)).without_even_offsets((10,), MESH).offsets == (uneven,)


def test_sharding_is_even_only_for_equal_tiles() -> None:
    assert P("x").is_even((8,), MESH) and not P("x").is_even((10,), MESH)
    assert P("x", None).is_even((8, 10), MESH) and not P("x", None).is_even((10, 8), MESH)
    assert not Sharding((("x",),), offsets=((0, 1, 2, 3, 8),)).is_even((8,), MESH)


def test_all_faults_of_a_sharding_are_reported() -> None:
    assert [f.code for f in P("q", "x", "x").faults((4,), MESH)] == ["MG0204", "MG0202", "MG0203"]


def test_canonical_sharding_drops_axes_of_size_one() -> None:
    mesh = make_mesh({"a": 1, "b": 2, "c": 3})
    sharding = Sharding((("a", "b"), ()), (("c", "sum"), ("a", "max")), halo=((0, 0), (0, 0)))
    assert sharding.canonical(mesh) == P("b", None, partial="c")


def test_sharding_is_read_from_axis_numbers() -> None:
    assert from_indices([[0], [], [1]], MESH, 3) == P("x", None, "y")
    assert from_indices([[0], [], [1]], MESH, 2) == P("x", None, partial="y")
    assert from_indices([], MESH, 2) == P(None, None)
    for wrong in ([[5]], [[-1]], [[], [], []]):
        with pytest.raises(ShardingError):
            from_indices(wrong, MESH, 1)


@pytest.mark.parametrize("thing", [P("x", None), make_mesh({"x": 2}), TensorType((2,), "f32")])
def test_cached_hash_is_not_pickled(thing: object) -> None:
    """The hash of a string differs between processes."""
    hash(thing)
    unpickled = pickle.loads(pickle.dumps(thing))
    assert "_hash" not in unpickled.__dict__ and (unpickled, hash(unpickled)) == (thing, hash(thing))
