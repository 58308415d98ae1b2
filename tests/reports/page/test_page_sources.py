"""Source listing in the report page: the user's program with the figures of each line."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshgen import api
from meshgen.reports.page.sources import files
from tests.reports.models import layers


def test_source_lines_show_collectives_bytes_and_seconds(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("\n".join(f"line {number}" for number in range(1, 9)))
    executable = api.plan(layers(3).replace('"model.py"', f'"{tmp_path}/model.py"'), target="cpu")
    (file,) = files(executable)
    assert file["name"] == "model.py" and [line[1] for line in file["lines"]] == [f"line {n}" for n in range(1, 9)]
    figures = {line[0]: line[2] for line in file["lines"] if len(line) > 2}
    count, moved, _, exposed, _ = figures[6]
    assert (count, moved) == (3, executable.comms.ring_bytes) and exposed == pytest.approx(
        executable.cost.exposed_seconds
    )
    assert sum(launch[4] for launch in figures.values()) == pytest.approx(
        sum(launch.item.seconds * launch.times for launch in executable.plan.launches() if launch.item.kernel)
    )


def test_unreadable_source_file_shows_line_numbers_only() -> None:
    (file,) = files(api.plan(layers(2), target="cpu"))
    assert {text for _, text, _ in file["lines"]} == {""} and {line[0] for line in file["lines"]} <= {4, 5, 6}


def test_long_source_file_is_cut_to_relevant_lines(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("x\n" * 5000)
    (file,) = files(api.plan(layers(1).replace('"model.py"', f'"{tmp_path}/model.py"'), target="cpu"))
    assert [line[0] for line in file["lines"]] == list(range(1, 10))
