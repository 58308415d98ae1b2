"""Processes of a program, one for each rank: started by mpiexec, or one by one with the variables that torchrun sets."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MPIEXEC = Path(sys.executable).parent / "mpiexec"
MESHGEN = (sys.executable, "-m", "meshgen")

needs_mpi = pytest.mark.skipif(
    not MPIEXEC.exists() or importlib.util.find_spec("mpi4py") is None, reason="there is no mpi4py with an MPI library"
)


def by_mpiexec(
    ranks: int, *words: str, options: Sequence[str] = (), limit: float = 300
) -> subprocess.CompletedProcess[str]:
    """The library is the one of the launcher, which may be linked from another environment."""
    launcher = MPIEXEC.resolve()
    library = sorted((launcher.parents[1] / "lib").glob("libmpi.so.*"))
    env = os.environ | ({"MPI4PY_LIBMPI": str(library[0])} if library else {})
    command = [str(launcher), *options, "-n", str(ranks), *words]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=limit, check=False)


@dataclass(frozen=True)
class Ended:
    """A process that has ended."""

    code: int
    out: str
    err: str


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def started(
    ranks: int,
    *words: str,
    own: Mapping[int, Sequence[str]] | None = None,
    variables: Mapping[str, str] | None = None,
    prefix: Mapping[int, Sequence[str]] | None = None,
    host: str = "127.0.0.1",
) -> list[subprocess.Popen[str]]:
    """A process for each rank, each for itself.

    Args:
        own: other words for some ranks.
        variables: more of them.
        prefix: of the commands of some ranks, such as `ip netns exec one`.
    """
    port = str(free_port())
    found: list[subprocess.Popen[str]] = []
    for rank in range(ranks):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": host, "MASTER_PORT": port}
        env = os.environ | {name: str(value) for name, value in place.items()} | dict(variables or {})
        command = [*(prefix or {}).get(rank, ()), *(own or {}).get(rank, words)]
        pipe = subprocess.PIPE
        with _interruptible():
            found.append(subprocess.Popen(command, cwd=ROOT, env=env, stdout=pipe, stderr=pipe, text=True))
    return found


@contextmanager
def _interruptible() -> Generator[None]:
    """What a shell starts in the background ignores SIGINT, and so would its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def ended(processes: Sequence[subprocess.Popen[str]], limit: float = 300) -> list[Ended]:
    """How each process ends; none is left behind."""
    try:
        found: list[Ended] = []
        for process in processes:
            out, err = process.communicate(timeout=limit)
            found.append(Ended(process.returncode, out, err))
        return found
    finally:
        for process in processes:
            process.kill()


def by_variables(ranks: int, *words: str, limit: float = 300) -> list[Ended]:
    return ended(started(ranks, *words), limit)
