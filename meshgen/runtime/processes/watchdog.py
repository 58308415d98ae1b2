"""A watchdog that ends the process if the main thread hangs in a library call.

Such calls wait for other processes without a time-out. Python cannot raise an exception in a thread inside of a call,
and neither MPI nor an NCCL communicator can be aborted during its initialization.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable

from meshgen.errors import RuntimeFailure

_CHECKS = 4  # number of checks per time limit (chosen: a hang is noticed at most a quarter of the limit late)
_MAX_CHECK_SECONDS = 1.0  # longest interval between two checks, in seconds (chosen: notices a dead launcher soon)


class Watchdog:
    """A context that ends the process if this thread does not call `beat` within a time limit, or if the launcher dies."""

    def __init__(
        self,
        seconds: float,
        failure: Callable[[str], RuntimeFailure],
        tell: Callable[[str], None],
        *,
        has_launcher: bool = False,
    ) -> None:
        """Store the arguments.

        Entering the context starts the watching thread.

        Args:
            seconds: time limit between two beats.
            failure: returns the error for a reason. The process prints it before it ends.
            tell: called with the message of the error before the process ends; sends it to other ranks, or waits for
                their reports.
            has_launcher: the parent process is the launcher, or ends with it.
        """
        self._seconds, self._failure, self._tell = seconds, failure, tell
        self._parent = os.getppid() if has_launcher else None
        self._is_over = threading.Event()
        self._last = time.monotonic()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def beat(self) -> None:
        """Record that the guarded thread is alive."""
        self._last = time.monotonic()

    def __enter__(self) -> Watchdog:
        self.beat()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(min(self._seconds / _CHECKS, _MAX_CHECK_SECONDS)):
            if time.monotonic() - self._last > self._seconds:
                self._end(f"a call did not return within {self._seconds:g} s")
            if self._parent is not None and os.getppid() != self._parent:
                self._end("the launcher is gone")

    def _end(self, reason: str) -> None:
        """Print the error, report it to other ranks, and end the process. Runs in the watching thread."""
        failure = self._failure(reason)
        sys.stderr.write(f"{failure}\n")
        sys.stderr.flush()
        self._tell(failure.diagnostics[0].message)
        os._exit(RuntimeFailure.exit_code)
