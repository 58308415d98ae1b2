"""The process's standard streams, whatever the caller made of them: closed, full, or read by somebody who left.

A command that cannot write its result fails (MG0003). A reader that closes the pipe is not a fault: the command goes on in
silence, with the exit code that it would have had. Where stdout must hold one document only, what the
Python program prints goes to stderr.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator
from typing import TextIO

from meshgen.errors import Diagnostic, UsageError, system_reason

_documents: TextIO | None = None  # receives documents while stdout is redirected to stderr


def open_missing() -> None:
    """Open files for closed streams, so that no other file gets their descriptor: stdin and stdout one that fails, stderr one
    that swallows.
    """
    for name, mode, flags in (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:
            file = os.open(os.devnull, flags)
            setattr(sys, name, open(file, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  # for good


@contextlib.contextmanager
def only_documents() -> Generator[None]:
    """A context in which only `write_out` writes to stdout: other output, also of child processes, goes to stderr."""
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
    """Redirect a stream's descriptor to stderr; returns a stream to its old target, None for one without descriptor."""
    try:
        number, errors = stream.fileno(), sys.stderr.fileno()
        stream.flush()
        own = open(os.dup(number), "w", encoding=stream.encoding, errors=stream.errors)  # noqa: SIM115
    except (OSError, ValueError):
        return None
    os.dup2(errors, number)
    return own


def _lead_back(stream: TextIO, own: TextIO) -> None:
    """Undo `_led_to_stderr`; reopens stdout where the program has closed it."""
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
        raise UsageError(Diagnostic("MG0003", f"standard output cannot be written: {system_reason(error)}")) from error


def write_err(text: str) -> None:
    """Write to stderr; ignored where that is impossible."""
    with contextlib.suppress(OSError, ValueError):
        _put(sys.stderr, text)


def _put(stream: TextIO, text: str) -> None:
    """Write to a stream and flush; characters that its encoding lacks are escaped."""
    try:
        stream.write(text)
    except UnicodeEncodeError as error:
        stream.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
    stream.flush()


def _silence(stream: TextIO) -> None:
    """Discard buffered and further output to stdout, including Python's flush at exit."""
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, stream.fileno())
    except (OSError, ValueError):  # not a file, or closed
        sys.stdout = open(sink, "w", encoding="utf-8")  # noqa: SIM115  # for good
    else:
        os.close(sink)
