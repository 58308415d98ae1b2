"""The line of a user's program that called meshgen, for faults that have no place of their own."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import ParamSpec, TypeVar

from meshgen.errors import ArgumentError, Location, ShardingError, UsageError
from meshgen.frontend.tracer.recording import INSIDE, location_of

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def at_callers_line(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Decorator: what is wrong with what a call was given is a fault at the line of the call."""

    @functools.wraps(function)
    def called(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except (ArgumentError, ShardingError, UsageError) as error:
            line = _line(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]  # CPython has no public way this cheap
            if line is None or all(each.loc for each in error.diagnostics):
                raise
            faults = (replace(each, loc=each.loc or line) for each in error.diagnostics)
            raise type(error)(*faults) from error.__cause__

    return called


def _line(frame: FrameType) -> Location | None:
    """Where the frame stands; None where meshgen itself is calling, as its command line does."""
    return None if frame.f_code.co_filename.startswith(INSIDE) else location_of(frame)
