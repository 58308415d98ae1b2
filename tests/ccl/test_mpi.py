"""Lowered collectives over MPI: one rank per process, the bits of the simulated ranks."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MPIEXEC = Path(sys.executable).parent / "mpiexec"

needs_mpi = pytest.mark.skipif(
    not MPIEXEC.exists() or importlib.util.find_spec("mpi4py") is None, reason="there is no mpi4py with an MPI library"
)
pytestmark = needs_mpi


def run(ranks: int, *words: object) -> subprocess.CompletedProcess[str]:
    return launched(ranks, "-m", "tests.ccl.check_mpi", *map(str, words))


def launched(ranks: int, *words: str) -> subprocess.CompletedProcess[str]:
    """Python under mpiexec. The library is the one of the launcher, which may be linked from another environment."""
    launcher = MPIEXEC.resolve()
    library = sorted((launcher.parents[1] / "lib").glob("libmpi.so.*"))
    env = os.environ | ({"MPI4PY_LIBMPI": str(library[0])} if library else {})
    command = [str(launcher), "-n", str(ranks), sys.executable, *words]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("ranks", [2, 4])
def test_random_collectives_do_what_they_mean(ranks: int) -> None:
    done = run(ranks, "--count", 20)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"20 collectives on {ranks} ranks, 0 wrong" in done.stdout


def test_a_peer_that_never_comes_is_given_up() -> None:
    done = run(2, "--alone")
    assert done.returncode != 0
    assert "MG0609: rank 0 waits for rank 1 in all_gather along x: no reply within 0.3 s" in done.stderr
