"""A rank to which something happens in the middle of a step: `python -m tests.runtime.victim kill 7 run OUT.mgx ...`

What: `kill` (SIGKILL), `stop` (SIGSTOP), or the name of a file, which is made, and the rank goes on when it is gone again. When:
before the n-th message of its collectives leaves; of a link, the n-th that crosses it: the first and the second half of the ranks are
on two hosts. 0: never; the number of these messages is written to the standard error then.
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
    """Not of the making of communicators, `nccl/KEY`, nor of the gathering of results."""
    return name == "message" or name.startswith("group/") or (name.startswith("nccl/") and name.count("/") > 1)


def happen(what: str) -> None:
    if what in ("kill", "stop"):
        os.kill(os.getpid(), signal.SIGKILL if what == "kill" else signal.SIGSTOP)
        return
    Path(what).touch()
    while Path(what).exists():
        time.sleep(0.01)


if __name__ == "__main__":
    WHAT, WHEN = sys.argv[1], int(sys.argv[2])
    World.send = send
    code = main(sys.argv[3:])
    if not WHEN:
        sys.stderr.write(f"messages: {_sent}\n")
    sys.exit(code)
