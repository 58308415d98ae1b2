"""Executors that nobody uses any more."""

from __future__ import annotations

import pytest

from meshgen.errors import Diagnostic, RuntimeFailure
from meshgen.runtime.cuda.api import emulated
from meshgen.runtime.cuda.retired import retire


class Executor:
    """Counts how often it is freed."""

    def __init__(self, fails: bool = False) -> None:
        self.freed, self._fails = 0, fails

    def close(self) -> None:
        self.freed += 1
        if self._fails:
            raise RuntimeFailure(Diagnostic("MG0604", "cuMemFree failed"))


def test_it_is_freed_at_once_where_no_call_is_under_way() -> None:
    executor = Executor()
    retire(executor)
    assert executor.freed == 1


def test_it_is_freed_after_the_outermost_call_that_is_under_way() -> None:
    api, executor = emulated(1, "sm_90"), Executor()
    with api.kept_context():
        with api.kept_context():
            retire(executor)
        assert not executor.freed
    assert executor.freed == 1


def test_a_call_that_fails_frees_it_too() -> None:
    api, executor = emulated(1, "sm_90"), Executor()
    with pytest.raises(KeyError), api.kept_context():
        retire(executor)
        raise KeyError
    assert executor.freed == 1


def test_a_call_does_not_fail_with_what_it_frees() -> None:
    api, executors = emulated(1, "sm_90"), [Executor(fails=True), Executor()]
    with api.kept_context():
        for each in executors:
            retire(each)
    assert [each.freed for each in executors] == [1, 1]
