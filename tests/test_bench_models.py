"""`python -m bench models`: its measurements, its list of families with missing packages, and its table of figures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as bench
from bench.models import catalog
from bench.models.table import table


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["bench", "models", *words])
    return bench.main()


def without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    monkeypatch.setattr(catalog, "find_spec", lambda name: None if name in packages else object())


def test_model_is_planned_and_its_figures_are_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jax")
    assert run(monkeypatch, "heat", "--small", "--output", str(tmp_path / "figures.jsonl")) == 0
    head, row = map(json.loads, (tmp_path / "figures.jsonl").read_text().splitlines())
    assert head["command"].startswith("python -m bench models heat") and {"python", "jax", "numpy"} <= {
        *head["versions"]
    }
    assert row["program"] == "heat" and "xla" not in row
    figures_of_row = row["meshgen"]
    assert figures_of_row["collectives"]["fetch_rows"] > 0 and figures_of_row["moved_bytes"] > 0
    assert figures_of_row["cpu_seconds"] > 0 and figures_of_row["peak_bytes"] >= figures_of_row["bytes_before"] > 0
    shown = capsys.readouterr().out
    assert "| heat | 1 AR " in shown
    assert run(monkeypatch, "--table", str(tmp_path / "figures.jsonl")) == 0
    assert capsys.readouterr().out == shown


def test_families_with_missing_packages_are_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without(monkeypatch, "jraph", "jax_cfd")
    monkeypatch.setattr(
        "bench.models.table.measured", lambda name, *_: {"program": name, "meshgen": {"refused": "not tried"}}
    )
    assert run(monkeypatch) == 0
    shown = capsys.readouterr()
    assert shown.err.splitlines() == ["graphs: not installed: jraph", "fluids: not installed: jax_cfd"]
    planned = {line.split(" | ")[0].removeprefix("| ") for line in shown.out.splitlines()[2:]}
    assert planned == {*catalog.FAMILY_OF} - {
        *catalog.FAMILIES["graphs"].programs,
        *catalog.FAMILIES["fluids"].programs,
    }


@pytest.mark.parametrize(("word", "code"), [("no-such-model", "MG0001"), ("graphs", "MG0602")])
def test_unknown_model_or_missing_package_is_refused(
    word: str, code: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without(monkeypatch, "jraph")
    assert run(monkeypatch, word) != 0
    assert code in capsys.readouterr().err


def figures(seconds: float, **more: Any) -> dict[str, Any]:
    return {"cpu_seconds": seconds, "bytes_before": 1, "peak_bytes": 2_000_000, "collectives": {"all_gather": 3}, "moved_bytes": 5_000_000, "flops": 100.0,
            "redundant_flops": 25.0, "step_seconds": 1e-3, "launches": 7, "kernels": 2, "device_bytes": 9_000_000, **more}  # fmt: skip


def test_table_mean_covers_training_steps_of_both_tools() -> None:
    rows = [
        {"program": "a-train", "meshgen": figures(4.0), "xla": figures(1.0)},
        {"program": "b-train", "meshgen": figures(1.0), "xla": figures(1.0)},
        {"program": "c-train", "meshgen": {"refused": "MG0103"}, "xla": figures(1.0)},
        {"program": "d-train", "meshgen": figures(9.0), "xla": {"refused": "more than 900 s"}},
        {"program": "forward", "meshgen": figures(50.0), "xla": figures(1.0)},
    ]
    lines = table(rows).splitlines()
    assert (
        lines[2] == "| a-train | 3 AG | 5.0 MB | 25.0% | 1.00 ms | 7 / 2 | 9 MB | 4.0 s | 2 MB | 1.0 s | 2 MB | 4.00 |"
    )
    assert {len(line.split(" | ")) for line in lines[:7]} == {12}
    assert lines[-1].startswith("2 training steps:") and "2.00; largest 4.00 (a-train)" in lines[-1]


def test_table_has_a_column_for_hand_annotated_steps() -> None:
    rows = [
        {"program": "a", "meshgen": figures(4.0), "by-hand": figures(1.0, step_seconds=2e-3)},
        {"program": "b", "meshgen": figures(1.0), "by-hand": {"refused": "ValueError: no flax module"}},
    ]
    lines = table(rows).splitlines()
    assert " | step | annotated by hand | launches" in lines[0]
    assert " | 1.00 ms | 2.00 ms | 7 / 2 | " in lines[2] and " | 1.00 ms |  | 7 / 2 | " in lines[3]


@pytest.mark.filterwarnings("ignore")
def test_by_hand_constrains_every_module_output() -> None:
    """The rows of an output are split like the batch, its columns like those of the weight matrix."""
    for package in ("jax", *catalog.FAMILIES["decoders"].needs):
        pytest.importorskip(package)
    from bench.models.by_hand import by_hand

    text = by_hand(catalog.program("gpt2", True)).lowered().as_text()
    constraints = [line for line in text.splitlines() if "sdy.sharding_constraint" in line]
    columns = [line for line in constraints if '[{"dp"}, {}, {"tp"}]' in line]
    assert len(columns) == 2 * 2, "c_attn and c_fc of two layers"
    assert all('[{"dp"}' in line for line in constraints) and len(constraints) > 20


def test_by_hand_refuses_programs_without_flax_module() -> None:
    for package in ("jax", "flax"):
        pytest.importorskip(package)
    from bench.models.by_hand import by_hand

    with pytest.raises(ValueError, match="no flax module"):
        by_hand(catalog.program("heat", True)).lowered()
