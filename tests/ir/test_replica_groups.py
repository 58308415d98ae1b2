"""Devices at a distance from each other as axes of a mesh, or as none."""

from __future__ import annotations

import pytest

from meshgen.ir.replica_groups import axes_along
from meshgen.mesh import make_mesh

WIDE = make_mesh({"x": 2, "y": 6})


@pytest.mark.parametrize(
    ("count", "stride", "axes"),
    [
        (6, 1, ["y"]),
        (2, 6, ["x"]),
        (12, 1, ["x", "y"]),
        (3, 1, ["y:(2)3"]),
        (2, 3, ["y:(1)2"]),
        (1, 5, []),
        (4, 1, None),  # 4 does not divide the 6 devices along y
        (9, 1, None),  # nor do 6 divide 9
        (2, 7, None),  # one step along both axes is none along one
        (2, 12, None),  # beyond the mesh
    ],
)
def test_devices_at_equal_distances_are_axes_or_parts_of_such(count: int, stride: int, axes: list[str] | None) -> None:
    assert axes_along(count, stride, WIDE) == axes
