"""Run a rank that fails in the middle of a step: `python -m tests.runtime.victim kill 7 run OUT.mgx ...`

The first argument is the fault: `kill` (SIGKILL), `stop` (SIGSTOP), or a file name. In the latter case the rank creates
the file and waits until it is deleted. The second argument n is the moment: just before the rank sends the n-th message
of its collectives. With a file name, only messages to the other host count; each host has half of the ranks. If n is
0, nothing fails, and the rank writes the number of these messages to standard error.
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
    """Whether a message belongs to a collective. Communicator setup (`nccl/KEY`) and gathering of results do not count."""
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
