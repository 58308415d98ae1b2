"""Invalid input of every kind. Each has its own diagnostic code and location, ends with the documented exit code, and
leaves no partial output.

Most commands run in this process. One of each kind runs in a subprocess, to check that the process exits with the code
that `main` returns.
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
    """An invalid program, with its diagnostic code, the lines that are reported, and words that the message contains."""

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
    """Result of a command: exit code, stdout and stderr."""

    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def meshgen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs the command line in an empty folder of the test."""

    def run(*words: object) -> Done:
        monkeypatch.chdir(tmp_path)
        capsys.readouterr()
        code = main([*map(str, words)])
        return Done(code, *capsys.readouterr())

    return run


def process(*words: object, cwd: Path, text: str = "") -> Done:
    """Run the command in a subprocess, with `text` on its standard input."""
    completed = subprocess.run(
        [sys.executable, "-m", "meshgen", *map(str, words)],
        input=text, capture_output=True, text=True, cwd=cwd, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=300,
    )  # fmt: skip
    return Done(completed.returncode, completed.stdout, completed.stderr)


def assert_refused(done: Done, fault: Fault, folder: Path) -> None:
    assert done.code == 1 and done.out == ""
    assert "Traceback" not in done.err and "internal error" not in done.err
    assert set(re.findall(r"error (MG\d{4}):", done.err)) == {fault.number}, done.err
    reported_lines = {int(line) for line in re.findall(r"program\.mlir:(\d+): error", done.err)}
    assert reported_lines == set(fault.lines), done.err
    assert all(word in done.err for word in fault.words), done.err
    # the old output is unchanged, and the folder has no other new file
    assert (folder / "out.mgx").read_bytes() == UNUSED_OUTPUT
    assert sorted(p.name for p in folder.iterdir()) == ["out.mgx", "program.mlir"]


@pytest.mark.parametrize("name", FAULTS)
def test_invalid_program_is_refused_with_its_location(name: str, tmp_path: Path, meshgen: Run) -> None:
    fault = FAULTS[name]
    (tmp_path / "program.mlir").write_text(fault.text)
    (tmp_path / "out.mgx").write_bytes(UNUSED_OUTPUT)
    assert_refused(meshgen("compile", "program.mlir", "--target", "cpu", "-o", "out.mgx"), fault, tmp_path)


def test_subprocess_refuses_invalid_program(tmp_path: Path) -> None:
    fault = FAULTS["unknown operations"]
    (tmp_path / "program.mlir").write_text(fault.text)
    (tmp_path / "out.mgx").write_bytes(UNUSED_OUTPUT)
    done = process("compile", "program.mlir", "--target", "cpu", "-o", "out.mgx", cwd=tmp_path)
    assert_refused(done, fault, tmp_path)


def test_each_kind_of_fault_has_its_own_code() -> None:
    """Invalid offsets and a wrong rank share a code: in both cases a sharding does not fit its tensor."""
    numbers = [fault.number for name, fault in FAULTS.items() if name != "offsets past the end"]
    assert len(set(numbers)) == len(numbers)
    assert set(numbers) <= set(CODES)


@pytest.mark.parametrize("name", FAULTS)
def test_json_diagnostics_match_text_diagnostics(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fault = FAULTS[name]
    path = tmp_path / "program.mlir"
    path.write_text(fault.text)
    assert main(["check", str(path), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["ok"], report["exit_code"]) == (False, 1)
    assert {d["code"] for d in report["diagnostics"]} == {fault.number}
    assert {d["location"]["line"] for d in report["diagnostics"] if d["location"]} - {0} == set(fault.lines)


def test_invalid_program_on_stdin_is_refused(tmp_path: Path) -> None:
    done = process("check", "-", cwd=tmp_path, text=UNKNOWN_OPS)
    assert done.code == 1 and done.out == "" and "Traceback" not in done.err
    assert re.findall(r"^-:(\d+): error MG0103", done.err, re.MULTILINE) == ["2", "4", "5"]


MISSING = (["check", "nowhere.mlir"], ["run", "nowhere.mgx"], ["inspect", "nowhere.mgx"], ["diff", "a", "b"])


@pytest.mark.parametrize("words", MISSING, ids=lambda words: words[0])
def test_missing_file_is_usage_error(words: list[str], tmp_path: Path, meshgen: Run) -> None:
    done = meshgen(*words)
    assert done.code == 2 and done.out == ""
    assert "error MG0002:" in done.err and "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("module")
    (folder / "good.mlir").write_text(mlp())
    assert (
        main(["compile", str(folder / "good.mlir"), "--target", "cpu", "-o", str(folder / "good.mgx"), "--json"]) == 0
    )
    return folder / "good.mgx"


def refused(path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run and inspect a damaged module. Require that both commands refuse it without output, and return the error
    message of `inspect`.
    """
    for words in (["run", str(path), "--output", str(folder / "result.npz")], ["inspect", str(path)]):
        capsys.readouterr()
        assert main(words) == 1
        out, err = capsys.readouterr()
        assert out == "" and re.search(r"error MG050[123]: ", err) and "Traceback" not in err
        assert not (folder / "result.npz").exists()
    return err


@pytest.mark.parametrize("fraction", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_truncated_module_is_refused(
    fraction: float, module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, bad = module.read_bytes(), tmp_path / "bad.mgx"
    bad.write_bytes(content[: int(len(content) * fraction)])
    assert "bad.mgx" in refused(bad, tmp_path, capsys)


def test_flipped_bit_in_module_is_detected(module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Flip the lowest bit of every 97th byte, so that members, headers, alignment padding and the directory at the end
    are hit.
    """
    from meshgen.errors import ModuleError
    from meshgen.runtime.loading import load

    content, bad = module.read_bytes(), tmp_path / "bad.mgx"
    undetected: list[int] = []
    for offset in range(0, len(content), 97):
        bad.write_bytes(content[:offset] + bytes([content[offset] ^ 1]) + content[offset + 1 :])
        try:
            load(bad)
            undetected.append(offset)
        except ModuleError:
            continue
    assert undetected == []
    refused(bad, tmp_path, capsys)


def test_module_with_trailing_bytes_is_refused(
    module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.mgx"
    bad.write_bytes(module.read_bytes() + b"\0" * 100)
    refused(bad, tmp_path, capsys)


def test_run_on_more_devices_than_module_has_is_refused(module: Path, tmp_path: Path) -> None:
    done = process("run", module, "--devices", 64, "--output", "result.npz", cwd=tmp_path)
    assert done.code == 5 and done.out == ""
    assert "error MG0603:" in done.err and "4 devices" in done.err and "64" in done.err
    assert "Traceback" not in done.err and list(tmp_path.iterdir()) == []


def test_unwritable_output_leaves_no_files(module: Path, tmp_path: Path, meshgen: Run) -> None:
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
