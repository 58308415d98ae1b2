"""Tests of volume formulas of collectives and transfers: they equal `ring_bytes` on every mesh and for every size."""

from __future__ import annotations

import math

import pytest

from meshgen.ccl.cost import ring_bytes
from meshgen.ccl.exchange import exchange
from meshgen.ccl.halo import RowFetch, rows_moved
from meshgen.ccl.mesh_transfers import Ends, between
from meshgen.ccl.traffic_counts import Fetched, devices
from meshgen.ccl.volume import Formula, formula_of
from meshgen.ir.graph import TensorType, Value
from meshgen.ir.symbols import Dim, Expr
from meshgen.mesh import Mesh, make_mesh
from meshgen.spec import P, Sharding
from tests.ccl.formula_text import formula_value

MESH = make_mesh({"x": 2, "y": 4})


def formula(op: str, shape: tuple[int, ...], source: Sharding, target: Sharding, result: tuple[int, ...] | None = None, **attrs: object) -> Formula:  # fmt: skip
    operand = Value(TensorType(shape, "f32"), sharding=source)
    result_value = Value(TensorType(result or shape, "f32"), sharding=target)
    return formula_of(op, attrs, operand, result_value, MESH)


@pytest.mark.parametrize(
    "collective_volume, text",
    [
        (formula("all_reduce", (8, 128), P(None, None, partial="y"), P(None, None), axes=("y",), kind="sum"), "2*(n_y-1)/n_y * 4096"),
        (formula("all_reduce", (8, 128), P("x", None, partial="y"), P("x", None), axes=("y",), kind="sum"), "2*(n_y-1)/n_y * ceil(8/n_x) * 512"),
        (formula("all_gather", (10, 4), P("x", None), P(None, None), axes=("x",), dim=0), "(n_x-1) * ceil(10/n_x) * 16"),
        (formula("all_gather", (16, 4), P(("x", "y"), None), P(None, None), axes=("x", "y"), dim=0), "(n_x*n_y-1) * ceil(16/(n_x*n_y)) * 16"),
        (formula("reduce_scatter", (8, 4), P(None, None, partial="y"), P("y", None), axes=("y",), dim=0, kind="sum"), "(n_y-1) * ceil(8/n_y) * 16"),
        (formula("all_to_all", (8, 6), P("y", None), P(None, "y"), axes=("y",), split_dim=1, concat_dim=0), "(n_y-1) * ceil(6/n_y) * ceil(8/n_y) * 4"),
        (formula("all_gather", (8,), P("y:(1)2"), P(None), axes=("y:(1)2",), dim=0), "16"),
        (formula("all_slice", (8,), P(None), P("y"), axes=("y",), dim=0), "0"),
    ],
)  # fmt: skip
def test_collective_volume_formula_has_expected_text_and_value(collective_volume: Formula, text: str) -> None:
    assert str(collective_volume) == text
    for sizes in ((1, 1), (2, 4), (3, 5), (8, 16), (7, 1)):
        mesh = make_mesh({"x": sizes[0], "y": sizes[1]})
        assert collective_volume.at(mesh) == math.ceil(formula_value(text, mesh))


def test_group_size_formula_has_expected_text() -> None:
    assert [str(devices(refs)) for refs in ((), ("x",), ("x", "y:(1)2"), ("y:(2)2",))] == [
        "1",
        "n_x",
        "2*n_x",
        "2",
    ]


RESHARDS = {
    "permute": ("permute", P("x", None), P("y", None), "ceil(a_0/n_y) * 40"),
    "retile": ("retile", P("x", "y"), P("y", "x"), "ceil(10/n_y) * ceil(a_0/n_x) * 4"),
    "uneven": ("retile", P(("x", "y"), None), P("y", None), "ceil(a_0/n_y) * 40"),
}


@pytest.mark.parametrize("name", RESHARDS)
@pytest.mark.parametrize("sizes", [(2, 4), (3, 5), (1, 7), (4, 4)])
def test_transfer_formula_matches_exchange_on_every_mesh_and_size(name: str, sizes: tuple[int, int]) -> None:
    op, source, target, text = RESHARDS[name]
    kind = TensorType((Dim.named("a_0", 24), 10), "f32")
    value, mesh = Value(kind, sharding=source), make_mesh({"x": sizes[0], "y": sizes[1]})
    attrs = {"source": source, "target": target, "shape": kind.shape}
    volume = formula_of(op, attrs, value, Value(kind, sharding=target), MESH, {"a_0": 24})
    assert str(volume) == text
    for rows in (24, 9, 2):
        expected = exchange(source, target, (rows, 10), mesh).elements * 4
        assert volume.at(mesh, {"a_0": rows}) == expected
    assert volume.at(mesh) == exchange(source, target, (24, 10), mesh).elements * 4


