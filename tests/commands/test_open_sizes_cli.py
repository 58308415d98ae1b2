"""The commands on programs and modules with open sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meshgen.cli import main
from meshgen.runtime.open_program import AHEAD, AT_LOAD
from tests.compiled.open_programs import PROGRAM, STAGES, rows


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("p.mlir").write_text(PROGRAM)
    return tmp_path


def run_json(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[Any, str]:
    """Run a command with `--json`. Return its document and the text on stderr."""
    assert main([*words, "--json"]) == code
    out, err = capsys.readouterr()
    return json.loads(out), err


COMPILE = ("compile", "p.mlir", "--target", "cpu", "-o", "p.mgx")


NAMED = ("--mesh", "0=2|3", "--shape", "x=6x?|5x12")


def test_commands_accept_program_with_open_sizes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document, notes = run_json(capsys, *COMPILE, *NAMED, "--report", "p.html", "--dump", "dump")
    assert notes == "" and document["open"] == {"axes": ["0"], "inputs": {"x": "f32[?,12]"}}
    sizes = [
        (specialization["specialised"]["mesh"]["0"], specialization["specialised"]["args"]["x"][0])
        for specialization in document["specialisations"]
    ]
    assert sizes == [(2, 6), (2, 5), (3, 6), (3, 5)]
    assert Path("p.html").read_text().count("<h2>Open sizes: ") == 4 and len(list(Path("dump").iterdir())) == 4
    inspected, _ = run_json(capsys, "inspect", "p.mgx")
    assert inspected["specialisations"] == [{k: v for k, v in specialization.items() if k != "seconds"} for specialization in document["specialisations"]]  # fmt: skip
    assert inspected["open"] == document["open"] and inspected["mesh"] == {"0": None, "1": 2}
    selected, _ = run_json(capsys, "inspect", "p.mgx", "--mesh", "0=3", "--shape", "x=5x?")
    assert selected["mesh"] == {"0": 3, "1": 2} and selected["report"]["specialised"]["made"] == AHEAD
    assert run_json(capsys, "inspect", "p.mgx", "--mesh", "0=4", "--shape", "x=5x?", code=5)[0]["exit_code"] == 5
    ran, notes = run_json(capsys, "run", "p.mgx", "--mesh", "0=3", "--shape", "x=5x?", "--expect", "p.mlir")
    assert ran["ranks"] == 6 and ran["specialised"]["made"] == AHEAD and notes == ""
    ran, notes = run_json(capsys, "run", "p.mgx", "--devices", "8", "--shape", "x=7x12", "--expect", "p.mlir")
    assert ran["ranks"] == 8 and ran["specialised"]["made"] == AT_LOAD and "compiled at load" in notes
    np.save("x.npy", rows(9))
    ran, _ = run_json(capsys, "run", "p.mgx", "--mesh", "0=1", "--input", "x=@x.npy", "--expect", "p.mlir")
    assert ran["outputs"][1]["type"] == "f32[9,12]"
    compared, _ = run_json(capsys, "diff", "p.mgx", "p.mgx")
    assert compared["changed"] == {} and compared["before"]["0=2, x=6x12: devices"] == 4
    assert main(["inspect", "p.mgx"]) == 0
    assert "open until load: mesh axis 0, x: f32[?,12]" in " ".join(capsys.readouterr().out.split())


def test_module_without_specializations_needs_sizes_at_load(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document, notes = run_json(capsys, *COMPILE)
    assert document["specialisations"] == [] and "loading it needs the compiler" in notes
    refused, _ = run_json(capsys, "run", "p.mgx", code=1)
    assert refused["diagnostics"][0]["code"] == "MG0201"
    assert run_json(capsys, "run", "p.mgx", "--mesh", "0=2", code=1)[0]["diagnostics"][0]["code"] == "MG0601"
    assert run_json(capsys, "run", "p.mgx", "--mesh", "0=2", "--shape", "x=3x12")[0]["ranks"] == 4


def test_check_tries_all_sizes_and_explain_plans_the_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document, _ = run_json(
        capsys, "check", "p.mlir", "--mesh", "0=1|3", "--shape", "x=6x?|0x12|5x12", "--target", "cpu"
    )
    shapes = [(trial["mesh"]["0"], trial["check"]["outputs"][0]["shape"][0]) for trial in document["trials"]]
    assert shapes == [(n, m) for n in (1, 3) for m in (6, 0, 5)] and all(t["check"]["ok"] for t in document["trials"])
    for command in ("explain", "report"):
        document, notes = run_json(capsys, command, "p.mlir", *NAMED, "--target", "cpu")
        assert document["mesh"] == {"0": 2, "1": 2} and "planned for 0=2, x=6x12, the first of 4" in notes


def test_contradictory_size_combinations_are_left_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = PROGRAM.replace("?x12", "?x?").replace("%w: tensor<12x8xf32>", "%w: tensor<?x8xf32>")
    Path("p.mlir").write_text(text.replace("tensor<12x8xf32>) ->", "tensor<?x8xf32>) ->"))
    document, notes = run_json(
        capsys, *COMPILE, "--mesh", "0=2,1=2", "--shape", "x=4x12|4x10", "--shape", "w=10x8|12x8"
    )
    args = [specialization["specialised"]["args"] for specialization in document["specialisations"]]
    assert args == [{"x": [4, 12], "w": [12, 8]}, {"x": [4, 10], "w": [10, 8]}] and "2 of 4 combinations" in notes
    for shapes, code in (("w=10x8|11x8", "MG0104"), ("w=?x8|12x8", "MG0601")):
        refused, _ = run_json(
            capsys, *COMPILE, "--mesh", "0=2,1=2", "--shape", "x=4x12|4x10", "--shape", shapes, code=1
        )
        assert refused["diagnostics"][0]["code"] == code
    for words in (("--shape", "x=4x12|"), ("--shape", "x=4|axb")):
        assert run_json(capsys, *COMPILE, *words, code=2)[0]["diagnostics"][0]["code"] == "MG0001"
    for mesh in ("0=2|,1=2", "0=2|0,1=2", "0=2||3"):
        assert run_json(capsys, *COMPILE, "--mesh", mesh, code=2)[0]["diagnostics"][0]["code"] == "MG0201"


def test_open_sizes_of_several_meshes_are_set_by_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.mlir").write_text(STAGES)
    document, _ = run_json(capsys, *COMPILE, "--mesh", "a:x=2|3", "--mesh", "b:x=?|4", "--shape", "v=6|7")
    assert document["open"] == {"axes": ["a:x", "b:x"], "inputs": {"v": "f32[?]"}}
    sizes = [specialization["specialised"] for specialization in document["specialisations"]]
    assert [(s["mesh"]["a:x"], s["mesh"]["b:x"], s["args"]["v"]) for s in sizes] == [(2, 4, [6]), (2, 4, [7]), (3, 4, [6]), (3, 4, [7])]  # fmt: skip
    for b, compiled_when in ((4, AHEAD), (1, AT_LOAD)):
        words = ("run", "p.mgx", "--mesh", "a:x=3", "--mesh", f"b:x={b}", "--shape", "v=7", "--expect", "p.mlir")
        ran, _ = run_json(capsys, *words)
        assert ran["ranks"] == 3 + b and ran["specialised"]["made"] == compiled_when and ran["compared"][0]["ok"]


def test_unused_open_sizes_are_not_specialized(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.mlir").write_text(PROGRAM.replace("[[1], [0]]", "[[1]]").replace("?x12", "7x12").replace("?x8xf32", "7x8xf32"))  # fmt: skip
    document, notes = run_json(capsys, *COMPILE, "--mesh", "0=2|3")
    assert "specialisations" not in document and document["mesh"] == {"0": None, "1": 2} and "does not depend" in notes
