"""The summary that `explain` prints first: length, verdict, filters, and sharding notation only with -v."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshgen import api
from meshgen.cli import main
from meshgen.codegen.passes import loop_unroll
from meshgen.reports.summary import summary_of
from meshgen.reports.tables import bytes_text
from tests.cost_models import use
from tests.reports.explained import document
from tests.reports.models import layers
from tests.sharding.test_scan_prefetch import LAYERS


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "stack.mlir"
    path.write_text(layers(3))
    return path


def test_summary_length_does_not_depend_on_layers() -> None:
    few, many = (str(api.plan(layers(count), target="cpu").explain()).splitlines() for count in (2, 32))
    assert len(few) == len(many) < 20 and "32 collectives by cause" in "\n".join(many)


def test_summary_starts_with_verdict_and_record_figures(file: Path) -> None:
    executable = api.plan(file, target="cpu")
    summary = summary_of(executable)
    first, step, memory, work, links = summary.verdict.lines
    assert first == "main on Mesh(dp=2, tp=4), cpu; predicted for one-host (H200)" and summary.text().startswith(first)
    record = executable.record()
    assert f"{record['step_seconds'] * 1e6:.3g} us" in step and f"{record['exposed_seconds'] * 1e6:.3g} us" in step
    assert memory.startswith("Memory") and "FLOP per device" in work and "3 collectives" in links
    waits = next(point for point in summary.verdict.points if "waiting for" in point.text)
    assert waits.seconds == pytest.approx(record["exposed_seconds"]) and waits.command == "--collective 0"


def test_explain_filters_causes_and_shows_notation_with_v(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(file), "--target", "cpu", "--layer", "layer_2"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("1 collective by cause") and "layers.2.down" in out and "[{dp}" not in out
    assert main(["explain", str(file), "--target", "cpu", "-v"]) == 0
    out = capsys.readouterr().out
    assert "Cost per device" in out and "gives [{dp}, {}]" in out and "(n_tp-1)/n_tp" in out
    assert main(["explain", str(file), "--target", "cpu", "--layer", "layer_9"]) == 2
    assert "did you mean 'layer_2'" in capsys.readouterr().err
    assert main(["explain", str(file), "-v", "--axis", "tp"]) == 2
    assert "--axis chooses among the causes of collectives" in capsys.readouterr().err


def test_explain_json_has_groups_and_verdict(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    explained = document(capsys, "explain", file)
    (group,) = explained["groups"]
    assert group["numbers"] == [0, 1, 2] and group["ring_bytes"] == explained["ring_bytes"]
    assert explained["verdict"]["points"] and explained["verdict"]["lines"][0].startswith("main on")


def test_collective_count_includes_loop_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a loop with five iterations: its collective counts five times, although the schedule contains it once."""
    use(monkeypatch, {"fusion.unrolled_messages": 0}, loop_unroll)
    executable = api.plan(LAYERS, target="cpu", skip=("scan-prefetch",))
    summary = summary_of(executable)
    assert len(executable.comms) == 1 and executable.comms.counts == {"all_gather": 5}
    assert summary.verdict.lines[-1].endswith("in 5 collectives (1 in the schedule)")
    assert sum(group.times for group in summary.groups) == executable.comms.runs == 5
    assert "5 collectives by cause" in summary.text() and "  5 x all_gather over x" in summary.text()
    moved = executable.comms[0].ring_bytes
    title, _, row = str(executable.comms).splitlines()[:3]
    assert title == f"Collectives: 5 (1 in the schedule), {bytes_text(5 * moved)} per device"
    assert bytes_text(5 * moved) in row and " 5  all_gather" in row
