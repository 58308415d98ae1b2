"""Bad input of every kind that users meet: its own number and place, the exit code of the manual, nothing half-written.

Commands run in the folder of their files. One of each kind runs in a process of its own, as a user runs it; that a process ends as
`main` returns is all that the others could add to that.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from meshgen.cli import main
from meshgen.errors import CODES
from tests.acceptance.cases import ROOT
from tests.programs import CONFLICT, mlp

UNKNOWN_OPS = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.first_unknown"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = stablehlo.tanh %a : tensor<4xf32>
  %c = "other.second_unknown"(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %d = "stablehlo.third_unknown"(%c) : (tensor<4xf32>) -> tensor<4xf32>
  return %d : tensor<4xf32>
}
"""
CANNOT_SPLIT = """shard.grid @mesh(shape = 4)
func.func @main(%x: tensor<6x2xf32>) -> tensor<12xf32> {
  %r = "stablehlo.reshape"(%x) {sharding = [[0], []]} : (tensor<6x2xf32>) -> tensor<12xf32>
  return %r : tensor<12xf32>
}
"""
OFFSETS = """shard.grid @mesh(shape = 4)
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %s = shard.sharding @mesh split_axes = [[0]] sharded_dims_offsets = [0, 2, 4, 6, 9] : !shard.sharding
  %a = shard.shard %x to %s : tensor<8x8xf32>
  return %a : tensor<8x8xf32>
}
"""
UNUSED_OUTPUT = b"what was here before"


@dataclass(frozen=True)
class Fault:
    """A bad program: its number, the lines that are told, and words of the message."""

    text: str
    number: str
    lines: tuple[int, ...]
    words: tuple[str, ...]


FAULTS = {
    "unknown operations": Fault(UNKNOWN_OPS, "MG0103", (2, 4, 5), ("first_unknown", "second_unknown", "third_unknown")),
    "unknown axis": Fault(mlp(x=("q", "")), "MG0202", (3,), ("'q'",)),
    "axis used twice": Fault(mlp(w1=("y", "y")), "MG0203", (3,), ("'y'",)),
    "annotation of the wrong rank": Fault(mlp(x=("x",)), "MG0204", (3,), ("1 dims", "rank 2")),
    "offsets past the end": Fault(OFFSETS, "MG0204", (4,), ("9", "8")),
    "a dim that cannot be split as asked": Fault(CANNOT_SPLIT, "MG0206", (3,), ("(6)", "reshape", "'0'")),
    "conflicting required annotations": Fault(CONFLICT, "MG0205", (6,), ("but also",)),
    "empty file": Fault("", "MG0102", (), ("empty",)),
    "a mesh with a zero": Fault(mlp().replace('"x"=2', '"x"=0'), "MG0201", (2,), ("size 0", "'x'")),
}


@dataclass(frozen=True)
class Done:
    """A command that has ended: its exit code and what it printed."""

    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def meshgen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in the test's folder."""

    def run(*words: object) -> Done:
        monkeypatch.chdir(tmp_path)
        capsys.readouterr()
        code = main([*map(str, words)])
        return Done(code, *capsys.readouterr())

    return run


