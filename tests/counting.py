"""Work counted in function calls or lines. Unlike seconds, the counts do not depend on the load of the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def calls(run: Callable[[], T]) -> tuple[int, T]:
    """Return how many functions `run` calls (Python's built-in functions included), and the result of `run`."""
    counted = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    previous_profile = sys.getprofile()
    sys.setprofile(count)
    try:
        result = run()
    finally:
        sys.setprofile(previous_profile)
    return counted, result


def steps(run: Callable[[], object]) -> int:
    """Return how many lines of Python `run` executes. This counts loops that call no function, too. Each iteration of a
    comprehension is one line.
    """
    counted = 0

    def count(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal counted
        counted += event == "line"
        return count

    previous_trace = sys.gettrace()
    sys.settrace(count)
    try:
        run()
    finally:
        sys.settrace(previous_trace)
    return counted
