"""`python -m meshgen` as a process: what it prints is complete, and its end is that of any process, though it comes at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import atexit, sys
import meshgen as mg

def late():
    print("late", flush=False)

atexit.register(late)

def double(x):
    return x + x
"""
WORDS = ["check", "program:double", "--arg", "f32[8]", "--mesh", "x=2"]


def run(*words: str, place: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=place, capture_output=True, text=True)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def test_functions_that_are_registered_for_the_end_are_called_and_heard(place: Path) -> None:
    found = run("-m", "meshgen", *WORDS, place=place)
    assert found.returncode == 0 and found.stdout.endswith("late\n"), found.stderr


def test_the_exit_code_is_that_of_the_command(place: Path) -> None:
    found = run("-m", "meshgen", "compile", "none.mlir", "-o", "none.mgx", place=place)
    assert found.returncode == 2 and "MG0002" in found.stderr


def test_a_reader_that_leaves_is_no_fault(place: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "meshgen", *WORDS], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


def test_other_threads_are_waited_for(place: Path) -> None:
    program = place / "program.py"
    late = "import threading, time\nthreading.Thread(target=lambda: (time.sleep(1), print('thread'))).start()\n"
    program.write_text(PROGRAM + late)
    found = run("-m", "meshgen", *WORDS, place=place)
    assert found.returncode == 0 and found.stdout.split()[-2:] == ["thread", "late"]


@pytest.mark.parametrize(
    "how",
    [
        ("-m", "cProfile", "-m", "meshgen"),
        (
            "-c",
            "import runpy, sys\nsys.argv = ['meshgen', *sys.argv[1:]]\ntry:\n    runpy.run_module('meshgen', run_name='__main__')\nexcept SystemExit as end:\n    print('function calls', end.code)",
        ),
    ],
)
def test_a_process_that_runs_it_inside_goes_on(how: tuple[str, ...], place: Path) -> None:
    found = run(*how, *WORDS, place=place)
    assert "function calls" in found.stdout, found.stderr
