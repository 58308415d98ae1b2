"""Comparing two runs: a difference counts only if it is larger than the noise of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from meshgen.benchmarks.comparing import Difference, compared, limit_of, limits_exceeded, only_in
from meshgen.benchmarks.records import Run, write
from meshgen.cli import main
from meshgen.errors import UsageError


def record(us: float, spread: float = 0.02, **more: Any) -> dict[str, Any]:
    return {"suite": "kernels", "program": "cast", "us": us, "spread": spread, "samples": 25, "least_us": us} | more


def differences(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Difference]:
    return {each.figure: each for each in compared(Run({}, [old]), Run({}, [new]))}


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (record(100), record(110), "slower"),
        (record(110), record(100), "faster"),
        (record(100), record(101), "same"),  # notches of 0.6 %
        (record(100, 0.5), record(110, 0.5), "same"),  # and of 16 %
        (record(100, 0.02), record(110, 0.5), "same"),  # noise of one of them is enough
        (record(100, 0.0), record(100.001, 0.0), "slower"),
    ],
)
def test_a_time_differs_by_more_than_its_noise(old: dict[str, Any], new: dict[str, Any], verdict: str) -> None:
    assert differences(old, new)["us"].verdict == verdict


def test_what_was_not_sampled_differs_if_it_is_not_equal() -> None:
    found = differences(record(100, launches=3, correct=True), record(100, launches=4, correct=False))
    assert set(found) == {"us", "launches"}
    assert (found["launches"].verdict, found["launches"].growth) == ("more", pytest.approx(1 / 3))
    assert limits_exceeded(list(found.values()), [limit_of("launches:+0")]) == [found["launches"]]
    assert not limits_exceeded(list(found.values()), [limit_of("launches:+1"), limit_of("time:+0")])


def test_each_time_has_its_own_spread() -> None:
    old, new = (record(us, cold_us=us, cold_spread=0.9) for us in (100, 120))
    found = differences(old, new)
    assert (found["us"].verdict, found["cold_us"].verdict) == ("slower", "same")
    assert [each.figure for each in limits_exceeded(list(found.values()), [limit_of("time:+5%")])] == ["us"]
    assert not limits_exceeded(list(found.values()), [limit_of("time:+25%")])


def test_records_of_one_run_only_are_named() -> None:
    runs = Run({}, [record(1), record(1, kernel="a")]), Run({}, [record(1)])
    assert only_in(*runs) == [record(1, kernel="a")] and only_in(*reversed(runs)) == []


@pytest.mark.parametrize("text", ["time", "time:5%", "time:+5ms", "time:+x%", "Time:+5%"])
def test_limits_must_be_readable(text: str) -> None:
    with pytest.raises(UsageError, match="MG0001"):
        limit_of(text)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """A run, the same with noise, and one that is slower."""
    places = [str(tmp_path / f"{name}.json") for name in "abc"]
    for place, us in zip(places, (100.0, 100.5, 120.0), strict=True):
        write(Run({"processor": f"P{us}", "date": "today"}, [record(us)]), Path(place), "", {})
    return places


def test_the_command_fails_where_a_time_grew(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    same, noisy, slower = files
    assert main(["bench", "compare", same, noisy, "--fail-on", "time:+0%"]) == 0
    assert "1 figures compared, 0 differ" in capsys.readouterr().out
    assert main(["bench", "compare", same, slower]) == 0
    assert "+20.0 %" in capsys.readouterr().out
    assert main(["bench", "compare", same, slower, "--fail-on", "time:+5%"]) == 3
    assert "error: kernels cast: us 100 -> 120 (+20.0 %)" in capsys.readouterr().err
    assert main(["bench", "compare", slower, same, "--fail-on", "time:+5%"]) == 0


def test_the_document_of_a_comparison(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "compare", files[0], files[2], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["compared"] == 1 and found["exceeded"] == []
    assert found["changed"][0]["verdict"] == "slower"
    assert found["environments"] == [{"processor": "P100.0"}, {"processor": "P120.0"}]


def test_bad_comparisons_are_refused(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.json"
    write(Run({}, [{"suite": "launch", "what": "step", "us": 1.0}]), other, "", {})
    for words, says in (
        (["compare", files[0]], "compare takes two runs"),
        (["compare", files[0], str(other)], "nothing in common"),
        (["compare", *files[:2], "--fail-on", "time"], "does not limit a figure"),
        (["nothing"], "invalid choice"),
        ([], "required"),
    ):
        assert main(["bench", *words]) == 2
        assert says in capsys.readouterr().err
