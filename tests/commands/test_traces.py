"""Traces of a predicted and of a measured step: their events have the same names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from meshgen.cli import main
from tests.reports.models import layers


def events(path: Path) -> list[dict[str, Any]]:
    records = json.loads(path.read_text())["traceEvents"]
    assert all({"ph", "pid", "name"} <= event.keys() for event in records)
    return records


def names(records: list[dict[str, Any]], rank: int) -> list[tuple[int, str, str]]:
    """Return the events of a rank as track, name and source location, in start order on each track."""
    slices = sorted(
        (event for event in records if event["ph"] == "X" and event["pid"] == rank),
        key=lambda event: (event["tid"], event["ts"]),
    )
    return [(event["tid"], event["name"], event["args"]["source"]) for event in slices]


def test_measured_trace_has_the_names_of_the_predicted_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, module = tmp_path / "m.mlir", tmp_path / "m.mgx"
    predicted, measured = tmp_path / "predicted.json", tmp_path / "measured.json"
    program.write_text(layers(2))
    assert main(["explain", str(program), "--target", "cpu", "--trace", str(predicted)]) == 0
    assert main(["compile", str(program), "--target", "cpu", "-o", str(module)]) == 0
    assert main(["run", str(module), "--trace", str(measured)]) == 0
    ran = events(measured)
    assert names(ran, 0) == names(events(predicted), 0) and len(names(ran, 0)) == 8
    assert {event["pid"] for event in ran} == set(range(8))
    slices = [event for event in ran if event["ph"] == "X"]
    assert all(event["dur"] > 0 and event["ts"] >= 0 for event in slices)
    assert {event["cat"] for event in slices} == {"kernel", "all_reduce"}
    assert main(["run", str(module), "--device", "emulate", "--trace", str(measured)]) == 2
    assert "--trace measures steps on the host only" in capsys.readouterr().err
