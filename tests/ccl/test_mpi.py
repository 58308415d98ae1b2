"""Tests of lowered collectives over MPI with one rank per process: bitwise equal to simulated ranks."""

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
    """Run Python under mpiexec with the MPI library of that mpiexec, which may be a link into another environment."""
    launcher = MPIEXEC.resolve()
    library = sorted((launcher.parents[1] / "lib").glob("libmpi.so.*"))
    env = os.environ | ({"MPI4PY_LIBMPI": str(library[0])} if library else {})
    command = [str(launcher), "-n", str(ranks), sys.executable, *words]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("ranks", [2, 4])
def test_random_mpi_collectives_match_reference(ranks: int) -> None:
    done = run(ranks, "--count", 20)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"20 collectives on {ranks} ranks, 0 wrong" in done.stdout


def test_missing_mpi_peer_is_reported_after_timeout() -> None:
    done = run(2, "--alone")
    assert done.returncode != 0
    assert "MG0609: rank 0 waits for rank 1 in all_gather along x: no reply within 0.3 s" in done.stderr
