"""Options that are repeated, have a malformed value, or require another option that is missing: each has its own
message.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from meshgen.cli import main
from tests.programs import mlp

REFUSALS: list[tuple[str, list[str], int, str, str]] = [
    (
        "two specs of an input",
        ["check", "GOOD", "--spec", "x=x", "--spec", "x=_,x"],
        2,
        "MG0001",
        "two shardings of 'x'",
    ),
    ("two shapes of an input", ["explain", "GOOD", "--shape", "q=2", "--shape", "q=3"], 2, "MG0001", "'q' twice"),
    (
        "mesh forgotten",
        ["explain", "f:f", "--arg", "f32[4]", "--spec", "x=dp"],
        1,
        "MG0202",
        "no mesh(?s:.)*--mesh dp=",
    ),
    ("type with a semicolon", ["explain", "f:f", "--arg", "f32[4;4]", "--arg", "f32[]"], 2, "MG0001", r"'f32\[4;4\]'"),
    ("limit that is no size", ["explain", "GOOD", "--memory-limit", "1XB"], 2, "MG0001", "--memory-limit: '1XB'"),
    ("search for no time", ["search", "GOOD", "--seconds", "nan"], 2, "MG0001", "--seconds: expected a non-negative"),
    ("measured weights of no size", ["bench", "module", "--megabytes", "-5"], 2, "MG0001", "--megabytes: expected a p"),
    ("no ranks", ["bench", "collectives", "-g", "0"], 2, "MG0001", "--ngpus: expected a positive"),
    ("no jobs", ["bench", "kernels", "--jobs", "0"], 2, "MG0001", "--jobs: expected a positive"),
    # An unwritable output is reported before slow work starts, so before a missing GPU or program.
    ("records in no folder", ["bench", "collectives", "--output", "none/b.json"], 2, "MG0003", "none/b.json"),
    ("profile in no folder", ["bench", "collectives", "--save-profile", "none/b.json"], 2, "MG0003", "none/b.json"),
    ("annotations in no folder", ["search", "gone.mlir", "-o", "none/s.mlir"], 2, "MG0003", "none/s.mlir"),
    ("partial sum of no kind", ["explain", "GOOD", "--spec", "x=/prod:x"], 2, "MG0204", "product"),
]


@pytest.mark.parametrize(
    ("words", "code", "number", "message"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS]
)
def test_value_of_option_is_refused(
    words: list[str], code: int, number: str, message: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("good.mlir").write_text(mlp())
    Path("option_values_program.py").write_text("def f(x):\n    return x + 1\n")
    names = {"GOOD": "good.mlir", "f:f": "option_values_program:f"}
    assert main([names.get(word, word) for word in words]) == code
    errors = capsys.readouterr().err
    assert f"error {number}: " in errors and re.search(message, errors), errors
