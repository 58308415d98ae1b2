"""Tests of the messages of a transfer: each device receives its missing elements once, from equally loaded senders."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from meshgen.ccl.exchange import exchange
from meshgen.ccl.routes import dealt, routes
from meshgen.mesh import Mesh, make_mesh
from meshgen.spec import P, Sharding, fit
from tests.sharding.reshard.reshard_oracle import random_sharding

XY = make_mesh({"x": 2, "y": 4})


def mask(sharding: Sharding, shape: tuple[int, ...], mesh: Mesh, rank: int) -> np.ndarray:
    held_elements = np.zeros(shape, int)
    held_elements[tuple(slice(a, max(a, b)) for a, b in sharding.ranges(shape, mesh, rank))] = 1
    return held_elements


def check(source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh) -> None:
    sent: Counter[int] = Counter()
    received = [mask(source, shape, mesh, r) * 0 for r in range(mesh.size)]
    largest = 0
    for message in routes(source, target, shape, mesh):
        slices = tuple(slice(a, b) for a, b in message.box)
        assert mask(source, shape, mesh, message.sender)[slices].all(), "a sender holds what it sends"
        assert message.sender != message.receiver
        received[message.receiver][slices] += 1
        sent[message.sender] += message.elements
        largest = max(largest, message.elements // max(b - a for a, b in message.box))
    for rank in range(mesh.size):
        missing = mask(target, shape, mesh, rank) * (1 - mask(source, shape, mesh, rank))
        np.testing.assert_array_equal(received[rank], missing)
    model = exchange(source, target, shape, mesh)
    assert max((int(r.sum()) for r in received), default=0) == model.received
    slack = largest * mesh.size  # one extra row for each split request
    assert max(sent.values(), default=0) <= model.sent + slack


@pytest.mark.parametrize("seed", range(60))
def test_routes_between_random_shardings_deliver_missing_elements(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mesh = [XY, make_mesh({"x": 2, "y": 3, "z": 2}), make_mesh({"x": 6})][seed % 3]
    shape = [(8, 12), (10, 3), (7,), (4, 6, 5), (0, 4)][seed % 5]
    source, target = (random_sharding(rng, len(shape), mesh) for _ in range(2))
    check(source, target, shape, mesh)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (fit(P("y"), 2), Sharding((("y",), ()), halo=((2, 3), (0, 0)))),
        (Sharding((("y",), ()), halo=((2, 3), (0, 0))), fit(P(None, "y"), 2)),
        (Sharding((("y",), ()), offsets=((0, 1, 1, 9, 10), ())), fit(P("x", "y"), 2)),
        (fit(P("y:(1)2"), 2), fit(P("y:(2)2"), 2)),
    ],
    ids=str,
)
def test_routes_support_halos_offsets_and_sub_axes(source: Sharding, target: Sharding) -> None:
    check(source, target, (10, 6), XY)


def test_replicas_share_sending_load() -> None:
    """Quarters become halves: three devices request each quarter, and the two devices that hold it send equally much."""
    messages = routes(fit(P("y"), 1), fit(P("x"), 1), (64,), XY)
    sent = Counter[int]()
    for message in messages:
        sent[message.sender] += message.elements
    assert set(sent.values()) == {24}


def test_routes_keep_summands_separate() -> None:
    source, target = fit(P("y", partial="x"), 1), fit(P(partial="x"), 1)
    for message in routes(source, target, (8,), XY):
        assert XY.coordinate(message.sender, "x") == XY.coordinate(message.receiver, "x")


@pytest.mark.parametrize(
    ("source", "target"), [(P(partial="y"), P(partial="z")), (P("z", partial="y"), P("y", partial="z"))]
)
def test_summands_move_individually_to_other_partial_axis(source: Sharding, target: Sharding) -> None:
    """A value that is partial along y becomes partial along z: device k of z gets summand k from device k of y.

    Nothing is sent if the receiver already holds this summand.
    """
    mesh = make_mesh({"y": 3, "z": 3})
    shardings = fit(source, 1), fit(target, 1)
    received: Counter[int] = Counter()
    for message in routes(*shardings, (9,), mesh):
        assert mesh.coordinate(message.sender, "y") == mesh.coordinate(message.receiver, "z")
        received[message.receiver] += message.elements
    unmoved_ranks = [rank for rank in range(9) if mesh.coordinate(rank, "y") == mesh.coordinate(rank, "z")]
    rows = 3 if source.split_axes else 9
    assert received == {rank: rows for rank in range(9) if rank not in unmoved_ranks}


def test_replicated_elements_are_not_sent() -> None:
    assert routes(fit(P(), 1), fit(P("x"), 1), (8,), XY) == ()
    assert routes(Sharding(()), Sharding(()), (), XY) == ()


def test_nearest_free_holder_serves_request() -> None:
    messages = dealt([(4, ((0, 2),)), (6, ((0, 2),))], [0, 5], lambda holder, receiver: abs(holder - receiver))
    assert [(m.sender, m.receiver) for m in messages] == [(5, 4), (0, 6)]


def test_smallest_request_is_split_between_holders() -> None:
    requests = [(4, ((0, 2),)), (5, ((0, 6),)), (6, ((0, 6),))]
    messages = dealt(requests, [0, 1], lambda holder, receiver: 0)
    assert [(m.sender, m.receiver, m.elements) for m in messages] == [(0, 5, 6), (1, 6, 6), (0, 4, 1), (1, 4, 1)]
