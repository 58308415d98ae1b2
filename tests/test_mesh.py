"""The class Mesh: device coordinates, groups and their order, sub-axes, and faults of invalid meshes."""

from __future__ import annotations

import itertools

import pytest

import meshgen as mg
from meshgen.errors import ShardingError
from meshgen.mesh import MOST_DEVICES, contains, make_mesh, overlaps


def test_devices_are_numbered_row_major() -> None:
    mesh = make_mesh({"a": 2, "b": 3, "c": 4})
    assert [mesh.coordinates(r) for r in range(24)] == list(itertools.product(range(2), range(3), range(4)))
    assert all(mesh.rank(mesh.coordinates(r)) == r for r in range(24))


def test_mesh_with_too_many_devices_is_refused() -> None:
    assert make_mesh({"x": MOST_DEVICES // 4, "y": 4}).size == MOST_DEVICES
    with pytest.raises(ShardingError, match=rf"{MOST_DEVICES + 1:,} devices; the limit is {MOST_DEVICES:,}"):
        make_mesh({"x": MOST_DEVICES + 1})


def test_devices_of_a_group_differ_only_along_its_axes() -> None:
    mesh = make_mesh((2, 3, 4, 5))
    groups = mesh.groups(("0", "1"))
    assert len(groups) == 20
    assert {mesh.coordinates(r)[2:] for r in groups[7]} == {mesh.coordinates(groups[7][0])[2:]}
    assert sorted(r for group in groups for r in group) == list(range(120))


def test_order_in_a_group_follows_the_listed_axes() -> None:
    mesh = make_mesh((2, 3, 4, 5))
    group = [mesh.coordinates(r) for r in mesh.groups(("3", "1"))[0]]
    assert group.index((0, 1, 0, 0)) < group.index((0, 0, 0, 1)) < group.index((0, 2, 0, 1))


def test_groups_over_no_axes_are_single_devices() -> None:
    assert make_mesh({"x": 3}).groups(()) == ((0,), (1,), (2,))


def test_sub_axes_have_coordinates_and_groups() -> None:
    mesh = make_mesh({"x": 8, "y": 2})
    outer, inner = mesh.split_axis("x", 2, 4)
    assert (outer, inner) == ("x:(1)2", "x:(2)4")
    assert [mesh.coordinate(mesh.rank((c, 0)), outer) for c in range(8)] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [mesh.coordinate(mesh.rank((c, 0)), inner) for c in range(8)] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert mesh.groups((outer, inner)) == mesh.groups(("x",))
    assert mesh.groups((inner,))[0] == (0, 2, 4, 6)


@pytest.mark.parametrize(
    "left, right, shared",
    [
        ("x", "y", False),
        ("x", "x", True),
        ("x", "x:(1)2", True),
        ("x:(1)2", "x:(2)4", False),
        ("x:(1)4", "x:(2)2", True),
    ],
)
def test_overlap_of_axis_references_is_symmetric(left: str, right: str, shared: bool) -> None:
    assert overlaps(left, right) is overlaps(right, left) is shared


@pytest.mark.parametrize(
    "whole, part, inside",
    [
        ("x", "x:(2)2", True),
        ("x:(2)2", "x", False),
        ("x", "y", False),
        ("x:(1)4", "x:(1)4", True),
        ("x:(1)4", "x:(2)2", True),
        ("x:(1)4", "x:(2)4", False),
        ("x:(2)4", "x:(1)4", False),
    ],
)
def test_contains_compares_devices_of_axis_references(whole: str, part: str, inside: bool) -> None:
    assert contains(whole, part) is inside


def test_axes_have_mesh_order_and_sub_axes_major_to_minor_order() -> None:
    mesh = make_mesh({"x": 8, "y": 2})
    assert sorted(("y", "x:(4)2", "x:(1)4"), key=mesh.order) == ["x:(1)4", "x:(4)2", "y"]


def test_sub_mesh_drops_fixed_axes() -> None:
    mesh = make_mesh({"x": 2, "y": 4}).sub_mesh({"x": 1})
    assert (mesh.names, mesh.size) == (("y",), 4)


def test_unknown_axis_size_is_refused_before_load() -> None:
    mesh = make_mesh({"dp": None, "tp": 2})
    assert not mesh.is_static
    assert mesh.axis_size("tp") == 2
    with pytest.raises(ShardingError, match="unknown until load"):
        mesh.axis_size("dp")


def test_invalid_axis_reference_is_refused() -> None:
    mesh = make_mesh({"x": 8})
    with pytest.raises(ShardingError, match="'q' is not in"):
        mesh.axis("q")
    with pytest.raises(ShardingError, match="8 % 3"):
        mesh.axis_size("x:(1)3")
    with pytest.raises(ShardingError, match="cannot be split into 3 x 2"):
        mesh.split_axis("x", 3, 2)
    with pytest.raises(ShardingError, match="outside axis"):
        mesh.sub_mesh({"x": 8})


UNWRITABLE = ["é", 'a"b', "a\\", "a\nb", "a\tb", "\ud800", "\x1b[2J", "x\u2028y", "a:(1)2", ""]


@pytest.mark.parametrize("name", UNWRITABLE, ids=ascii)
def test_unprintable_axis_name_is_refused(name: str) -> None:
    with pytest.raises(ShardingError, match=r"MG0201: mesh axis .* printable ASCII characters"):
        make_mesh({name: 2})


@pytest.mark.parametrize("name", ['a"b', "a\\", "a\nb", "\ud800", "\x1b[2J"], ids=ascii)
def test_unprintable_mesh_name_is_refused(name: str) -> None:
    with pytest.raises(ShardingError, match=r"MG0201: mesh name .* has quotes"):
        make_mesh({"x": 2}, name)


@pytest.mark.parametrize(
    "axis", ["a", "a.b", "a-b", "a$b", "a b", "0", "0a", "a'b", "a,b", "[a]", "{", "?", "@a", "%a", "true"]
)
def test_stages_of_program_with_unusual_names_round_trip(axis: str) -> None:
    def program(ü):
        return mg.sum(mg.tanh(ü))

    program.__name__ = "é"
    mesh = make_mesh({axis: 2}, "Netz ü")
    executable = mg.compile(program, mesh, args=["f32[4]"], in_specs={"ü": mg.P(axis)}, target="cpu")
    for stage in executable.texts()["stages"]:
        assert mg.lower(executable.as_text(stage), stage="schedule").mesh == mesh, stage
