"""`meshgen tune`: its output, the files that it writes, and the options that it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meshgen.cli import main
from meshgen.codegen.triton_source import KernelSource
from meshgen.codegen.tuning import tuner
from meshgen.codegen.tuning.forms import candidates
from meshgen.codegen.tuning.table import TuningTable, read_table
from meshgen.commands import tune
from tests.codegen.tuning.measuring import PRODUCTS, bench, compiled
from tests.codegen.tuning.test_tuning_table import ROW


@pytest.fixture
def module(tmp_path: Path) -> Path:
    compiled(tmp_path / "m.mgx")
    return tmp_path / "m.mgx"


def on_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the first GPU with an emulated GPU whose kernels take predefined times."""
    monkeypatch.setattr(tune, "on_gpu", lambda seconds, candidates: bench(seconds=seconds, candidates=candidates)[0])


def test_tune_replaces_kernels_and_compile_reads_its_table(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_bench(monkeypatch)
    words = [
        "tune",
        str(module),
        "-o",
        str(tmp_path / "n.mgx"),
        "--table",
        str(tmp_path / "t.json"),
        "--candidates",
        "4",
    ]
    content = module.read_bytes()
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["replaced"] == 2 and module.read_bytes() == content
    assert [(record["kernel"], record["verdict"]) for record in document["kernels"]] == [
        ("dot_tanh", "replaced"),
        ("dot", "replaced"),
    ]
    assert all(record["after"] < record["before"] for record in document["kernels"])
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "2 of 2 kernels replaced" in shown and "dot_tanh" in shown
    (tmp_path / "p.mlir").write_text(PRODUCTS)
    words = [
        "compile",
        str(tmp_path / "p.mlir"),
        "--mesh",
        "x=1",
        "--target",
        "cuda:sm_90",
        "-o",
        str(tmp_path / "c.mgx"),
    ]
    assert main([*words, "--tuning", str(tmp_path / "t.json")]) == 0
    assert "Emulated H100" in capsys.readouterr().out
    assert main(["inspect", str(tmp_path / "c.mgx"), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["kernel_list"]
    assert [record["measured"] for record in listed] == ["Emulated H100"] * 2
    assert main(["run", str(tmp_path / "n.mgx"), "--device", "emulate", "--expect", str(tmp_path / "p.mlir")]) == 0


def test_tune_only_checks_candidates_on_emulated_gpu(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = module.read_bytes()
    assert main(["tune", str(module), "--device", "emulate", "--candidates", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["output"] is None and document["replaced"] == 0
    assert [(record["compared"], record["disagree"]) for record in document["kernels"]] == [(1, 0)] * 2
    assert module.read_bytes() == content


def test_tune_reports_a_candidate_with_wrong_results(
    module: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(*args: Any) -> list[KernelSource]:
        first, second = candidates(*args)
        return [first, replace(second, text=second.text.replace("tl.dot(", "1 + tl.dot("))]

    monkeypatch.setattr(tuner, "candidates", wrong)
    assert main(["tune", str(module), "--device", "emulate", "--candidates", "2"]) == 3
    assert "warning MG0612: kernel 'dot_tanh' with tile {'m'" in capsys.readouterr().err


def test_tuning_tables_are_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / name for name in ("a.json", "b.json", "out.json")]
    TuningTable([ROW, replace(ROW, kernel="k")]).write(paths[0])
    TuningTable([ROW, replace(ROW, kernel="l")]).write(paths[1])
    assert main(["tune", "--merge", str(paths[0]), str(paths[1]), "--table", str(paths[2])]) == 0
    assert capsys.readouterr().out == f"{paths[2]}: 3 rows\n"
    assert len(read_table(paths[2]).rows) == 3


@pytest.mark.parametrize(
    "words, code, text",
    [
        ([], 2, "MG0001: a module is missing"),
        (["--merge", "a.json"], 2, "MG0001: --merge writes a table: --table is missing"),
        (["m.mgx", "--table", "t.json", "--merge", "a.json"], 2, "MG0001: --merge takes tables, no module"),
        (["--merge", "a.json", "--table", "t.json"], 2, "MG0002"),
        (["nothing.mgx"], 2, "MG0002"),
        (["m.mgx", "--device", "emulate", "-o", "n.mgx"], 2, "MG0001: --device emulate writes nothing"),
        (["m.mgx", "--seconds", "0"], 2, "MG0001"),
        (["m.mgx", "--candidates", "0"], 2, "MG0001"),
    ],
)
def test_bad_options_are_refused(words: list[str], code: int, text: str, module: Path, monkeypatch: pytest.MonkeyPatch,
                                 capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    monkeypatch.chdir(module.parent)
    assert main(["tune", *words]) == code
    assert text in capsys.readouterr().err


def test_module_for_cpu_has_no_kernel_to_tune(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled(tmp_path / "m.mgx", target="cpu")
    assert main(["tune", str(tmp_path / "m.mgx"), "--device", "emulate"]) == 5
    assert "MG0602: no kernel of the module is compiled for sm_90" in capsys.readouterr().err
