"""Run a rank that fails in the middle of a step: `python -m tests.runtime.victim kill 7 run OUT.mgx ...`

The first argument is the fault: `kill` (SIGKILL), `stop` (SIGSTOP), or a file name. The rank creates this file and
continues
when it is deleted. The second argument n is the time: before the n-th message of the rank's collectives is sent. For a
file
name only messages between the hosts count; each host has one half of the ranks. If n is 0, nothing fails, and the
number of
counted messages is written to standard error.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from meshgen.ccl.world import World
from meshgen.cli import main

_send, _sent = World.send, 0


def send(world: World, peer: int, name: str, content: Any) -> None:
    global _sent
    crosses = 2 * world.rank // world.size != 2 * peer // world.size
    if is_of_collective(name) and (crosses or WHAT in ("kill", "stop")):
        _sent += 1
        if _sent == WHEN:
            happen(WHAT)
    _send(world, peer, name, content)


def is_of_collective(name: str) -> bool:
    """Whether a message belongs to a collective, not to communicator setup (`nccl/KEY`) or to the gathering of results."""
    return name == "message" or name.startswith("group/") or (name.startswith("nccl/") and name.count("/") > 1)


def happen(fault: str) -> None:
    if fault in ("kill", "stop"):
        os.kill(os.getpid(), signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
        return
    Path(fault).touch()
    while Path(fault).exists():
        time.sleep(0.01)


if __name__ == "__main__":
    WHAT, WHEN = sys.argv[1], int(sys.argv[2])
    World.send = send
    code = main(sys.argv[3:])
    if not WHEN:
        sys.stderr.write(f"messages: {_sent}\n")
    sys.exit(code)
