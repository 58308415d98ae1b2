"""Bytes from device to device: rings along the axes, exchanges among all of a group, sums as of the collectives."""

from __future__ import annotations

from meshgen import api
from meshgen.reports.page.traffic import matrices
from tests.reports.models import layers
from tests.reports.test_sentences import EXCHANGE


def test_a_ring_leads_from_each_device_to_the_next_of_its_group() -> None:
    executable = api.plan(layers(2), target="cpu")
    (found,) = matrices(executable)
    sent = {(a, b) for a, row in enumerate(found["bytes"]) for b, count in enumerate(row) if count}
    assert sent == {(4 * dp + n, 4 * dp + (n + 1) % 4) for dp in range(2) for n in range(4)}
    assert all(sum(row) == executable.comms.ring_bytes for row in found["bytes"])
    assert found["devices"][5] == "dp=1, tp=1"


def test_an_all_to_all_reaches_every_other_device() -> None:
    executable = api.plan(EXCHANGE, target="cpu")
    (found,) = matrices(executable)
    share = executable.comms.ring_bytes / 3
    assert found["bytes"] == [[0 if a == b else round(share) for b in range(4)] for a in range(4)]
