"""A watchdog that ends a process whose main thread hangs in a call: NCCL's calls wait for peers without a time-out.

No exception can reach a thread inside of a library call, and a communicator cannot be aborted while it is initialised.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from meshgen.ccl.world import World
from meshgen.errors import RuntimeFailure

_LOOKS = 4  # in the time after which the process is ended


class Guard:
    """A context in which this thread must call `beat` within the time-out of its world."""

    def __init__(self, world: World, doing: str) -> None:
        """`doing`: for the message, `the making of NCCL's communicators`."""
        self._world, self._doing = world, doing
        self._is_over = threading.Event()
        self._last = time.monotonic()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def beat(self) -> None:
        """The thread is alive."""
        self._last = time.monotonic()

    def __enter__(self) -> Guard:
        self.beat()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        limit = self._world.time_out
        while not self._is_over.wait(limit / _LOOKS):
            if time.monotonic() - self._last > limit:
                self._end(limit)

    def _end(self, limit: float) -> None:
        """Fail as far as that is possible from another thread."""
        with self._world.doing(lambda: self._doing):
            failure = self._world.failure(f"a call did not return within {limit:g} s")
        sys.stderr.write(f"{failure}\n")
        sys.stderr.flush()
        self._world.fail(failure.diagnostics[0].message)  # the other thread is in the call, not in the world
        os._exit(RuntimeFailure.exit_code)
