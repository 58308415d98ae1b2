"""The sizes at which an open program is read. They must be distinct, inside their ranges, and cover all remainders of
the divisors.
"""

from __future__ import annotations

import pytest

from meshgen.frontend.opening.points import LARGEST_DIVISOR, far_fitting_point, fitting_points, quotient_points

RANGES = [(0, None), (2, 512), (1, 8), (1000, 2000), (0, 23), (2, 6)]


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_points_are_distinct_and_inside_range(low: int, high: int | None) -> None:
    points = fitting_points({"s": (low, high), "t": (0, None)})
    assert points is not None and len({point["s"] for point in points}) == len(points)
    further_points = [
        far_fitting_point({"s": (low, high), "t": (0, None)}),
        *quotient_points({"s": (low, high), "t": (0, None)}),
    ]
    assert all(max(low, 2) <= point["s"] <= (high or point["s"]) for point in [*points, *further_points])
    assert not {point["s"] for point in points} & {point["t"] for point in points}


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_points_differ_modulo_every_divisor(low: int, high: int | None) -> None:
    sizes = [point["s"] for point in fitting_points({"s": (low, high)}) or ()]
    assert all(len({n % divisor for n in sizes}) > 1 for divisor in range(2, 100))


def test_quotient_points_have_all_remainders() -> None:
    for point in ({"s": (0, None), "t": (0, None)}, {"s": (100, 1000), "t": (5, 40)}):
        for name in "st":
            sizes = [sample[name] for sample in quotient_points(point)]
            for divisor in range(2, LARGEST_DIVISOR + 1):
                assert {n % divisor for n in sizes} == {*range(divisor)}


def test_range_with_too_few_sizes_has_no_points() -> None:
    assert fitting_points({"s": (1, 5)}) is None
