"""Mutual exclusion of the calls on a session: threads run them one after another.

    thread 1   result = session(x)                              np.asarray(result)
    thread 2                          session(y)

The step of thread 2 overwrites the memory of thread 1's result, so the result is copied to the host first. A session
that only one thread uses copies nothing: its results are valid until the next step.
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
    """The interface of a result that `keep` copies to the host."""

    def keep(self) -> None: ...


class Turns:
    """A reentrant lock for the calls on a session.

    It also has the results that threads may still read after a later step.
    """

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
        """Remember a result of a step, which a later step would overwrite."""
        self._results.add(result)

    def keep_results(self) -> None:
        """Copy all live results to the host before a step, if several threads use the session."""
        if self._is_shared:
            for result in list(self._results):
                result.keep()
        self._results.clear()


class _HasTurns(Protocol):
    turns: Turns


S = TypeVar("S", bound=_HasTurns)


def in_turn(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Wrap a method of an object with an attribute `turns`: only one thread at a time runs such a method of the object."""

    @wraps(method)
    def wrapper(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.turns:
            return method(self, *args, **kwargs)

    return wrapper
