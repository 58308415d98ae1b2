"""Deferred freeing of executors and sessions.

An unused executor or session is freed only when no call of another one is in progress.

Python's cycle collector can find an unused executor at any moment, also between the calls of a step. Freeing memory
waits for all kernels of its device. These may wait for kernels of other ranks that the step has not issued yet, which
would be a deadlock.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from meshgen.errors import RuntimeFailure


class Closes(Protocol):
    def close(self) -> None: ...


_UNDER_WAY: list[None] = []  # one entry per call in progress of any executor or session, in all threads
_RETIRED: list[Closes] = []


def retire(executor: Closes) -> None:
    """Free the resources of an executor or session, now or, if a call is in progress, when the last such call ends."""
    _RETIRED.append(executor)
    _free_all()


def begin_call() -> None:
    """Mark a call of an executor or session as in progress: nothing is freed until the call ends."""
    _UNDER_WAY.append(None)


def end_call() -> None:
    """Mark the end of a call. If it was the last one in progress, free everything that was retired meanwhile."""
    _UNDER_WAY.pop()
    _free_all()


def _free_all() -> None:
    while _RETIRED and not _UNDER_WAY:
        with suppress(RuntimeFailure):  # a failure while freeing is not a failure of the call that ends
            _RETIRED.pop().close()