@pytest.mark.parametrize("sizes", [(4, 4), (8, 8)])
def test_moved_summands_are_counted_in_volume(sizes: tuple[int, int]) -> None:
    mesh = make_mesh(dict(zip("xy", sizes, strict=True)))
    source, target = (Sharding(((), ()), ((axis, "sum"),)) for axis in "xy")
    attrs = {"source": source, "target": target, "shape": (64, 64)}
    value = Value(TensorType((64, 64), "f32"))
    assert formula_of("permute", attrs, value, value, mesh).at(mesh) == 64 * 64 * 4
    assert ring_bytes("permute", attrs, value.type, value.type, mesh) == 64 * 64 * 4


def test_message_volume_is_zero_in_groups_of_one() -> None:
    volume = formula("shift", (8, 4), P("x", None), P("x", None), axes=("y",), shift_axis="y", offset=1)
    assert str(volume) == "min(n_y-1, 1) * ceil(8/n_x) * 16"
    assert [volume.at(make_mesh({"x": 2, "y": size})) for size in (1, 2, 5)] == [0, 64, 64]


FETCHES = {
    "halo": ({"base": -1, "step": 8, "limit": 32}, 10, "min(n_x-1, 2) * 16"),
    "one side": ({"base": 0, "step": 8, "limit": 32}, 11, "min(n_x-1, 1)*3 * 16"),
    "both sides": ({"base": -2, "step": 8, "limit": 32}, 11, "(min(n_x-1, 2) + min(n_x-1, 1)) * 16"),
    "rotation": ({"base": 31, "step": 8, "limit": 32, "wrap": True}, 8, "min(n_x-1, 1) * 16"),
    "cut": ({"base": 4, "step": 6, "limit": 28}, 6, "fetched(n_x: 6 rows from 6*i + 4 on, of tiles of 8) * 16"),
    "two": ({"base": 0, "step": 8, "limit": 32, "parts": (0, 8, 0, 8, 9, 32, 0, 8, -1, 8, 8, 32)}, 17,
            "fetched(n_x: 9 rows from 8*i on, of tiles of 8; 8 rows from 8*i - 1 on, of tiles of 8) * 16"),
}  # fmt: skip


@pytest.mark.parametrize("name", FETCHES)
def test_fetched_rows_have_volume_formula(name: str) -> None:
    attrs, rows, text = FETCHES[name]
    operand, result = Value(TensorType((8, 4), "f32")), Value(TensorType((rows, 4), "f32"))
    mesh = make_mesh({"x": 4})
    volume = formula_of("fetch_rows", {"axes": ("x",), "dim": 0, **attrs}, operand, result, mesh)
    assert str(volume) == text
    assert volume.at(mesh) == ring_bytes(
        "fetch_rows", {"axes": ("x",), "dim": 0, **attrs}, operand.type, result.type, mesh
    )
    assert volume.at(make_mesh({"x": 1})) == 0


def test_wide_halo_has_no_closed_volume_formula() -> None:
    """Halos wider than a tile come from several devices, so a neighbor count does not describe them."""
    wide = Fetched(devices(("x",)), (tuple(map(Expr.of, (2, -3, 2, 8, 8))),))
    assert "fetched(" in wide.form({"n_x": 4}) and wide.at({"n_x": 4}) == rows_moved([RowFetch(4, 2, -3, 2, 8, 8)])
    near = Fetched(devices(("x",)), (tuple(map(Expr.of, (2, -1, 2, 4, 8))),))
    assert near.form({"n_x": 4}) == "min(n_x-1, 2)"


def test_mesh_transfer_formula_uses_sizes_of_both_meshes() -> None:
    sender, receiver = Mesh(make_mesh({"a": 2, "b": 3}).axes, "first"), Mesh(make_mesh({"c": 4}).axes, "second")
    kind, ends = TensorType((10, 6), "f32"), {"source": P("a", None), "target": P("c", None), "shape": (10, 6)}
    value = Value(kind)
    send = formula_of("transfer_send", {**ends, "peer": receiver}, value, value, sender)
    receive = formula_of("transfer_recv", {**ends, "peer": sender}, value, value, receiver)
    assert (str(send), str(receive)) == ("ceil(6*ceil(10/n_a)/n_b) * 4", "ceil(10/n_c) * 24")
    spread = formula_of("transfer_send", {**ends, "target": P(None, None), "peer": receiver}, value, value, sender)
    assert str(spread) == "ceil(6*ceil(10/n_a)*n_c@second/n_b) * 4"
    for receiver_size in (1, 2, 5):
        sizes = make_mesh({"c": receiver_size}).axes
        receiver_ends = Ends((10, 6), P("a", None), sender, P(None, None), Mesh(sizes, "second"))
        assert spread.at(sender, {"n_c@second": receiver_size}) == between(receiver_ends)[0] * 4
