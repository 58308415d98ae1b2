"""Programs at realistic sizes. None sends more bytes than XLA's plan, and most send as few as the cheapest known
schedule.
"""

from __future__ import annotations

from functools import cache

import pytest

from meshgen import api
from tests.acceptance.cases import needs_cases, peers, realistic, realistic_names

pytestmark = needs_cases
NAMES = realistic_names()
# ratio, chosen: a program that sends up to 5 % more than the cheapest known schedule counts as equal to it
ABOVE_HAND = 1.05


@cache
def ring_bytes(name: str) -> float:
    """Return the bytes that each device sends with ring algorithms."""
    return api.plan(realistic(name), target="cpu").cost.ring_bytes


@pytest.mark.parametrize("name", NAMES)
def test_program_sends_no_more_bytes_than_xla(name: str) -> None:
    xla = peers()[name]["xla_gpu"]
    if not xla:
        pytest.skip("XLA was not measured")
    assert ring_bytes(name) <= xla["ring_bytes"]


def test_most_programs_reach_the_cheapest_known_schedule() -> None:
    best = {name: hand["bytes"] for name in NAMES if (hand := peers()[name]["hand"])}
    above = {name: (ring_bytes(name), hand) for name, hand in best.items() if ring_bytes(name) > ABOVE_HAND * hand}
    assert len(best) >= 30
    assert len(above) <= 0.2 * len(best), above
