"""Transfers between meshes: which rows each device sends to which device, and how many bytes are sent."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.ccl.mesh_transfers import Ends, between, messages
from meshgen.mesh import make_mesh
from meshgen.sharding.analyze import analyze
from meshgen.spec import Sharding, fit
from tests.sharding.multi_mesh.meshes_programs import (
    SOURCES,
    TARGETS,
    assert_correct_at_all_stages,
    ops,
    stages_of,
    traced,
)


def transfer_between(source: Sharding, target: Sharding, shape: tuple[int, ...]) -> Ends:
    return Ends(shape, source, make_mesh({"dp": 2, "tp": 2}, "a"), target, make_mesh({"x": 3, "y": 2}, "b"))


@pytest.mark.parametrize("shape", [(10, 7), (12, 6), (2, 1)], ids=str)
@pytest.mark.parametrize("source, target", [*itertools.product(SOURCES, [*TARGETS, mg.P("x", "y")])], ids=str)
def test_transfer_messages_deliver_each_row_once(source: Sharding, target: Sharding, shape: tuple[int, ...]) -> None:
    source, target = fit(source, 2), fit(target, 2)
    crossing = transfer_between(source, target, shape)
    sent, received = np.zeros(4), np.zeros(6)
    for message in messages(crossing):
        sent[message.sender] += message.elements
        received[message.receiver] += message.elements
    for rank in range(6):
        box = target.ranges(shape, crossing.receiver, rank)
        assert received[rank] == np.prod([b - a for a, b in box])
    most_sent, most_received = between(crossing)
    assert received.max() == most_received
    assert sent.max() <= most_sent + max(shape)  # the ends of the sent ranges are rounded up to whole rows
    assert sent.sum() == received.sum()


def test_large_replicas_are_gathered_on_target_mesh() -> None:
    def program(x: Any) -> Any:
        return mg.annotate(mg.annotate(x, mg.P("dp", mesh="a")) * 2.0, mg.P(mesh="b")) + 1.0

    small = stages_of(traced(program, types=["f32[12,4]"], in_specs=None))["optimize"]
    large = stages_of(traced(program, types=["f32[4096,1024]"], in_specs=None), "optimize")["optimize"]
    assert "all_gather" not in ops(small, 1) and "all_gather" in ops(large, 1)
    reason = next(n for n in large.parts[1].graph.nodes if n.op == "transfer_recv").notes.why
    assert "from [{dp" in reason and "to [{x}, {}]" in reason


def test_transfer_bytes_are_counted_on_both_meshes() -> None:
    stages = stages_of(traced())
    sender, receiver = (analyze(part) for part in stages["optimize"].parts)
    assert sender.counts == {"transfer_send": 1} and receiver.counts == {"transfer_recv": 1}
    assert receiver.ring_bytes == 4 * 6 * 4  # 10 rows on three devices give tiles of 4 rows with 6 floats.


def test_empty_value_is_not_transferred() -> None:
    def program(x: Any, y: Any) -> Any:
        return mg.annotate(mg.concatenate([x, y]), mg.P(mesh="b")) * 2.0

    module = traced(program, types=["f32[0,4]", "f32[6,4]"], in_specs={"x": mg.P(mesh="a"), "y": mg.P(mesh="b")})
    stages = assert_correct_at_all_stages(module)
    assert [ops(stages["optimize"], part).count(op) for part, op in enumerate(("transfer_send", "transfer_recv"))] == [0, 0]  # fmt: skip


def test_transfers_are_ordered_on_both_meshes() -> None:
    def program(x: Any, y: Any) -> Any:
        return mg.annotate(x, mg.P(mesh="b")) @ mg.annotate(mg.tanh(y), mg.P(mesh="b"))

    specs = {"x": mg.P(mesh="a"), "y": mg.P(mesh="a")}
    for part in stages_of(traced(program, types=["f32[4,4]", "f32[4,4]"], in_specs=specs), "propagate")[
        "propagate"
    ].parts:
        first, second = [node for node in part.graph.nodes if node.op.startswith("transfer_")]
        assert first.results[-1] in second.operands
