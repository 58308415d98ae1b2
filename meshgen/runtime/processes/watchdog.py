"""A watchdog that ends a process whose main thread hangs in a call of a library that waits for peers without a time-out.

No exception can reach a thread inside of such a call, and neither MPI nor a communicator of NCCL can be aborted while it is initialized.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable

from meshgen.errors import RuntimeFailure

_LOOKS = 4  # in the time after which the process is ended
_MOST_SECONDS = 1.0  # between two looks


class Watchdog:
    """A context in which this thread must call `beat` within a time limit, and the launcher must live."""

    def __init__(
        self,
        seconds: float,
        failure: Callable[[str], RuntimeFailure],
        tell: Callable[[str], None],
        *,
        has_launcher: bool = False,
    ) -> None:
        """Args:
            failure: makes the error of a reason, which the process writes before it ends.
            tell: tells the other ranks the message of the error, or gives them time to report theirs.
            has_launcher: the parent process is the launcher, or ends with it.
        """  # fmt: skip
        self._seconds, self._failure, self._tell = seconds, failure, tell
        self._parent = os.getppid() if has_launcher else None
        self._is_over = threading.Event()
        self._last = time.monotonic()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def beat(self) -> None:
        """The thread is alive."""
        self._last = time.monotonic()

    def __enter__(self) -> Watchdog:
        self.beat()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(min(self._seconds / _LOOKS, _MOST_SECONDS)):
            if time.monotonic() - self._last > self._seconds:
                self._end(f"a call did not return within {self._seconds:g} s")
            if self._parent is not None and os.getppid() != self._parent:
                self._end("the launcher is gone")

    def _end(self, reason: str) -> None:
        """Fail as far as that is possible from another thread."""
        failure = self._failure(reason)
        sys.stderr.write(f"{failure}\n")
        sys.stderr.flush()
        self._tell(failure.diagnostics[0].message)
        os._exit(RuntimeFailure.exit_code)
