"""Tests that an executor that is no longer used is freed as soon as no call is running."""

from __future__ import annotations

import pytest

from meshgen.errors import Diagnostic, RuntimeFailure
from meshgen.runtime.cuda.api import emulated
from meshgen.runtime.cuda.deferred_free import retire


class Executor:
    """A stand-in for an executor that counts calls of `close`."""

    def __init__(self, fails: bool = False) -> None:
        self.freed, self._fails = 0, fails

    def close(self) -> None:
        self.freed += 1
        if self._fails:
            raise RuntimeFailure(Diagnostic("MG0604", "cuMemFree failed"))


def test_executor_is_freed_at_once_without_running_call() -> None:
    executor = Executor()
    retire(executor)
    assert executor.freed == 1


def test_executor_is_freed_after_outermost_running_call() -> None:
    api, executor = emulated(1, "sm_90"), Executor()
    with api.preserved_context():
        with api.preserved_context():
            retire(executor)
        assert not executor.freed
    assert executor.freed == 1


def test_executor_is_freed_after_failed_call() -> None:
    api, executor = emulated(1, "sm_90"), Executor()
    with pytest.raises(KeyError), api.preserved_context():
        retire(executor)
        raise KeyError
    assert executor.freed == 1


def test_call_ignores_errors_of_freeing_executors() -> None:
    api, executors = emulated(1, "sm_90"), [Executor(fails=True), Executor()]
    with api.preserved_context():
        for executor in executors:
            retire(executor)
    assert [executor.freed for executor in executors] == [1, 1]
