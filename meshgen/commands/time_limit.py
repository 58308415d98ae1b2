"""A time limit for the step of a module, because a loop in the step may never end."""

from __future__ import annotations

import argparse
import math
import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from meshgen.errors import Diagnostic, RuntimeFailure

# Seconds after which the timer fires again. Python ignores exceptions that are raised during garbage collection.
_REPEAT_SECONDS = 1.0


def add_time_limit(parser: argparse.ArgumentParser) -> None:
    text = "fail when the step takes longer (default: no limit; Ctrl-C ends it as well)"
    parser.add_argument("--time-limit", type=seconds, metavar="SECONDS", help=text)


def seconds(text: str) -> float:
    """Parse a positive number of seconds, as the type of an option."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"expected a number of seconds, such as 60, got '{text}'")
    return value


@contextmanager
def time_limit(limit: float | None) -> Generator[None]:
    """Raise RuntimeFailure MG0604 in the context after `limit` seconds. Works only in the main thread of a process."""
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
