"""Limits of `diff --fail-on`: relative and absolute growth, totals over collective kinds, and separate limits per mesh."""

from __future__ import annotations

import pytest

from meshgen.errors import UsageError
from meshgen.reports.growth_limits import limit_of

OLD = {"ring bytes": 1000, "collectives: all_reduce": 2, "collectives: all_gather": 1, "step seconds": 1e-3, "kernels": 5, "distinct kernels": 1}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "new", "fails"),
    [
        ("bytes:+5%", {"ring bytes": 1050}, False),
        ("bytes:+5%", {"ring bytes": 1051}, True),
        ("bytes:+1kB", {"ring bytes": 2000}, False),
        ("bytes:+1kB", {"ring bytes": 2001}, True),
        ("step:+10us", {"step seconds": 1.011e-3}, True),
        ("collectives:+0", {"collectives: all_reduce": 3, "collectives: all_gather": 0}, False),
        ("collectives:+0", {"collectives: all_to_all": 1}, True),
        ("kernels:+0", {"distinct kernels": 9}, False),
    ],
)
def test_figure_beyond_growth_limit_fails(text: str, new: dict[str, float], fails: bool) -> None:
    assert bool(list(limit_of(text).exceeded(OLD, OLD | new))) == fails


def test_growth_limit_is_checked_per_mesh() -> None:
    old, new = {"@a ring bytes": 10, "@b ring bytes": 10}, {"@a ring bytes": 5, "@b ring bytes": 11}
    assert list(limit_of("bytes:+0").exceeded(old, new)) == ["@b ring bytes: 10 B -> 11 B, at most 10 B is allowed"]


@pytest.mark.parametrize("text", ["bytes", "bytes:5%", "speed:+5%", "bytes:+5 apples"])
def test_malformed_growth_limit_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="does not limit a figure"):
        limit_of(text)
