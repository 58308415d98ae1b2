"""Diagnostics as JSON and SARIF for editors and CI, modules as input of `explain`, exit codes of `diff`, and
suggestions for misspelled names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from meshgen.cli import main
from tests.reports.models import layers

REPEATED = """sdy.mesh @mesh = <["x"=8]>
func.func @main(%a: tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
  %b = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  return %b : tensor<2048x2048xf32>
}
"""
BROKEN = 'func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {\n  %b = "stablehlo.nope"(%a) : (tensor<8xf32>) -> tensor<8xf32>\n  return %b : tensor<8xf32>\n}\n'


def diagnose(form: str, words: list[Any], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = main([*map(str, words), "--diagnostics", form])
    return code, json.loads(capsys.readouterr().err)


def test_json_diagnostics_list_located_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.mlir").write_text(REPEATED)
    code, document = diagnose("json", ["explain", tmp_path / "m.mlir"], capsys)
    (warning,) = document["diagnostics"]
    assert code == 0 and warning["level"] == "warning" and warning["code"] == "MG0404"
    assert warning["location"]["line"] == 3


def test_sarif_diagnostics_list_located_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.mlir").write_text(BROKEN)
    code, document = diagnose("sarif", ["explain", tmp_path / "m.mlir"], capsys)
    (run,) = document["runs"]
    (result,) = run["results"]
    location = result["locations"][0]["physicalLocation"]
    assert code == 1 and document["version"] == "2.1.0" and result["level"] == "error"
    assert location["artifactLocation"]["uri"].endswith("m.mlir") and location["region"]["startLine"] == 2
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [result["ruleId"]] == ["MG0103"]


def test_misspelled_value_name_gets_a_suggestion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.mlir").write_text(layers(30))
    for words in (["layers.7.dwon"], ["--what-if", "layers.7.dwon=_,_"]):
        assert main(["explain", str(tmp_path / "m.mlir"), "--target", "cpu", *words]) == 2
        hint = capsys.readouterr().err.splitlines()[-1]
        assert hint.startswith("  help: did you mean %layers.7.down or ") and len(hint) < 100


def test_explain_reads_module_like_its_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, module = tmp_path / "m.mlir", tmp_path / "m.mgx"
    program.write_text(layers(4))
    assert main(["compile", str(program), "--target", "cpu", "--skip", "chunks", "-o", str(module)]) == 0
    capsys.readouterr()
    assert main(["explain", str(module)]) == 0
    captured = capsys.readouterr()
    assert main(["explain", str(program), "--target", "cpu", "--skip", "chunks"]) == 0
    assert captured.out == capsys.readouterr().out and "model.py:5" in captured.out and not captured.err
    assert main(["explain", str(module), "layers.1.up"]) == 0
    assert "required annotation [{}, {tp}]" in capsys.readouterr().out


def test_diff_fails_if_a_figure_grew_beyond_its_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / name for name in ("a.mgx", "b.mgx")]
    for count, path in zip((2, 3), paths, strict=True):
        path.with_suffix(".mlir").write_text(layers(count))
        assert main(["compile", str(path.with_suffix(".mlir")), "--target", "cpu", "-o", str(path)]) == 0
    before, after = map(str, paths)
    capsys.readouterr()
    assert main(["diff", before, after, "--fail-on", "bytes:+60%"]) == 0
    assert "appears: all_reduce over tp of f32[8,64]" in capsys.readouterr().out
    assert main(["diff", before, after, "--fail-on", "bytes:+5%", "--fail-on", "collectives:+1"]) == 3
    assert capsys.readouterr().err == "error: ring bytes: 6.14 kB -> 9.22 kB, at most 6.45 kB is allowed\n"
    assert main(["diff", after, before, "--fail-on", "bytes:+0"]) == 0
