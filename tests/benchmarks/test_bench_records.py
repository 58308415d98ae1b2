"""Records of a benchmark run: written as JSON, CSV or Markdown, and read from JSON."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from meshgen.benchmarks.environment import environment
from meshgen.benchmarks.records import Run, identity, read, tables, text_of, write
from meshgen.benchmarks.samples import median_interval, summary
from meshgen.errors import UsageError

ROWS = [
    {"suite": "launch", "what": "step", "us": 1.5, "spread": 0.1, "samples": 9, "units": {"HGMMA": 8}, "correct": True},
    {"suite": "launch", "what": "launch", "us": 12345.6, "spread": 0.0, "samples": 9},
]
RUN = Run({"command": "meshgen bench launch", "processor": "one"}, ROWS)
TITLES = {"what": "what", "us": "time (us)", "wrong": "#wrong", "units": "units", "correct": "correct"}


def test_run_round_trips_through_json(tmp_path: Path) -> None:
    write(RUN, tmp_path / "run.json", "", TITLES)
    assert read(tmp_path / "run.json") == RUN
    assert json.loads((tmp_path / "run.json").read_text())["environment"]["processor"] == "one"


def test_table_has_only_measured_columns() -> None:
    table = tables(ROWS, TITLES)
    assert list(table.columns) == ["what", "time (us)", "units", "correct"]
    assert table.rows == [["step", "1.5", "8 HGMMA", "yes"], ["launch", "12346", "", ""]]
    markdown = text_of(RUN, "markdown", TITLES).splitlines()
    assert markdown[:2] == ["- command: meshgen bench launch", "- processor: one"]
    assert markdown[3:6] == [
        "| what | time (us) | units | correct |",
        "| --- | --- | --- | --- |",
        "| step | 1.5 | 8 HGMMA | yes |",
    ]


def test_csv_has_every_field(tmp_path: Path) -> None:
    write(RUN, tmp_path / "run.csv", "", TITLES)
    lines = (tmp_path / "run.csv").read_text().splitlines()
    assert lines[:2] == ["# command: meshgen bench launch", "# processor: one"]
    rows = list(csv.DictReader(lines[2:]))
    assert [row["us"] for row in rows] == ["1.5", "12345.6"] and json.loads(rows[0]["units"]) == {"HGMMA": 8}


HEAD = '"format": "meshgen-bench/1"'


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{}", f'{{{HEAD}, "records": [3]}}', "[" * 100_000, f'{{{HEAD}, "records": [], "environment": [1]}}',
        f'{{{HEAD}, "records": [{{"suite": ["x"]}}]}}', f'{{{HEAD}, "records": [{{"us": 1.0, "spread": "x"}}]}}',
    ],
)  # fmt: skip
def test_malformed_or_missing_run_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(UsageError, match="MG0001"):
        read(tmp_path / "run.json")
    with pytest.raises(UsageError, match="MG0002"):
        read(tmp_path / "none.json")
    for path in (tmp_path / "none" / "run.json", Path("a\0b.json")):
        with pytest.raises(UsageError, match="MG0003"):
            write(RUN, path, "", TITLES)


def test_record_identity_excludes_measurements() -> None:
    assert identity(ROWS[0]) == (("suite", "launch"), ("what", "step"))


def test_sample_median_and_spread_ignore_outliers() -> None:
    figures = summary([1e-6, 2e-6, 3e-6, 4e-6, 1.0])
    assert figures == {"us": 3.0, "least_us": 1.0, "spread": pytest.approx(2 / 3, abs=1e-4), "samples": 5}
    low, high = median_interval(100.0, 0.2, 25)
    assert (low, high) == (pytest.approx(93.72), pytest.approx(106.28))
    assert summary([2e-6], "in_") == {"in_us": 2.0, "in_least_us": 2.0, "in_spread": 0.0, "samples": 1}


def test_environment_records_command_machine_and_versions() -> None:
    recorded = environment(["launch", "--runs", "3"])
    assert recorded["command"] == "meshgen bench launch --runs 3"
    assert all(
        recorded[key] for key in ("system", "processor", "cores", "memory_bytes", "gpus", "meshgen", "python", "numpy")
    )
    assert json.loads(json.dumps(recorded)) == recorded
