"""The process's standard streams, whatever the caller made of them: closed, full, or read by somebody who left.

A command that cannot say its result fails (MG0003). A reader that has enough is no fault: the command goes on in
silence, and its exit code is what it would have been. Where stdout is to hold one document and nothing else, what the
program that is read prints goes to stderr.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator
from typing import TextIO

from meshgen.errors import Diagnostic, UsageError

_documents: TextIO | None = None  # where documents go while stdout leads to stderr


def open_missing() -> None:
    """Give closed streams a file, so that no other file takes their number: stdin and stdout one that fails, stderr one
    that swallows.
    """
    for name, mode, flags in (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:
            file = os.open(os.devnull, flags)
            setattr(sys, name, open(file, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  # for good


@contextlib.contextmanager
def only_documents() -> Generator[None]:
    """While it is open, only `write_out` writes to stdout: what others print, child processes as well, goes to stderr."""
    global _documents
    stream = sys.stdout
    own = _led_to_stderr(stream)
    if own is None:
        sys.stdout = sys.stderr
    _documents = own or stream
    try:
        yield
    finally:
        _documents, sys.stdout = None, stream
        if own is not None:
            _lead_back(stream, own)


def _led_to_stderr(stream: TextIO) -> TextIO | None:
    """Give a stream's descriptor the file of stderr; returns a stream that leads where it led. None for one without descriptor."""
    try:
        number, errors = stream.fileno(), sys.stderr.fileno()
        stream.flush()
        own = open(os.dup(number), "w", encoding=stream.encoding, errors=stream.errors)  # noqa: SIM115
    except (OSError, ValueError):
        return None
    os.dup2(errors, number)
    return own


def _lead_back(stream: TextIO, own: TextIO) -> None:
    """Undo `_led_to_stderr`; where the program has closed stdout, there is one again."""
    if stream.closed:
        sys.stdout = own
        return
    with contextlib.suppress(OSError):
        stream.flush()
    os.dup2(own.fileno(), stream.fileno())
    own.close()


def write_out(text: str = "") -> None:
    """Write to stdout, at once. Raises UsageError MG0003 where that is impossible."""
    try:
        _put(_documents or sys.stdout, text)
    except BrokenPipeError:
        _silence(_documents or sys.stdout)
    except (OSError, ValueError) as error:  # ValueError: the program that was read has closed it
        _silence(_documents or sys.stdout)
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


def _silence(stream: TextIO) -> None:
    """What is still to be written to stdout goes nowhere, also what Python does at its end."""
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, stream.fileno())
    except (OSError, ValueError):  # it is no file, or closed
        sys.stdout = open(sink, "w", encoding="utf-8")  # noqa: SIM115  # for good
    else:
        os.close(sink)