def process(*words: object, cwd: Path, text: str = "") -> Done:
    """The command in a process of its own, with a text on its standard input."""
    done = subprocess.run(
        [sys.executable, "-m", "meshgen", *map(str, words)],
        input=text, capture_output=True, text=True, cwd=cwd, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=300,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def is_refused(done: Done, fault: Fault, place: Path) -> None:
    assert done.code == 1 and done.out == ""
    assert "Traceback" not in done.err and "internal error" not in done.err
    assert set(re.findall(r"error (MG\d{4}):", done.err)) == {fault.number}, done.err
    found = {int(line) for line in re.findall(r"program\.mlir:(\d+): error", done.err)}
    assert found == set(fault.lines), done.err
    assert all(word in done.err for word in fault.words), done.err
    # What was there stays, and nothing lies beside it.
    assert (place / "out.mgx").read_bytes() == UNUSED_OUTPUT
    assert sorted(p.name for p in place.iterdir()) == ["out.mgx", "program.mlir"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_program_is_refused_with_its_place(name: str, tmp_path: Path, meshgen: Run) -> None:
    fault = FAULTS[name]
    (tmp_path / "program.mlir").write_text(fault.text)
    (tmp_path / "out.mgx").write_bytes(UNUSED_OUTPUT)
    is_refused(meshgen("compile", "program.mlir", "--target", "cpu", "-o", "out.mgx"), fault, tmp_path)


def test_a_process_refuses_a_program_too(tmp_path: Path) -> None:
    fault = FAULTS["unknown operations"]
    (tmp_path / "program.mlir").write_text(fault.text)
    (tmp_path / "out.mgx").write_bytes(UNUSED_OUTPUT)
    done = process("compile", "program.mlir", "--target", "cpu", "-o", "out.mgx", cwd=tmp_path)
    is_refused(done, fault, tmp_path)


def test_each_kind_has_a_number_of_its_own() -> None:
    """Offsets and a wrong rank are both shardings that do not fit their tensor."""
    numbers = [fault.number for name, fault in FAULTS.items() if name != "offsets past the end"]
    assert len(set(numbers)) == len(numbers)
    assert set(numbers) <= set(CODES)


@pytest.mark.parametrize("name", FAULTS)
def test_the_document_says_the_same(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fault = FAULTS[name]
    path = tmp_path / "program.mlir"
    path.write_text(fault.text)
    assert main(["check", str(path), "--json"]) == 1
    got = json.loads(capsys.readouterr().out)
    assert (got["ok"], got["exit_code"]) == (False, 1)
    assert {d["code"] for d in got["diagnostics"]} == {fault.number}
    assert {d["location"]["line"] for d in got["diagnostics"] if d["location"]} - {0} == set(fault.lines)


def test_a_program_on_stdin_is_refused_too(tmp_path: Path) -> None:
    done = process("check", "-", cwd=tmp_path, text=UNKNOWN_OPS)
    assert done.code == 1 and done.out == "" and "Traceback" not in done.err
    assert re.findall(r"^-:(\d+): error MG0103", done.err, re.MULTILINE) == ["2", "4", "5"]


MISSING = (["check", "nowhere.mlir"], ["run", "nowhere.mgx"], ["inspect", "nowhere.mgx"], ["diff", "a", "b"])


@pytest.mark.parametrize("words", MISSING, ids=lambda words: words[0])
def test_a_missing_file_is_usage(words: list[str], tmp_path: Path, meshgen: Run) -> None:
    done = meshgen(*words)
    assert done.code == 2 and done.out == ""
    assert "error MG0002:" in done.err and "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("module")
    (place / "good.mlir").write_text(mlp())
    assert main(["compile", str(place / "good.mlir"), "--target", "cpu", "-o", str(place / "good.mgx"), "--json"]) == 0
    return place / "good.mgx"


def refused(path: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run and inspect a module that must be refused as damaged; nothing is written. Returns what was told."""
    for words in (["run", str(path), "--output", str(place / "result.npz")], ["inspect", str(path)]):
        capsys.readouterr()
        assert main(words) == 1
        out, err = capsys.readouterr()
        assert out == "" and re.search(r"error MG050[123]: ", err) and "Traceback" not in err
        assert not (place / "result.npz").exists()
    return err


@pytest.mark.parametrize("kept", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_module_is_refused(
    kept: float, module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, bad = module.read_bytes(), tmp_path / "bad.mgx"
    bad.write_bytes(content[: int(len(content) * kept)])
    assert "bad.mgx" in refused(bad, tmp_path, capsys)


def test_any_modified_byte_is_noticed(module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every 97th byte and its lowest bit: members, their headers, alignment and the directory at the end."""
    from meshgen.errors import ModuleError
    from meshgen.runtime.loading import load

    content, bad = module.read_bytes(), tmp_path / "bad.mgx"
    unnoticed: list[int] = []
    for place in range(0, len(content), 97):
        bad.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            load(bad)
            unnoticed.append(place)
        except ModuleError:
            continue
    assert unnoticed == []
    refused(bad, tmp_path, capsys)


def test_a_module_with_something_behind_it_is_refused(
    module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.mgx"
    bad.write_bytes(module.read_bytes() + b"\0" * 100)
    refused(bad, tmp_path, capsys)


def test_more_devices_than_the_module_has(module: Path, tmp_path: Path) -> None:
    done = process("run", module, "--devices", 64, "--output", "result.npz", cwd=tmp_path)
    assert done.code == 5 and done.out == ""
    assert "error MG0603:" in done.err and "4 devices" in done.err and "64" in done.err
    assert "Traceback" not in done.err and list(tmp_path.iterdir()) == []


def test_output_that_cannot_be_written_leaves_nothing(module: Path, tmp_path: Path, meshgen: Run) -> None:
    (tmp_path / "program.mlir").write_text(mlp())
    (tmp_path / "taken").mkdir()
    for words in (
        ["compile", "program.mlir", "--target", "cpu", "-o", "taken"],
        ["compile", "program.mlir", "--target", "cpu", "-o", "nowhere/out.mgx"],
        ["run", module, "--output", "nowhere/result.npz"],
    ):
        done = meshgen(*words)
        assert done.code == 2, done.err
        assert "error MG0003:" in done.err and "Traceback" not in done.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["program.mlir", "taken"]
    assert list((tmp_path / "taken").iterdir()) == []
