"""A time limit for the step of a module, because a loop in the step may never end."""

from __future__ import annotations

import argparse
import math
import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from meshgen.errors import Diagnostic, RuntimeFailure

# Seconds between repetitions of the timer. It repeats because Python drops an exception raised during garbage
# collection.
_REPEAT_SECONDS = 1.0


def add_time_limit(parser: argparse.ArgumentParser) -> None:
    text = "fail if the step takes longer (default: no limit)"
    parser.add_argument("--time-limit", type=seconds, metavar="SECONDS", help=text)


def seconds(text: str) -> float:
    """Parse a positive number of seconds (an argument type for argparse)."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"expected a number of seconds, such as 60, got '{text}'")
    return value


@contextmanager
def time_limit(limit: float | None) -> Generator[None]:
    """Return a context manager that raises RuntimeFailure MG0604 after `limit` seconds. It works only in the main
    thread.
    """
    if limit is None:
        yield
        return

    def over(*_: Any) -> None:
        raise RuntimeFailure(Diagnostic("MG0604", f"the step takes more than {limit:g} s", hint="raise --time-limit"))

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, limit, _REPEAT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
