"""Device-to-device traffic matrices: rings along axes and all-to-all exchanges, with the bytes of the collectives."""

from __future__ import annotations

from meshgen import api
from meshgen.reports.page.traffic import matrices
from tests.reports.models import layers
from tests.reports.test_sentences import EXCHANGE


def test_ring_traffic_goes_to_next_device_of_group() -> None:
    executable = api.plan(layers(2), target="cpu")
    (matrix,) = matrices(executable)
    sent = {(a, b) for a, row in enumerate(matrix["bytes"]) for b, count in enumerate(row) if count}
    assert sent == {(4 * dp + n, 4 * dp + (n + 1) % 4) for dp in range(2) for n in range(4)}
    assert all(sum(row) == executable.comms.ring_bytes for row in matrix["bytes"])
    assert matrix["devices"][5] == "dp=1, tp=1"


def test_all_to_all_traffic_reaches_every_other_device() -> None:
    executable = api.plan(EXCHANGE, target="cpu")
    (matrix,) = matrices(executable)
    share = executable.comms.ring_bytes / 3
    assert matrix["bytes"] == [[0 if a == b else round(share) for b in range(4)] for a in range(4)]
