"""Work counted in function calls: the same on a busy machine and on an idle one, where seconds are not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def calls(run: Callable[[], T]) -> tuple[int, T]:
    """How many functions, of Python and built in, `run` calls; and what it returns."""
    counted = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        result = run()
    finally:
        sys.setprofile(before)
    return counted, result


def steps(run: Callable[[], object]) -> int:
    """Return how many lines of Python `run` executes, each turn of a comprehension as one: it counts loops that call nothing."""
    counted = 0

    def count(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal counted
        counted += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        run()
    finally:
        sys.settrace(before)
    return counted
