"""The timeline as text: it has the requested width, and rows are shaded where launches run."""

from __future__ import annotations

from meshgen import api
from meshgen.reports.chart import timeline_text
from tests.reports.models import layers


def test_stream_rows_are_shaded_in_proportion_to_busy_time() -> None:
    executable = api.plan(layers(2), target="cpu")
    axis, computes, communicates, *_ = timeline_text(executable, 100).splitlines()
    assert len(axis) == 100 and axis.endswith(f"{executable.cost.step_seconds * 1e6:.3g} us") and len(computes) <= 100
    columns = 100 - len("communicates  ")
    for row, stream in ((computes, 0), (communicates, 1)):
        share = (
            sum(item.seconds for item in executable.plan.items if item.stream == stream) / executable.cost.step_seconds
        )
        shades = sum(" ░▒▓█".index(character) for character in row[len("communicates  ") :]) / 4
        assert abs(shades / columns - share) < 0.05


def test_timeline_lists_longest_launches_first() -> None:
    text = timeline_text(api.plan(layers(2), target="cpu"), 100).split("longest\n")[1]
    assert "all_reduce over tp (model.py:6 in layer_0/mlp)" in text.splitlines()[0] and len(text.splitlines()) == 5
