"""The cost of collectives: DESIGN's formulas, and transfers against counting by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from meshgen.ccl.between import Ends, between
from meshgen.ccl.cost import collective_seconds, link_axes, moving_axes, ring_bytes
from meshgen.ccl.exchange import Exchange, exchange
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import TensorType
from meshgen.machine.profiles import MACHINES
from meshgen.mesh import Axis, Mesh, make_mesh
from meshgen.spec import P, Sharding, fit
from tests.counting import calls
from tests.sharding.reshard.reshard_oracle import random_sharding

XY = make_mesh({"x": 2, "y": 4})


def f32(*shape: int) -> TensorType:
    return TensorType(shape, "f32")


@pytest.mark.parametrize(
    ("op", "attrs", "source", "result", "wanted"),
    [
        ("all_reduce", {"axes": ("y",), "kind": "sum"}, f32(1024), f32(1024), 6144),
        ("all_reduce", {"axes": ("x", "y"), "kind": "sum"}, f32(), f32(), 7),
        ("all_gather", {"axes": ("y",), "dim": 0}, f32(10, 3), f32(40, 3), 3 * 120),
        ("all_gather", {"axes": ("y",), "dim": 0}, f32(3), f32(10), 36),
        ("reduce_scatter", {"axes": ("y",), "dim": 0, "kind": "sum"}, f32(40), f32(10), 3 * 40),
        ("all_to_all", {"axes": ("y",), "split_dim": 1, "concat_dim": 0}, f32(2, 8), f32(8, 2), 3 * 16),
        ("all_to_all", {"axes": ("y",), "split_dim": 1, "concat_dim": 0}, f32(2, 5), f32(8, 2), 3 * 16),
        ("all_slice", {"axes": ("y",), "dim": 0}, f32(8), f32(2), 0),
        ("to_partial", {"axes": ("y",), "kind": "sum"}, f32(8), f32(8), 0),
        ("all_reduce", {"axes": (), "kind": "sum"}, f32(8), f32(8), 0),
        ("broadcast", {"axes": ("y",), "root": (0,)}, f32(8), f32(8), 32),
        ("gather_to", {"axes": ("y",), "dim": 0, "root": (0,)}, f32(2), f32(8), 24),
        ("scatter_from", {"axes": ("y",), "dim": 0, "root": (0,)}, f32(8), f32(2), 24),
        ("shift", {"axes": ("y",), "shift_axis": "y", "offset": 1, "rotate": True}, f32(8), f32(8), 32),
    ],
)
def test_bytes_on_a_ring(
    op: str, attrs: dict[str, object], source: TensorType, result: TensorType, wanted: int
) -> None:
    assert ring_bytes(op, attrs, source, result, XY) == wanted


def test_a_halo_exchange_moves_its_rows() -> None:
    wide = Sharding((("y",), ()), halo=((2, 1), (0, 0)))
    attrs = {"sharding": wide, "shape": (16, 5)}
    assert ring_bytes("update_halo", attrs, f32(7, 5), f32(7, 5), XY) == 3 * 5 * 4


def test_the_slowest_link_decides_and_more_peers_take_longer() -> None:
    mesh = Mesh((Axis("host", 2, bandwidth=10e9, latency=20e-6), Axis("gpu", 4, bandwidth=400e9, latency=5e-6)))
    kind = f32(1000)
    attrs = {"axes": ("host", "gpu"), "kind": "sum"}
    assert collective_seconds("all_reduce", attrs, kind, kind, mesh) == pytest.approx(20e-6 + 7000 / 10e9)
    attrs = {"axes": ("gpu",), "split_dim": 0, "concat_dim": 1}
    found = collective_seconds("all_to_all", attrs, f32(8, 2), f32(2, 8), mesh)
    assert found == pytest.approx(5e-6 + 2 * DEFAULT.links.peer_seconds + 48 / 400e9)
    assert collective_seconds("all_slice", {"axes": ("gpu",), "dim": 0}, f32(8), f32(2), mesh) == 0


def test_axes_that_split_alike_stay_out_of_a_transfer() -> None:
    source, target = fit(P(("x", "y")), 2), fit(P("x", "y"), 2)
    assert moving_axes(source, target, (8, 8), XY) == ("y",)
    assert moving_axes(source, target, (10, 8), XY) == ("x", "y"), "tiles of 2 rows do not nest in tiles of 5"
    attrs = {"source": source, "target": target, "shape": (8, 8)}
    assert link_axes("retile", attrs, XY) == ("y",)


def test_of_parts_that_overlap_the_whole_axis_moves() -> None:
    mesh = make_mesh({"x": 8, "y": 2})
    halves, quarters = fit(P(("x:(1)2", "y")), 2), fit(P(None, "x:(1)4"), 2)
    assert moving_axes(halves, quarters, (16, 16), mesh) == ("x", "y")
    assert moving_axes(halves, fit(P(None, "x:(2)4"), 2), (16, 16), mesh) == ("x:(1)2", "x:(2)4", "y")
    for machine in (None, MACHINES["dgx-h100"]):
        attrs = {"source": halves, "target": quarters, "shape": (16, 16)}
        ends = TensorType((4, 16), "f32"), TensorType((16, 4), "f32")
        assert collective_seconds("retile", attrs, *ends, replace(mesh, machine=machine)) > 0


def counted(source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh) -> tuple[int, float]:
    """Received and sent elements, counted one by one with boolean masks."""

    def mask(sharding: Sharding, rank: int) -> np.ndarray:
        found = np.zeros(shape, bool)
        found[tuple(slice(a, max(a, b)) for a, b in sharding.ranges(shape, mesh, rank))] = True
        return found

    owned = [mask(replace(source, halo=()), r) for r in range(mesh.size)]
    wanted = [mask(target, r) for r in range(mesh.size)]
    received = max(int((w & ~mask(source, r)).sum()) for r, w in enumerate(wanted))
    load = np.zeros(shape)
    for own, want in zip(owned, wanted, strict=True):
        load += want & ~own
    load /= np.maximum(sum(own.astype(int) for own in owned), 1)
    return received, max(float(load[own].sum()) for own in owned)


@pytest.mark.parametrize("seed", range(60))
def test_transfers_against_counting(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mesh = [XY, make_mesh({"x": 2, "y": 3, "z": 2}), make_mesh({"x": 6})][seed % 3]
    shape = [(8, 12), (10, 3), (7,), (4, 6, 5), ()][seed % 5]
    source, target = (random_sharding(rng, len(shape), mesh) for _ in range(2))
    found = exchange(source, target, shape, mesh)
    received, sent = counted(source, target, shape, mesh)
    assert found.received == received
    assert found.sent == int(np.ceil(sent - 1e-9))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (fit(P("y"), 2), Sharding((("y",), ()), halo=((2, 3), (0, 0)))),
        (Sharding((("y",), ()), offsets=((0, 1, 1, 9, 10), ())), fit(P(None, "y"), 2)),
        (fit(P("x"), 2), Sharding((("y",), ()), offsets=((0, 5, 6, 6, 10), ()))),
        (fit(P("y:(1)2"), 2), fit(P(None, "y:(2)2"), 2)),
        (fit(P("y:(1)2"), 2), fit(P("y:(2)2"), 2)),
    ],
    ids=str,
)
def test_halos_offsets_and_parts_of_axes_against_counting(source: Sharding, target: Sharding) -> None:
    found = exchange(source, target, (10, 6), XY)
    received, sent = counted(source, target, (10, 6), XY)
    assert (found.received, found.sent) == (received, int(np.ceil(sent - 1e-9)))


def test_a_partial_part_of_an_axis_is_no_replica() -> None:
    """Devices that differ in a partial axis hold different summands and cannot stand in for each other."""
    source, target = fit(P("y:(2)2", partial="y:(1)2"), 1), fit(P(partial="y:(1)2"), 1)
    assert exchange(source, target, (8,), XY).sent == 4
    assert exchange(source.without_partial(), target.without_partial(), (8,), XY).sent == 4


def test_big_meshes_cost_no_more() -> None:
    source, target = fit(P("x", "y"), 2), fit(P("y", "x"), 2)

    def of_pods(pods: int) -> Callable[[], Exchange]:
        mesh = make_mesh({"pod": pods, "x": 2, "y": 4})
        return lambda: exchange(source, target, (4096, 4096), mesh)

    (few, _), (many, found) = calls(of_pods(3)), calls(of_pods(512))
    assert many <= few
    assert found == exchange(source, target, (4096, 4096), XY)


def test_blocks_that_are_exchanged_within_a_dim_are_padded() -> None:
    attrs = {"axes": ("y",), "split_dim": 0, "concat_dim": 0}
    assert ring_bytes("all_to_all", attrs, f32(5, 3), f32(5, 3), XY) == 3 * 2 * 3 * 4


def test_all_axes_that_split_alike_stay_out_of_a_transfer() -> None:
    mesh = make_mesh({"x": 2, "y": 2, "z": 2})
    source, target = fit(P(("x", "y", "z")), 2), fit(P(("x", "y"), "z"), 2)
    assert moving_axes(source, target, (8, 8), mesh) == ("z",)


@pytest.mark.parametrize(("source", "target"), [(P(None), P("x")), (P("x"), P(None))], ids=["spread", "gathered"])
def test_both_sides_of_a_transfer_between_meshes_take_as_long_as_the_slower_one(source: Sharding, target: Sharding) -> None:  # fmt: skip
    first, second = make_mesh({"x": 4}, "first"), make_mesh({"x": 2}, "second")
    attrs = {"channel": 0, "shape": (8,), "source": source, "target": target}
    types = [f32(*end.local_shape((8,), mesh)) for end, mesh in ((source, first), (target, second))]
    send = collective_seconds("transfer_send", attrs | {"peer": second}, types[0], f32(), first)
    receive = collective_seconds("transfer_recv", attrs | {"peer": first}, types[1], types[1], second)
    sides = between(Ends.of("transfer_send", attrs | {"peer": second}, first))
    assert sides[0] != sides[1]
    links = DEFAULT.links
    expected = links.network_latency_seconds + 4 * max(sides) / links.network_bytes_per_second
    assert send == receive == pytest.approx(expected)


@pytest.mark.parametrize(
    ("source", "target", "peers"),
    [("y", "x", 2), ("x", "y", 1), ("y", None, 4), (None, "y", 0)],
    ids=["halves-of-quarters", "quarters-of-halves", "whole-of-quarters", "nothing-missing"],
)
def test_peers_are_the_tiles_that_a_device_takes_from(source: str, target: str, peers: int) -> None:
    assert exchange(fit(P(source), 1), fit(P(target), 1), (8,), XY).peers == peers
