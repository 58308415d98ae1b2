"""Tests of the finest sub-axes of mesh axes, their nesting, and the canonical form of equal shardings."""

from __future__ import annotations

import pytest

from meshgen.ir.axis_parts import AxisParts, merged
from meshgen.mesh import make_mesh
from meshgen.spec import P

MESH = make_mesh({"x": 2, "y": 12, "z": 1})


def test_axis_parts_split_at_every_sub_axis_boundary() -> None:
    parts = AxisParts.of(MESH, ["y:(2)3", "x"])
    assert parts.parts["y"] == ("y:(1)2", "y:(2)3", "y:(6)2")
    assert parts.refine(("y",)) == parts.parts["y"] and parts.refine(("y:(1)6",)) == ("y:(1)2", "y:(2)3")
    assert parts.merge(parts.refine(("x", "y"))) == ("x", "y")


def test_axis_parts_leave_out_sub_axes_that_do_not_nest() -> None:
    parts = AxisParts.of(MESH, ["y:(2)3", "y:(1)3", "y:(2)2", "y:(1)6", "z"])
    assert parts.parts["y"] == ("y:(1)2", "y:(2)3", "y:(6)2")
    assert parts.fits("x", "y", "y:(6)2", "y:(3)1") and not parts.fits("y:(1)3") and not parts.fits("y:(2)2")
    with pytest.raises(AssertionError, match="do not nest"):
        parts.refine(("y:(1)3",))
    assert parts.cover(("y:(1)2", "x")) == ("y:(1)2", "x")
    assert parts.cover(("y:(1)3",)) == parts.parts["y"], "an axis part that does not nest needs all parts of the axis"


@pytest.mark.parametrize(
    "sharding",
    [P(("y:(1)2", "y:(2)6"), "x"), P(("y:(1)3", "y:(3)4"), ("x", "z")), P(("y:(1)3", "y:(3)1", "y:(3)2", "y:(6)2"), "x")],
    ids=str,
)  # fmt: skip
def test_merged_gives_equal_shardings_one_form(sharding) -> None:
    assert merged(sharding, MESH) == P("y", "x")


def test_merged_joins_partial_sub_axes_of_one_kind() -> None:
    sharding = P(None, partial={"y:(2)3": "sum", "y:(1)2": "sum", "y:(6)2": "max"})
    assert merged(sharding, MESH).partial == (("y:(1)6", "sum"), ("y:(6)2", "max"))
