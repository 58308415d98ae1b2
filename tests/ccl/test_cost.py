"""Tests of the cost of collectives: bytes by formula, links and latencies, and transfers compared with counting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from meshgen.ccl.cost import collective_seconds, link_axes, moving_axes, ring_bytes
from meshgen.ccl.exchange import Exchange, exchange
from meshgen.ccl.mesh_transfers import Ends, between
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
    ("op", "attrs", "source", "result", "expected_bytes"),
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
def test_ring_bytes_follow_formula(
    op: str, attrs: dict[str, object], source: TensorType, result: TensorType, expected_bytes: int
) -> None:
    assert ring_bytes(op, attrs, source, result, XY) == expected_bytes


def test_halo_exchange_moves_halo_rows() -> None:
    wide = Sharding((("y",), ()), halo=((2, 1), (0, 0)))
    attrs = {"sharding": wide, "shape": (16, 5)}
    assert ring_bytes("update_halo", attrs, f32(7, 5), f32(7, 5), XY) == 3 * 5 * 4


def test_collective_time_depends_on_slowest_link_and_peer_count() -> None:
    mesh = Mesh((Axis("host", 2, bandwidth=10e9, latency=20e-6), Axis("gpu", 4, bandwidth=400e9, latency=5e-6)))
    kind = f32(1000)
    attrs = {"axes": ("host", "gpu"), "kind": "sum"}
    assert collective_seconds("all_reduce", attrs, kind, kind, mesh) == pytest.approx(20e-6 + 7000 / 10e9)
    attrs = {"axes": ("gpu",), "split_dim": 0, "concat_dim": 1}
    seconds = collective_seconds("all_to_all", attrs, f32(8, 2), f32(2, 8), mesh)
    assert seconds == pytest.approx(5e-6 + 2 * DEFAULT.links.peer_seconds + 48 / 400e9)
    assert collective_seconds("all_slice", {"axes": ("gpu",), "dim": 0}, f32(8), f32(2), mesh) == 0


def test_moving_axes_exclude_common_major_axis() -> None:
    source, target = fit(P(("x", "y")), 2), fit(P("x", "y"), 2)
    assert moving_axes(source, target, (8, 8), XY) == ("y",)
    assert moving_axes(source, target, (10, 8), XY) == ("x", "y"), "tiles of 2 rows do not nest in tiles of 5"
    attrs = {"source": source, "target": target, "shape": (8, 8)}
    assert link_axes("retile", attrs, XY) == ("y",)


def test_moving_axes_include_whole_axis_of_overlapping_sub_axes() -> None:
    mesh = make_mesh({"x": 8, "y": 2})
    halves, quarters = fit(P(("x:(1)2", "y")), 2), fit(P(None, "x:(1)4"), 2)
    assert moving_axes(halves, quarters, (16, 16), mesh) == ("x", "y")
    assert moving_axes(halves, fit(P(None, "x:(2)4"), 2), (16, 16), mesh) == ("x:(1)2", "x:(2)4", "y")
    for machine in (None, MACHINES["dgx-h100"]):
        attrs = {"source": halves, "target": quarters, "shape": (16, 16)}
        ends = TensorType((4, 16), "f32"), TensorType((16, 4), "f32")
        assert collective_seconds("retile", attrs, *ends, replace(mesh, machine=machine)) > 0


def counted(source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh) -> tuple[int, float]:
    """Return the most elements that a device receives, and the most that a device sends, counted with boolean masks."""

    def mask(sharding: Sharding, rank: int) -> np.ndarray:
        held_elements = np.zeros(shape, bool)
        held_elements[tuple(slice(a, max(a, b)) for a, b in sharding.ranges(shape, mesh, rank))] = True
        return held_elements

    owned = [mask(replace(source, halo=()), r) for r in range(mesh.size)]
    target_masks = [mask(target, r) for r in range(mesh.size)]
    received = max(int((w & ~mask(source, r)).sum()) for r, w in enumerate(target_masks))
    load = np.zeros(shape)
    for owned_elements, needed_elements in zip(owned, target_masks, strict=True):
        load += needed_elements & ~owned_elements
    load /= np.maximum(sum(owned_elements.astype(int) for owned_elements in owned), 1)
    return received, max(float(load[owned_elements].sum()) for owned_elements in owned)


@pytest.mark.parametrize("seed", range(60))
def test_exchange_of_random_shardings_matches_counting(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mesh = [XY, make_mesh({"x": 2, "y": 3, "z": 2}), make_mesh({"x": 6})][seed % 3]
    shape = [(8, 12), (10, 3), (7,), (4, 6, 5), ()][seed % 5]
    source, target = (random_sharding(rng, len(shape), mesh) for _ in range(2))
    cost = exchange(source, target, shape, mesh)
    received, sent = counted(source, target, shape, mesh)
    assert cost.received == received
    assert cost.sent == int(np.ceil(sent - 1e-9))


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
def test_exchange_with_halos_offsets_and_sub_axes_matches_counting(source: Sharding, target: Sharding) -> None:
    cost = exchange(source, target, (10, 6), XY)
    received, sent = counted(source, target, (10, 6), XY)
    assert (cost.received, cost.sent) == (received, int(np.ceil(sent - 1e-9)))


def test_partial_sub_axis_is_not_replicated() -> None:
    """Devices that differ along a partial axis hold different summands and cannot replace each other as senders."""
    source, target = fit(P("y:(2)2", partial="y:(1)2"), 1), fit(P(partial="y:(1)2"), 1)
    assert exchange(source, target, (8,), XY).sent == 4
    assert exchange(source.without_partial(), target.without_partial(), (8,), XY).sent == 4


def test_exchange_cost_is_independent_of_replicating_axes() -> None:
    source, target = fit(P("x", "y"), 2), fit(P("y", "x"), 2)

    def of_pods(pods: int) -> Callable[[], Exchange]:
        mesh = make_mesh({"pod": pods, "x": 2, "y": 4})
        return lambda: exchange(source, target, (4096, 4096), mesh)

    (few, _), (many, cost) = calls(of_pods(3)), calls(of_pods(512))
    assert many <= few
    assert cost == exchange(source, target, (4096, 4096), XY)


def test_all_to_all_within_one_dim_pads_blocks() -> None:
    attrs = {"axes": ("y",), "split_dim": 0, "concat_dim": 0}
    assert ring_bytes("all_to_all", attrs, f32(5, 3), f32(5, 3), XY) == 3 * 2 * 3 * 4


def test_moving_axes_exclude_all_common_major_axes() -> None:
    mesh = make_mesh({"x": 2, "y": 2, "z": 2})
    source, target = fit(P(("x", "y", "z")), 2), fit(P(("x", "y"), "z"), 2)
    assert moving_axes(source, target, (8, 8), mesh) == ("z",)


@pytest.mark.parametrize(("source", "target"), [(P(None), P("x")), (P("x"), P(None))], ids=["spread", "gathered"])
def test_both_sides_of_mesh_transfer_take_time_of_slower_side(source: Sharding, target: Sharding) -> None:  # fmt: skip
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
def test_exchange_peers_count_source_tiles(source: str, target: str, peers: int) -> None:
    assert exchange(fit(P(source), 1), fit(P(target), 1), (8,), XY).peers == peers
