"""The process's standard streams, whatever the caller made of them: closed, full, or read by somebody who left.

A command that cannot say its result fails (MG0003). A reader that has enough is no fault: the command goes on in
silence, and its exit code is what it would have been.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO

from meshgen.errors import Diagnostic, UsageError


def open_missing() -> None:
    """Give closed streams a file, so that no other file takes their number: stdin and stdout one that fails, stderr one
    that swallows.
    """
    for name, mode, flags in (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:
            file = os.open(os.devnull, flags)
            setattr(sys, name, open(file, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  # for good


def write_out(text: str = "") -> None:
    """Write to stdout, at once. Raises UsageError MG0003 where that is impossible."""
    try:
        _put(sys.stdout, text)
    except BrokenPipeError:
        _silence()
    except (OSError, ValueError) as error:  # ValueError: the program that was read has closed it
        _silence()
        reason = getattr(error, "strerror", None) or error
        raise UsageError(Diagnostic("MG0003", f"standard output cannot be written: {reason}")) from error


def write_err(text: str) -> None:
    """Write to stderr. Where that is impossible there is nobody to tell."""
    with contextlib.suppress(OSError, ValueError):
        _put(sys.stderr, text)


def _put(stream: TextIO, text: str) -> None:
    """Write to a stream, at once; what its encoding lacks is escaped."""
    try:
        stream.write(text)
    except UnicodeEncodeError as error:
        stream.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
    stream.flush()


def _silence() -> None:
    """What is still to be written to stdout goes nowhere, also what Python does at its end."""
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, sys.stdout.fileno())
    except (OSError, ValueError):  # it is no file, or closed
        sys.stdout = open(sink, "w", encoding="utf-8")  # noqa: SIM115  # for good
    else:
        os.close(sink)
