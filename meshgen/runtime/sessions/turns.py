"""The order of the calls on a session: one at a time, whichever threads make them.

    thread 1   result = session(x)                              np.asarray(result)
    thread 2                          session(y)

The step of thread 2 writes the memory of the result of thread 1, which therefore is copied to the host first. A session that
only one thread uses copies nothing: its results are valid until the next step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar
from weakref import WeakSet

P = ParamSpec("P")
R = TypeVar("R")


class Kept(Protocol):
    """A result that can be copied to the host."""

    def keep(self) -> None: ...


class Turns:
    """A lock that one thread holds at a time, and the results that are read after the step that made them."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._owner, self._is_shared = threading.get_ident(), False
        self._results: WeakSet[Any] = WeakSet()

    def __enter__(self) -> None:
        self._lock.acquire()
        self._is_shared = self._is_shared or threading.get_ident() != self._owner

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def watch(self, result: Kept) -> None:
        """Note a result that a step made."""
        self._results.add(result)

    def keep_results(self) -> None:
        """Copy the results that somebody still has to the host, if several threads use the session: a step is about to begin."""
        if self._is_shared:
            for result in list(self._results):
                result.keep()
        self._results.clear()


class _HasTurns(Protocol):
    turns: Turns


S = TypeVar("S", bound=_HasTurns)


def in_turn(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """The method of an object with turns, which waits until no other thread is in one of these methods."""

    @wraps(method)
    def waiting(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.turns:
            return method(self, *args, **kwargs)

    return waiting
