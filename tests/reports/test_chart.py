"""The timeline as text: as wide as asked, busy where launches are."""

from __future__ import annotations

from meshgen import api
from meshgen.reports.chart import timeline_text
from tests.reports.models import layers


def test_each_stream_is_a_row_that_is_busy_as_long_as_its_launches() -> None:
    executable = api.plan(layers(2), target="cpu")
    axis, computes, communicates, *_ = timeline_text(executable, 100).splitlines()
    assert len(axis) == 100 and axis.endswith(f"{executable.cost.step_seconds * 1e6:.3g} us") and len(computes) <= 100
    columns = 100 - len("communicates  ")
    for row, stream in ((computes, 0), (communicates, 1)):
        share = (
            sum(item.seconds for item in executable.plan.items if item.stream == stream) / executable.cost.step_seconds
        )
        shades = sum(" ░▒▓█".index(each) for each in row[len("communicates  ") :]) / 4
        assert abs(shades / columns - share) < 0.05


def test_the_longest_launches_are_named_first() -> None:
    text = timeline_text(api.plan(layers(2), target="cpu"), 100).split("longest\n")[1]
    assert "all_reduce over tp (model.py:6 in layer_0/mlp)" in text.splitlines()[0] and len(text.splitlines()) == 5
