"""Tests of replica groups: they match those of the mesh, and members of a group are counted per domain of the machine."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.ccl.groups import groups_of
from meshgen.mesh import Mesh, make_mesh

MESHES = [make_mesh({"a": 2, "b": 3, "c": 4}), make_mesh({"a": 8}), make_mesh({"a": 6, "b": 1, "c": 8})]
AXES = [(), ("a",), ("c", "a"), ("a", "b", "c"), ("a:(1)2",), ("c:(2)2", "a"), ("c:(2)2", "c:(1)2")]


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_groups_match_mesh_groups(mesh: Mesh, axes: tuple[str, ...]) -> None:
    names = {ref.partition(":")[0] for ref in axes}
    if not names <= set(mesh.names):
        axes = tuple(ref for ref in axes if ref.partition(":")[0] in mesh.names)
    groups = groups_of(mesh, axes)
    assert sorted(map(sorted, groups.members.tolist())) == sorted(map(sorted, mesh.groups(axes)))
    assert all(rank in groups.members[groups.group[rank]] for rank in range(mesh.size))


@pytest.mark.parametrize("devices", [1, 2, 3, 8, 100])
@pytest.mark.parametrize("axes", AXES, ids=str)
def test_group_domains_match_counting(axes: tuple[str, ...], devices: int) -> None:
    mesh = MESHES[2]
    groups = groups_of(mesh, axes)
    domains, least = groups.domains(devices)
    for group, count, fewest in zip(groups.members.tolist(), domains, least, strict=True):
        members_by_domain = [
            sum(rank // devices == domain for rank in group) for domain in {rank // devices for rank in group}
        ]
        assert (count, fewest) == (len(members_by_domain), min(members_by_domain))


def test_latest_time_of_group_applies_to_all_members() -> None:
    groups = groups_of(make_mesh({"a": 2, "b": 3}), ("b",))
    assert groups.latest(np.array([1, 5, 2, 0, 0, 4])).tolist() == [5, 5, 5, 4, 4, 4]
