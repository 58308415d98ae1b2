"""Pictures of shardings show the same ranges as `Sharding.ranges` on every rank, without data."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen import api
from meshgen.cli import main
from meshgen.errors import ShardingError
from meshgen.reports.picture import MOST_GRIDS, Picture, devices_text
from meshgen.spec import P
from tests.programs import mlp

MESH = mg.make_mesh({"x": 2, "y": 4})
CASES = {
    "0-d": (P(), ()),
    "a row": (P("y"), (6,)),
    "two dims": (P("x", "y"), (8, 12)),
    "three dims": (P("y", None, "x"), (8, 16, 8)),
    "four dims": (P("x", "y", None, None), (4, 8, 3, 3)),
    "empty tiles": (P(None, ("x", "y")), (3, 5)),
    "swapped": (P(("y", "x"), None), (16, 2)),
    "halo": (mg.Sharding((("x",), ()), halo=((1, 1), (0, 0))), (8, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_picture_shows_each_device_once_in_its_ranges(name: str) -> None:
    sharding, shape = CASES[name]
    drawn: Picture = mg.show(sharding, shape, MESH)
    seen: list[int] = []
    for grid in drawn.grids:
        for row, cells in zip(grid.rows, grid.cells, strict=True):
            for column, devices in zip(grid.columns, cells, strict=True):
                box = (*grid.outer, *(row, column)[2 - min(2, len(shape)) :])
                assert all(sharding_ranges(sharding, shape, device) == box for device in devices)
                seen += devices
    assert sorted(seen) == list(range(MESH.size))
    assert all(devices_text(cells) in str(drawn) for grid in drawn.grids for line in grid.cells for cells in line)


def sharding_ranges(sharding: mg.Sharding, shape: tuple[int, ...], device: int) -> tuple[tuple[int, int], ...]:
    return sharding.ranges(shape, MESH, device)


def test_three_dim_picture_has_grid_per_slice() -> None:
    lines = str(mg.show(P("y", None, "x"), (4, 6, 2), MESH)).splitlines()
    assert lines[0] == "[4@y, 6, 2@x] on Mesh(x=2, y=4): the devices that hold each tile"
    assert lines[1:9] == ["", "[0:1, :, :]", "     0:1  1:2", "0:6  0    4", "", "[1:2, :, :]", "     0:1  1:2", "0:6  1    5"]  # fmt: skip


def test_picture_marks_partial_padded_and_empty_tiles() -> None:
    assert "{sum:y}" in str(mg.show(P("x", partial="y"), (4,), MESH))
    assert "nothing on 3,7" in str(mg.show(P("y"), (6,), MESH))
    assert "padded" in str(mg.show(P("y"), (6,), MESH)) and "padded" not in str(mg.show(P("y"), (8,), MESH))


def test_svg_picture_is_well_formed_and_has_every_tile() -> None:
    drawn = mg.show(P("x", "y"), (8, 12), MESH)
    root = ElementTree.fromstring(drawn._repr_svg_())  # pyright: ignore[reportPrivateUsage]  # what notebooks call
    texts = [node.text for node in root.iter() if node.tag.endswith("text")]
    assert {str(device) for device in range(8)} <= set(texts) and "9:12" in texts


def test_picture_counts_omitted_slices() -> None:
    drawn = mg.show(P("x"), (64, 2, 2), mg.make_mesh({"x": 64}))
    assert len(drawn.grids) == MOST_GRIDS and str(drawn).endswith("... 48 more slices")


def test_picture_rejects_unknown_axis() -> None:
    with pytest.raises(ShardingError, match="MG0202"):
        mg.show(P("z"), (8,), MESH)


def test_values_of_program_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    executable = api.plan(mlp(), target="cpu")
    assert executable.show("h").startswith("[8@x, 16@y] on Mesh(x=2, y=2)")
    path = tmp_path / "mlp.mlir"
    path.write_text(mlp())
    assert main(["explain", str(path), "h", "--show", "--target", "cpu"]) == 0
    assert "[8@x, 16@y] on Mesh(x=2, y=2)" in capsys.readouterr().out
    arrays = np.zeros((8, 12)), np.zeros((12, 16)), np.zeros((16, 12))
    assert executable(*(array.astype(np.float32) for array in arrays)).shape == (8, 12)
