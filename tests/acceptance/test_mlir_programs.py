"""Small programs of the `shard` dialect. Each computes correct results and communicates no more than its header allows,
or is refused.

A header has two lines: `// RUN: meshgen check %s --json [options]` and `// REQUIRED:`. The latter has the kinds and
counts of the collectives of an optimal solution (`all_gather 1, all_reduce 2`, or `none`), or `reject CODE "words of
the message"`.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from meshgen.cli import main

PROGRAMS = sorted((Path(__file__).resolve().parents[1] / "data" / "mlir").glob("*.mlir"))


def header(path: Path, word: str) -> str:
    match = re.search(rf"^// {word}: (.*)$", path.read_text(), re.MULTILINE)
    assert match, f"{path.name} has no {word} line"
    return match[1].strip()


def counts_of(required: str) -> dict[str, int]:
    if required == "none":
        return {}
    pairs = (entry.split() for entry in required.split(","))
    return {kind: int(count) for kind, count in pairs}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program_meets_its_header(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool, *call = shlex.split(header(path, "RUN").replace("%s", str(path)))
    required = header(path, "REQUIRED")
    assert tool == "meshgen"
    exit_code = main(call)
    captured = capsys.readouterr()
    if required.startswith("reject"):
        match = re.fullmatch(r'reject (MG\d+) "(.*)"', required)
        assert match and exit_code == 1
        code, words = match.groups()
        fault = next((line for line in captured.err.splitlines() if code in line and words in line), None)
        assert fault is not None, captured.err
        assert re.match(rf"{re.escape(str(path))}:\d+: error {code}: ", fault)
        assert "^" in captured.err.partition(fault)[2]  # after the message, the source line is quoted with a caret
        return
    assert exit_code == 0, captured.err
    document = json.loads(captured.out)
    assert document["check"]["ok"]
    assert document["counts"] == counts_of(required)


def test_programs_of_every_group_exist() -> None:
    assert {path.name[0] for path in PROGRAMS} >= set("abchij")
