"""Processes of a program, one for each rank: started by mpiexec, or one by one with the variables that torchrun sets."""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MPIEXEC = Path(sys.executable).parent / "mpiexec"
MESHGEN = (sys.executable, "-m", "meshgen")
PATIENCE = (
    300  # seconds after which a process is taken to hang; a busy machine can be ten times slower than an idle one
)

needs_mpi = pytest.mark.skipif(
    not MPIEXEC.exists() or importlib.util.find_spec("mpi4py") is None, reason="there is no mpi4py with an MPI library"
)


def by_mpiexec(
    ranks: int, *words: str, options: Sequence[str] = (), limit: float = PATIENCE
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


# Below what the system gives to connections by itself (/proc/sys/net/ipv4/ip_local_port_range: 32768 and more), which could take
# a port between its choice and its use
PORTS = range(20000, 32000)


def free_port() -> int:
    """A port at which nothing listens and nothing will, unless a test of another process draws the same one."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


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


def ended(processes: Sequence[subprocess.Popen[str]], limit: float = PATIENCE) -> list[Ended]:
    """How each process ends; none is left behind. Raises TimeoutError with what was printed, if one does not end."""
    found, late = list[Ended](), 0
    end = time.monotonic() + limit
    for process in processes:
        try:
            out, err = process.communicate(timeout=max(end - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            late += 1
            process.kill()
            out, err = process.communicate()
        found.append(Ended(process.returncode, out, err))
    if late:
        raise TimeoutError(f"{late} of {len(processes)} processes did not end within {limit:g} s: {found}")
    return found


def by_variables(ranks: int, *words: str, limit: float = PATIENCE) -> list[Ended]:
    return ended(started(ranks, *words), limit)
