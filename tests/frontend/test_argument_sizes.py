"""The option that lists the sizes of meshes and inputs for which a program is compiled."""

from __future__ import annotations

from typing import Any

import pytest

from meshgen.errors import UsageError
from meshgen.frontend.arguments import combinations

MESH, SHAPES = {"dp": 2}, {"x": (8, 64)}


def test_sizes_name_mesh_or_inputs_or_both() -> None:
    assert combinations({"mesh": MESH}) == [(MESH, None)]
    assert combinations([{"args": SHAPES}, {"mesh": MESH, "args": SHAPES}]) == [(None, SHAPES), (MESH, SHAPES)]


@pytest.mark.parametrize("sizes", [MESH, [{"mesh": MESH, "args": SHAPES, "dp": 2}], [("mesh", "args")], 4])
def test_malformed_sizes_are_rejected(sizes: Any) -> None:
    with pytest.raises(UsageError, match=r"MG0001.*must be a dict with 'mesh' or 'args'"):
        combinations(sizes)
