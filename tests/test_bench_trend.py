"""`bench.trend`: the fields of a record, the figures read from cachegrind's files, and the chart."""

from __future__ import annotations

import json
import re
import shutil
import sys
from typing import Any
from xml.etree import ElementTree

import pytest

from bench import trend
from tests.test_site import beside_pages

FIGURES = ("instructions", "launches", "bytes_sent", "step_us")


def line(commit: str, date: str, value: int) -> dict[str, Any]:
    programs = {"a": dict.fromkeys(FIGURES, value), "b": dict.fromkeys(FIGURES, 2 * value)}
    return {"commit": commit, "date": date, "python": "3.11.7", "programs": programs}


def test_recorded_trend_has_figures_of_every_program() -> None:
    lines = [json.loads(text) for text in trend.RESULTS.read_text().splitlines()]
    assert lines and [record["date"] for record in lines] == sorted(record["date"] for record in lines)
    assert len({record["commit"] for record in lines}) == len(lines)
    assert all({*record["programs"]} == {*trend.PROGRAMS} for record in lines)
    rows = [row for record in lines for row in record["programs"].values()]
    assert all(tuple(row) == FIGURES and row["instructions"] > 0 for row in rows)


def test_programs_of_the_trend_exist() -> None:
    assert [path.name for path in (trend.WARM_UP, *trend.PROGRAMS.values()) if not path.exists()] == []


def test_trend_plan_has_launches_bytes_and_step_time() -> None:
    figures = trend.plan(trend.PROGRAMS["conv_halo"])
    assert tuple(figures) == FIGURES[1:] and all(value > 0 for value in figures.values())


def test_instruction_total_is_read_from_cachegrind_file() -> None:
    assert trend.total_of("desc: x\nevents: Ir I1mr\nfl=a\n1 2 3\nsummary: 120 3\n") == 120
    with pytest.raises(ValueError, match="no events"):
        trend.total_of("fl=a\n")


def test_trend_record_of_measured_commit_is_replaced() -> None:
    first, second = json.dumps(line("a", "2026-01-02", 1)), json.dumps(line("b", "2026-01-03", 1))
    lines = trend.added([first, second], line("a", "2026-01-02", 5))
    assert [json.loads(text)["commit"] for text in lines] == ["a", "b"]
    assert json.loads(lines[0])["programs"]["a"]["launches"] == 5
    assert json.loads(trend.added([second], line("c", "2026-01-01", 1))[0])["commit"] == "c"


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
def test_instructions_are_counted_per_forked_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """The script forks three processes: one that is idle, one that works, and one that does ten times that work."""
    script = tmp_path / "work.py"
    script.write_text(
        "import json, os, sys\npids = {}\n"
        "for name, count in (('', 0), ('a', 10_000), ('b', 100_000)):\n"
        "    pid = os.fork()\n    if not pid:\n        sum(range(count))\n        os._exit(0)\n"
        "    os.waitpid(pid, 0)\n    pids[name] = pid\nprint(json.dumps(pids))\n"
    )
    monkeypatch.setattr(trend, "__file__", str(script))
    monkeypatch.setattr(trend, "PROGRAMS", {"a": script, "b": script})
    counts = trend.instructions(tmp_path)
    assert counts["a"] > 10_000 and 8 * counts["a"] < counts["b"] < 12 * counts["a"]


def test_trend_chart_draws_each_commit_at_its_total() -> None:
    page = beside_pages("trend_page")
    chart = page.trend_chart([line("a", "2026-01-01", 4), line("b", "2026-01-02", 2)])
    ElementTree.fromstring(chart)
    heights = [float(y) for y in re.findall(r'<circle cx="[\d.]+" cy="([\d.]+)"', chart)]
    bottom, top = page.HEIGHT - page.MARGIN, page.MARGIN + page.TITLE
    assert heights == [top, (top + bottom) / 2] * len(page.FIGURES)
    assert "launches" in {figure.key for figure in page.FIGURES} and "<title>a 2026-01-01: 12</title>" in chart
    assert "NaN" not in page.trend_chart([line("a", "2026-01-01", 0)])


def test_trend_measurement_fails_if_planning_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trend, "__file__", "-c")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(SystemExit, match="exit code 1"):
        trend.measured(trend.ROOT, "a", "b")
