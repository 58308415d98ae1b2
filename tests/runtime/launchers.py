"""Start a process for each rank of a program, with mpiexec or one by one with the variables that torchrun sets."""

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
    300  # seconds after which a process counts as hung; chosen: a busy machine can be ten times slower than an idle one
)

needs_mpi = pytest.mark.skipif(
    not MPIEXEC.exists() or importlib.util.find_spec("mpi4py") is None, reason="there is no mpi4py with an MPI library"
)


def by_mpiexec(
    ranks: int, *words: str, options: Sequence[str] = (), limit: float = PATIENCE
) -> subprocess.CompletedProcess[str]:
    """Run a command on `ranks` processes under mpiexec, with the MPI library that belongs to mpiexec.

    mpiexec may be a link into another environment, so the library is looked up next to the resolved path.
    """
    launcher = MPIEXEC.resolve()
    library = sorted((launcher.parents[1] / "lib").glob("libmpi.so.*"))
    env = os.environ | ({"MPI4PY_LIBMPI": str(library[0])} if library else {})
    command = [str(launcher), *options, "-n", str(ranks), *words]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=limit, check=False)


@dataclass(frozen=True)
class Ended:
    """The exit code and the output of an ended process."""

    code: int
    out: str
    err: str


# Ports below the kernel's ephemeral range, which starts at 32768 (/proc/sys/net/ipv4/ip_local_port_range). An outgoing
# connection could take a port in that range between its choice and its use.
PORTS = range(20000, 32000)


def free_port() -> int:
    """Return a port on which nothing listens. In rare cases, another test process chooses the same one."""
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
    """Start a process for each rank with the variables of torchrun.

    Args:
        own: commands of the ranks that do not run `words`.
        variables: additional environment variables.
        prefix: words before the command of a rank, such as `ip netns exec one`.
    """
    port = str(free_port())
    processes: list[subprocess.Popen[str]] = []
    for rank in range(ranks):
        rank_variables = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "WORLD_SIZE": ranks,
            "MASTER_ADDR": host,
            "MASTER_PORT": port,
        }
        env = os.environ | {name: str(value) for name, value in rank_variables.items()} | dict(variables or {})
        command = [*(prefix or {}).get(rank, ()), *(own or {}).get(rank, words)]
        pipe = subprocess.PIPE
        with _interruptible():
            processes.append(subprocess.Popen(command, cwd=ROOT, env=env, stdout=pipe, stderr=pipe, text=True))
    return processes


@contextmanager
def _interruptible() -> Generator[None]:
    """Let child processes receive SIGINT. They would inherit that a shell ignores SIGINT for background processes."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def ended(processes: Sequence[subprocess.Popen[str]], limit: float = PATIENCE) -> list[Ended]:
    """Wait for all processes and return their exit codes and outputs.

    Raises:
        TimeoutError: a process does not end within `limit` seconds. All are killed, and the message contains their
            output.
    """
    outcomes, late = list[Ended](), 0
    end = time.monotonic() + limit
    for process in processes:
        try:
            out, err = process.communicate(timeout=max(end - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            late += 1
            process.kill()
            out, err = process.communicate()
        outcomes.append(Ended(process.returncode, out, err))
    if late:
        raise TimeoutError(f"{late} of {len(processes)} processes did not end within {limit:g} s: {outcomes}")
    return outcomes


def by_variables(ranks: int, *words: str, limit: float = PATIENCE) -> list[Ended]:
    """Start `words` once per rank, without a launcher, and return the exit codes and outputs."""
    return ended(started(ranks, *words), limit)
