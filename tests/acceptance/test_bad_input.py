"""Bad input of every kind that users meet: its own number and place, the exit code of the manual, nothing half-written.

`tests/test_cli_refusals.py` looks at the messages within the process; here commands run as a user runs them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
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


def meshgen(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    call = [sys.executable, "-m", "meshgen", *map(str, words)]
    return subprocess.run(call, capture_output=True, text=True, cwd=cwd, env=environment(), timeout=120)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("name", FAULTS)
def test_a_program_is_refused_with_its_place(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    (tmp_path / "program.mlir").write_text(fault.text)
    (tmp_path / "out.mgx").write_bytes(UNUSED_OUTPUT)
    done = meshgen("compile", "program.mlir", "--target", "cpu", "-o", "out.mgx", cwd=tmp_path)
    assert done.returncode == 1 and done.stdout == ""
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr
    assert set(re.findall(r"error (MG\d{4}):", done.stderr)) == {fault.number}, done.stderr
    found = {int(line) for line in re.findall(r"program\.mlir:(\d+): error", done.stderr)}
    assert found == set(fault.lines), done.stderr
    assert all(word in done.stderr for word in fault.words), done.stderr
    # What was there stays, and nothing lies beside it.
    assert (tmp_path / "out.mgx").read_bytes() == UNUSED_OUTPUT
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.mgx", "program.mlir"]


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
    call = [sys.executable, "-m", "meshgen", "check", "-"]
    done = subprocess.run(
        call, input=UNKNOWN_OPS, capture_output=True, text=True, cwd=tmp_path, env=environment(), timeout=120
    )
    assert done.returncode == 1 and done.stdout == "" and "Traceback" not in done.stderr
    assert re.findall(r"^-:(\d+): error MG0103", done.stderr, re.MULTILINE) == ["2", "4", "5"]


def test_a_missing_file_is_usage(tmp_path: Path) -> None:
    for words in (["check", "nowhere.mlir"], ["run", "nowhere.mgx"], ["inspect", "nowhere.mgx"], ["diff", "a", "b"]):
        done = meshgen(*words, cwd=tmp_path)
        assert done.returncode == 2 and done.stdout == ""
        assert "error MG0002:" in done.stderr and "Traceback" not in done.stderr
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
    done = meshgen("run", module, "--devices", 64, "--output", "result.npz", cwd=tmp_path)
    assert done.returncode == 5 and done.stdout == ""
    assert "error MG0603:" in done.stderr and "4 devices" in done.stderr and "64" in done.stderr
    assert "Traceback" not in done.stderr and list(tmp_path.iterdir()) == []


def test_output_that_cannot_be_written_leaves_nothing(module: Path, tmp_path: Path) -> None:
    (tmp_path / "program.mlir").write_text(mlp())
    (tmp_path / "taken").mkdir()
    for words in (
        ["compile", "program.mlir", "--target", "cpu", "-o", "taken"],
        ["compile", "program.mlir", "--target", "cpu", "-o", "nowhere/out.mgx"],
        ["run", module, "--output", "nowhere/result.npz"],
    ):
        done = meshgen(*words, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert "error MG0003:" in done.stderr and "Traceback" not in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["program.mlir", "taken"]
    assert list((tmp_path / "taken").iterdir()) == []
