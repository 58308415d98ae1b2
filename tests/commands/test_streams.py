"""Standard streams as callers leave them: closed, full, or with a reader that has enough. No traceback, no exit code 70."""

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
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("streams")
    (directory / "p.mlir").write_text(PROGRAM)
    (directory / "says.py").write_text("def f(x):\n    print('x')\n    return x\n")
    (directory / "closes.py").write_text("import sys\ndef f(x):\n    sys.stdout.close()\n    return x\n")
    return directory


@contextmanager
def stdout_as(kind: str) -> Generator[None]:
    """In this process: stdout on a full device, closed before Python started, or with a reader that has left."""
    kept = sys.stdout
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
        sys.stdout = kept


def shell(place: Path, line: str) -> subprocess.CompletedProcess[str]:
    """What a shell makes of a line in which `meshgen` stands for the command."""
    own = {"PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path), "MESHGEN": f"{sys.executable} -m meshgen"}
    line = line.replace("meshgen", "$MESHGEN")
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, cwd=place, env=os.environ | own)


@pytest.mark.parametrize("stream", [f"> {FULL}", ">&-", ">&- <&-"])
def test_a_result_that_cannot_be_told_is_a_failure_of_one_line(stream: str, place: Path) -> None:
    done = shell(place, f"meshgen --version {stream}")
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error MG0003: standard output cannot be written: ")
    assert done.stderr.count("\n") == 1


WORDS = ["check", "explain", "opt", "opt --json", "doctor", "doctor --json", "--help", "opt --help"]


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("kind", ["full", "closed"])
def test_every_command_fails_alike(
    kind: str, words: str, place: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    program = [] if "help" in words or "doctor" in words else ["p.mlir", "--mesh", "a=2"]
    with stdout_as(kind):
        assert main([*words.split(), *program]) == 2
    err = capfd.readouterr().err
    assert err.startswith("error MG0003: standard output cannot be written: ") and err.count("\n") == 1


@pytest.mark.parametrize("kind", ["full", "closed"])
def test_a_result_that_goes_to_a_file_needs_no_stdout(kind: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    with stdout_as(kind):
        assert main(["opt", "p.mlir", "--mesh", "a=2", "-o", "out.mlir"]) == 0
    assert "tanh" in (place / "out.mlir").read_text()


@pytest.mark.parametrize("kind", ["full", "closed"])
def test_a_refusal_that_cannot_be_told_in_json_is_still_that_refusal(
    kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with stdout_as(kind):
        assert main(["check", "--frobnicate", "--json"]) == 2
    err = capfd.readouterr().err
    assert "MG0001" in err and "MG0003" in err and "Traceback" not in err


@pytest.mark.parametrize("stream", ["2>&-", f"2> {FULL}", "<&- >&- 2>&-"])
def test_without_stderr_the_exit_code_is_the_same(stream: str, place: Path) -> None:
    done = shell(place, f"meshgen frobnicate {stream}")
    assert (done.returncode, done.stderr) == (2, "")


def test_stdin_that_is_closed_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["opt", "-"]) == 2
    assert "error MG0002: -: " in capsys.readouterr().err


def test_a_reader_that_leaves_changes_no_exit_code(
    place: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    for spec, code in (("a=_", 0), ("a=zz", 1)):
        with stdout_as("left"):
            assert main(["opt", "p.mlir", "--mesh", "a=2", "--spec", spec, "--passes", "propagate", "--json"]) == code
        assert ("MG0202" in capfd.readouterr().err) == (code == 1)


@pytest.mark.parametrize("program", ["says:f", "closes:f"])
def test_what_a_program_prints_or_closes_is_told(
    program: str, place: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    with stdout_as("full"):
        assert main(["opt", program, "--arg", "f32[4]", "--mesh", "a=2", "-o", "out.mlir"]) == 2
    assert "error MG0003: standard output" in capfd.readouterr().err


def test_what_an_encoding_lacks_is_escaped(place: Path) -> None:
    done = shell(place, "PYTHONIOENCODING=ascii:strict meshgen report p.mlir --mesh a=2 --target cpu -o 'é\udcff.html'")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "\\xe9\\udcff.html\n")


def test_control_characters_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert printable("a\x1b[2J\tb\r\n\x9b\x7fé") == "a\\x1b[2J\tb\\r\n\\x9b\\x7fé"
    assert main(["check", "nowhere\x1b]0;owned\x07.mlir"]) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err and "\\x1b]0;owned\\x07" in err


NOISY = "import os, subprocess, sys\nprint('at import')\ndef f(x):\n    print('print', x)\n    os.write(1, b'descriptor\\n')\n    subprocess.run(['echo', 'child'])\n    sys.__stdout__.write('around\\n')\n    return x\n"
SAID = ("at import", "print", "descriptor", "child", "around")


@pytest.mark.parametrize("words", ["check", "compile -o m.mgx --target cpu", "check --mesh a=3,a=3"])
def test_a_document_stands_alone_whatever_the_program_prints(words: str, place: Path) -> None:
    (place / "noisy.py").write_text(NOISY)
    line = f"meshgen {words} noisy:f --arg 'f32[4]' --json" + ("" if "a=3" in words else " --mesh a=2")
    done = shell(place, line)
    assert done.returncode == (2 if "a=3" in words else 0), done.stderr
    assert isinstance(json.loads(done.stdout), dict)
    assert "a=3" in words or all(text in done.stderr for text in SAID)


def test_without_a_document_what_the_program_prints_is_in_the_output(place: Path) -> None:
    (place / "noisy.py").write_text(NOISY)
    plain = shell(place, "meshgen check noisy:f --arg 'f32[4]' --mesh a=2")
    assert all(text in plain.stdout for text in SAID)


def test_a_program_prints_to_stderr_in_this_process_too(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    assert main(["check", "says:f", "--arg", "f32[4]", "--mesh", "a=2", "--json"]) == 0
    out, err = capsys.readouterr()
    assert isinstance(json.loads(out), dict) and err.count("x\n") == 1


def test_a_document_that_a_program_closed_stdout_for_is_written(place: Path) -> None:
    done = shell(place, "meshgen check closes:f --arg 'f32[4]' --mesh a=2 --json")
    assert done.returncode == 0 and isinstance(json.loads(done.stdout), dict)


def test_a_table_for_a_stdout_that_the_program_closed_is_a_failure_of_one_line(place: Path) -> None:
    done = shell(place, "meshgen check closes:f --arg 'f32[4]' --mesh a=2")
    assert done.returncode == 2 and done.stderr.startswith("error MG0003: standard output cannot be written: ")
