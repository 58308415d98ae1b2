"""Executors and sessions that are not used any more are freed when no call of another one is under way.

Python's collector of cycles may find one at any moment, also between the calls of a step. To free memory waits for its device, and kernels
there may wait for those of other ranks, which the step has not issued yet.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from meshgen.errors import RuntimeFailure


class Closes(Protocol):
    def close(self) -> None: ...


_UNDER_WAY: list[None] = []  # calls of executors and sessions, in all threads
_RETIRED: list[Closes] = []


def retire(executor: Closes) -> None:
    """Free an executor, or what a session has, now, or at the end of the calls that are under way."""
    _RETIRED.append(executor)
    _free_all()


def begin_call() -> None:
    """Free nothing from here on."""
    _UNDER_WAY.append(None)


def end_call() -> None:
    """The end of a call that began; after the last one what was retired meanwhile is freed."""
    _UNDER_WAY.pop()
    _free_all()


def _free_all() -> None:
    while _RETIRED and not _UNDER_WAY:
        with suppress(RuntimeFailure):  # the call that ends has not failed
            _RETIRED.pop().close()
