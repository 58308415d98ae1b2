"""Traces of a predicted and of a measured step have the same names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from meshgen.cli import main
from tests.reports.models import layers


def events(path: Path) -> list[dict[str, Any]]:
    found = json.loads(path.read_text())["traceEvents"]
    assert all({"ph", "pid", "name"} <= each.keys() for each in found)
    return found


def names(found: list[dict[str, Any]], rank: int) -> list[tuple[int, str, str]]:
    """What a rank ran: track, name and place, in the order in which it began on each track."""
    slices = sorted(
        (each for each in found if each["ph"] == "X" and each["pid"] == rank),
        key=lambda each: (each["tid"], each["ts"]),
    )
    return [(each["tid"], each["name"], each["args"]["source"]) for each in slices]


def test_a_measured_step_has_the_names_of_the_predicted_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, module = tmp_path / "m.mlir", tmp_path / "m.mgx"
    predicted, measured = tmp_path / "predicted.json", tmp_path / "measured.json"
    program.write_text(layers(2))
    assert main(["explain", str(program), "--target", "cpu", "--trace", str(predicted)]) == 0
    assert main(["compile", str(program), "--target", "cpu", "-o", str(module)]) == 0
    assert main(["run", str(module), "--trace", str(measured)]) == 0
    ran = events(measured)
    assert names(ran, 0) == names(events(predicted), 0) and len(names(ran, 0)) == 8
    assert {each["pid"] for each in ran} == set(range(8))
    slices = [each for each in ran if each["ph"] == "X"]
    assert all(each["dur"] > 0 and each["ts"] >= 0 for each in slices)
    assert {each["cat"] for each in slices} == {"kernel", "all_reduce"}
    assert main(["run", str(module), "--device", "emulate", "--trace", str(measured)]) == 2
    assert "--trace measures steps on the host only" in capsys.readouterr().err
