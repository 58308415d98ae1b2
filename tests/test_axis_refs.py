"""References to sub-axes: overlap, containment and nesting, checked against device coordinates."""

from __future__ import annotations

import itertools
import math

import pytest

from meshgen.axis_refs import contains, nests, overlap_fault, overlaps, uncovered_parts
from meshgen.mesh import make_mesh


def parts_of(size: int) -> list[str]:
    """Return all sub-axes of an axis `x` that have more than one device."""
    ends = [n for n in range(1, size + 1) if size % n == 0]
    return [f"x:({a}){b // a}" for a, b in itertools.combinations(ends, 2) if b % a == 0]


@pytest.mark.parametrize("size", (6, 8, 12))
def test_sub_axes_without_overlap_are_independent(size: int) -> None:
    mesh = make_mesh({"x": size})
    for left, right in itertools.product(parts_of(size), repeat=2):
        coordinate_pairs = {(mesh.coordinate(rank, left), mesh.coordinate(rank, right)) for rank in range(size)}
        independent = len(coordinate_pairs) == mesh.axis_size(left) * mesh.axis_size(right)
        assert overlaps(left, right) is overlaps(right, left)
        assert overlaps(left, right) or independent, (left, right)


@pytest.mark.parametrize("size", (6, 8, 12))
def test_groups_of_contained_sub_axis_lie_in_outer_groups(size: int) -> None:
    mesh = make_mesh({"x": size})
    for left, right in itertools.product(parts_of(size), repeat=2):
        groups = [set(group) for group in mesh.groups((left,))]
        inside = all(any(set(group) <= other for other in groups) for group in mesh.groups((right,)))
        assert not contains(left, right) or (inside and nests(left, right)), (left, right)
        assert contains(left, left)


@pytest.mark.parametrize(
    "left, right, together",
    [
        ("x:(1)2", "x:(2)3", True),
        ("x:(1)2", "x:(3)2", False),
        ("x:(1)2", "x:(1)3", False),
        ("x:(1)4", "x:(2)4", True),
        ("x:(2)3", "x:(3)4", False),
        ("x:(1)2", "x:(3)1", True),
        ("x:(1)2", "y:(1)3", True),
        ("x", "x:(1)3", True),
    ],
)
def test_nested_sub_axes_belong_to_one_factorization(left: str, right: str, together: bool) -> None:
    assert nests(left, right) is nests(right, left) is together


@pytest.mark.parametrize("size", (6, 8, 12))
def test_used_and_unused_sub_axes_factor_the_axis(size: int) -> None:
    mesh = make_mesh({"x": size, "y": 4})
    for first, second in itertools.product(parts_of(size), repeat=2):
        used = [first] if overlaps(first, second) else [first, second]
        left = uncovered_parts("x", size, ["y:(1)2", "y", *used])
        if not nests(first, used[-1]):
            continue
        assert math.prod(mesh.axis_size(ref) for ref in (*left, *used)) == size, (used, left)
        assert not any(overlaps(a, b) for a, b in itertools.combinations((*left, *used), 2)), (used, left)


def test_unused_axis_is_left_entirely_and_used_axis_not_at_all() -> None:
    assert uncovered_parts("x", 8, ["y"]) == ("x",)
    assert uncovered_parts("x", 8, ["x"]) == uncovered_parts("x:(1)4", 4, ["x"]) == ()
    assert uncovered_parts("x:(1)4", 4, ["x:(2)4"]) == ("x:(1)2",)


def test_overlap_fault_names_sizes_that_do_not_divide() -> None:
    fault = overlap_fault("y:(1)2", "y:(3)2")
    assert (
        fault.code == "MG0203"
        and "'y:(1)2' and 'y:(3)2' are not sub-axes of one factorization of their axis" in fault.message
    )
    assert "3 % 2 = 1" in fault.message
    assert "used more than once (as 'y' too)" in overlap_fault("y", "y:(3)2").message
