"""Nightly campaigns: their modules exist, faults and survivors are listed, and time limits hold. Shards of the test
suite are disjoint.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests import nightly
from tests.nightly import CAMPAIGNS, Outcome, run, summary
from tests.shards import main as print_shard
from tests.shards import shards
from tests.sources import ROOT, TESTS


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_campaign_names_an_existing_module(name: str) -> None:
    words = CAMPAIGNS[name].words(10, 7)
    assert words[0] == "-m"
    module = ROOT / words[1].replace(".", "/")
    assert module.with_suffix(".py").exists() or (module / "__main__.py").exists()
    assert [word for word in words if word.endswith(".mlir") and not (ROOT / word).exists()] == []


def test_campaign_scales_its_trials() -> None:
    assert CAMPAIGNS["programs"].words(10, 7)[-6:-2] == ["--random", "10", "--seed", "7"]
    assert "1" in CAMPAIGNS["sources"].words(1, 7)


def test_survivors_and_faults_are_findings() -> None:
    lines = [
        "0 SURVIVED meshgen/a.py:1: x",
        "same bits: shuffle",
        "20261138: numbers differ: error",
        "10 trials: 0 failed",
        "3 failed",
        "ok",
    ]
    outcome = run(["-c", f"print({chr(10).join(lines)!r}); raise SystemExit(1)"], 60, lambda line: None)
    assert outcome.findings == [*lines[:3], lines[4]] and outcome.verdict == "failed"
    assert "SURVIVED" in summary({"sources": outcome})


def test_campaign_that_takes_too_long_is_stopped() -> None:
    outcome = run(["-c", "import time; time.sleep(600)"], 0.2, lambda line: None)
    assert outcome.verdict == "stopped"


def test_nightly_fails_with_a_failed_campaign(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(nightly, "run", lambda words, seconds: Outcome(0 if "tests.mutants" in words else None, [], 1))
    assert nightly.main(["texts", "onnx", "--count", "1"]) == 0
    assert "stopped" in capsys.readouterr().out
    monkeypatch.setattr(nightly, "run", lambda words, seconds: Outcome(3, [], 1))
    assert nightly.main(["texts"]) == 1
    with pytest.raises(SystemExit):
        nightly.main(["nothing"])


@pytest.mark.parametrize("count", [1, 4, 7])
def test_shards_cover_the_suite_evenly(count: int) -> None:
    shard_files = shards(count)
    assert Counter(path for files in shard_files for path in files) == Counter(
        p for p in TESTS if p.name.startswith("test_")
    )
    sizes = [sum(path.stat().st_size for path in files) for files in shard_files]
    assert max(sizes) - min(sizes) <= max(path.stat().st_size for path in TESTS)


@pytest.mark.parametrize("text", ["", "0/4", "5/4", "1", "1/4/2", "a/b"])
def test_invalid_shard_is_refused(text: str) -> None:
    with pytest.raises(SystemExit, match="NUMBER/COUNT"):
        print_shard(text)
