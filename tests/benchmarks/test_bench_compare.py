"""Comparison of two benchmark runs: a difference counts only if it is larger than the noise of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from meshgen.benchmarks.comparing import Difference, compare_runs, limit_of, limits_exceeded, only_in
from meshgen.benchmarks.records import Run, write
from meshgen.cli import main
from meshgen.errors import UsageError


def record(us: float, spread: float = 0.02, **more: Any) -> dict[str, Any]:
    return {"suite": "kernels", "program": "cast", "us": us, "spread": spread, "samples": 25, "least_us": us} | more


def differences(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Difference]:
    return {difference.figure: difference for difference in compare_runs(Run({}, [old]), Run({}, [new]))}


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (record(100), record(110), "slower"),
        (record(110), record(100), "faster"),
        (record(100), record(101), "same"),  # the intervals around the medians overlap: they are 0.6 % wide
        (record(100, 0.5), record(110, 0.5), "same"),  # the intervals around the medians overlap: they are 16 % wide
        (record(100, 0.02), record(110, 0.5), "same"),  # the difference is smaller than the noise of the second run
        (record(100, 0.0), record(100.001, 0.0), "slower"),
    ],
)
def test_time_difference_must_exceed_the_noise(old: dict[str, Any], new: dict[str, Any], verdict: str) -> None:
    assert differences(old, new)["us"].verdict == verdict


def test_unsampled_figures_are_compared_exactly() -> None:
    changed = differences(record(100, launches=3, correct=True), record(100, launches=4, correct=False))
    assert set(changed) == {"us", "launches"}
    assert (changed["launches"].verdict, changed["launches"].growth) == ("more", pytest.approx(1 / 3))
    assert limits_exceeded(list(changed.values()), [limit_of("launches:+0")]) == [changed["launches"]]
    assert not limits_exceeded(list(changed.values()), [limit_of("launches:+1"), limit_of("time:+0")])


def test_each_time_has_its_own_spread() -> None:
    old, new = (record(us, cold_us=us, cold_spread=0.9) for us in (100, 120))
    changed = differences(old, new)
    assert (changed["us"].verdict, changed["cold_us"].verdict) == ("slower", "same")
    assert [difference.figure for difference in limits_exceeded(list(changed.values()), [limit_of("time:+5%")])] == [
        "us"
    ]
    assert not limits_exceeded(list(changed.values()), [limit_of("time:+25%")])


def test_records_missing_from_the_other_run_are_listed() -> None:
    runs = Run({}, [record(1), record(1, kernel="a")]), Run({}, [record(1)])
    assert only_in(*runs) == [record(1, kernel="a")] and only_in(*reversed(runs)) == []


@pytest.mark.parametrize("text", ["time", "time:5%", "time:+5ms", "time:+x%", "Time:+5%"])
def test_malformed_limit_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="MG0001"):
        limit_of(text)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Return the files of a run, the same run with noise, and a slower run."""
    paths = [str(tmp_path / f"{name}.json") for name in "abc"]
    for path, us in zip(paths, (100.0, 100.5, 120.0), strict=True):
        write(Run({"processor": f"P{us}", "date": "today"}, [record(us)]), Path(path), "", {})
    return paths


def test_compare_command_fails_if_a_time_grew(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    same, noisy, slower = files
    assert main(["bench", "compare", same, noisy, "--fail-on", "time:+0%"]) == 0
    assert "1 figures compared, 0 differ" in capsys.readouterr().out
    assert main(["bench", "compare", same, slower]) == 0
    assert "+20.0 %" in capsys.readouterr().out
    assert main(["bench", "compare", same, slower, "--fail-on", "time:+5%"]) == 3
    assert "error: kernels cast: us 100 -> 120 (+20.0 %)" in capsys.readouterr().err
    assert main(["bench", "compare", slower, same, "--fail-on", "time:+5%"]) == 0


def test_compare_json_lists_changes_and_environments(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "compare", files[0], files[2], "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["compared"] == 1 and document["exceeded"] == []
    assert document["changed"][0]["verdict"] == "slower"
    assert document["environments"] == [{"processor": "P100.0"}, {"processor": "P120.0"}]


def test_invalid_comparison_is_refused(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.json"
    write(Run({}, [{"suite": "launch", "what": "step", "us": 1.0}]), other, "", {})
    for words, message in (
        (["compare", files[0]], "compare takes two runs"),
        (["compare", files[0], str(other)], "nothing in common"),
        (["compare", *files[:2], "--fail-on", "time"], "does not limit a figure"),
        (["nothing"], "invalid choice"),
        ([], "required"),
    ):
        assert main(["bench", *words]) == 2
        assert message in capsys.readouterr().err
