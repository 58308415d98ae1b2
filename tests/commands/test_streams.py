"""Standard streams that are closed, full, or whose reader has ended. Commands print no traceback and never exit with
code 70.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from meshgen.cli import main
from meshgen.printable import printable

PROGRAM = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
FULL = Path("/dev/full")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("streams")
    (directory / "p.mlir").write_text(PROGRAM)
    (directory / "says.py").write_text("def f(x):\n    print('x')\n    return x\n")
    (directory / "closes.py").write_text("import sys\ndef f(x):\n    sys.stdout.close()\n    return x\n")
    return directory


@contextmanager
def stdout_as(kind: str) -> Generator[None]:
    """Within the context, stdout of this process is a full device, a closed stream, or a pipe whose reader has ended."""
    original = sys.stdout
    if kind == "left":
        read, write = os.pipe()
        os.close(read)
        sys.stdout = open(write, "w")  # noqa: SIM115
    else:
        sys.stdout = open(FULL, "w") if kind == "full" else None  # noqa: SIM115  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.stdout.close()
        sys.stdout = original


def shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Run a line in a shell in which the command `meshgen` runs this checkout."""
    variables = {
        "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path),
        "MESHGEN": f"{sys.executable} -m meshgen",
    }
    line = line.replace("meshgen", "$MESHGEN")
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, cwd=folder, env=os.environ | variables)


@pytest.mark.parametrize("stream", [f"> {FULL}", ">&-", ">&- <&-"])
def test_unwritable_stdout_fails_with_a_one_line_error(stream: str, folder: Path) -> None:
    completed = shell(folder, f"meshgen --version {stream}")
    assert completed.returncode == 2, completed.stderr
    assert completed.stderr.startswith("error MG0003: standard output cannot be written: ")
    assert completed.stderr.count("\n") == 1


WORDS = ["check", "explain", "opt", "opt --json", "doctor", "doctor --json", "--help", "opt --help"]


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("kind", ["full", "closed"])
def test_every_command_reports_unwritable_stdout_alike(
    kind: str, words: str, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    program = [] if "help" in words or "doctor" in words else ["p.mlir", "--mesh", "a=2"]
    with stdout_as(kind):
        assert main([*words.split(), *program]) == 2
    err = capfd.readouterr().err
    assert err.startswith("error MG0003: standard output cannot be written: ") and err.count("\n") == 1


@pytest.mark.parametrize("kind", ["full", "closed"])
def test_output_to_file_needs_no_stdout(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with stdout_as(kind):
        assert main(["opt", "p.mlir", "--mesh", "a=2", "-o", "out.mlir"]) == 0
    assert "tanh" in (folder / "out.mlir").read_text()


@pytest.mark.parametrize("kind", ["full", "closed"])
def test_usage_error_is_kept_if_its_json_cannot_be_written(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    with stdout_as(kind):
        assert main(["check", "--frobnicate", "--json"]) == 2
    err = capfd.readouterr().err
    assert "MG0001" in err and "MG0003" in err and "Traceback" not in err


@pytest.mark.parametrize("stream", ["2>&-", f"2> {FULL}", "<&- >&- 2>&-"])
def test_exit_code_does_not_depend_on_stderr(stream: str, folder: Path) -> None:
    completed = shell(folder, f"meshgen frobnicate {stream}")
    assert (completed.returncode, completed.stderr) == (2, "")


def test_closed_stdin_is_refused_as_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["opt", "-"]) == 2
    assert "error MG0002: -: " in capsys.readouterr().err


def test_exit_code_is_kept_if_the_reader_of_stdout_leaves(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for spec, code in (("a=_", 0), ("a=zz", 1)):
        with stdout_as("left"):
            assert main(["opt", "p.mlir", "--mesh", "a=2", "--spec", spec, "--passes", "propagate", "--json"]) == code
        assert ("MG0202" in capfd.readouterr().err) == (code == 1)


@pytest.mark.parametrize("program", ["says:f", "closes:f"])
def test_program_that_prints_to_full_stdout_or_closes_it_is_reported(
    program: str, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with stdout_as("full"):
        assert main(["opt", program, "--arg", "f32[4]", "--mesh", "a=2", "-o", "out.mlir"]) == 2
    assert "error MG0003: standard output" in capfd.readouterr().err


def test_unencodable_output_is_escaped(folder: Path) -> None:
    completed = shell(
        folder, "PYTHONIOENCODING=ascii:strict meshgen report p.mlir --mesh a=2 --target cpu -o 'é\udcff.html'"
    )
    assert (completed.returncode, completed.stderr, completed.stdout) == (0, "", "\\xe9\\udcff.html\n")


def test_control_characters_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert printable("a\x1b[2J\tb\r\n\x9b\x7fé") == "a\\x1b[2J\tb\\r\n\\x9b\\x7fé"
    assert main(["check", "nowhere\x1b]0;owned\x07.mlir"]) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err and "\\x1b]0;owned\\x07" in err


NOISY = "import os, subprocess, sys\nprint('at import')\ndef f(x):\n    print('print', x)\n    os.write(1, b'descriptor\\n')\n    subprocess.run(['echo', 'child'])\n    sys.__stdout__.write('around\\n')\n    return x\n"
SAID = ("at import", "print", "descriptor", "child", "around")


@pytest.mark.parametrize("words", ["check", "compile -o m.mgx --target cpu", "check --mesh a=3,a=3"])
def test_json_document_is_separate_from_program_output(words: str, folder: Path) -> None:
    (folder / "noisy.py").write_text(NOISY)
    line = f"meshgen {words} noisy:f --arg 'f32[4]' --json" + ("" if "a=3" in words else " --mesh a=2")
    completed = shell(folder, line)
    assert completed.returncode == (2 if "a=3" in words else 0), completed.stderr
    assert isinstance(json.loads(completed.stdout), dict)
    assert "a=3" in words or all(text in completed.stderr for text in SAID)


def test_program_output_is_on_stdout_without_json(folder: Path) -> None:
    (folder / "noisy.py").write_text(NOISY)
    plain = shell(folder, "meshgen check noisy:f --arg 'f32[4]' --mesh a=2")
    assert all(text in plain.stdout for text in SAID)


def test_program_output_is_on_stderr_beside_json_in_process(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert main(["check", "says:f", "--arg", "f32[4]", "--mesh", "a=2", "--json"]) == 0
    out, err = capsys.readouterr()
    assert isinstance(json.loads(out), dict) and err.count("x\n") == 1


def test_json_document_is_written_if_program_closes_stdout(folder: Path) -> None:
    completed = shell(folder, "meshgen check closes:f --arg 'f32[4]' --mesh a=2 --json")
    assert completed.returncode == 0 and isinstance(json.loads(completed.stdout), dict)


def test_table_fails_with_one_line_error_if_program_closes_stdout(folder: Path) -> None:
    completed = shell(folder, "meshgen check closes:f --arg 'f32[4]' --mesh a=2")
    assert completed.returncode == 2 and completed.stderr.startswith(
        "error MG0003: standard output cannot be written: "
    )
