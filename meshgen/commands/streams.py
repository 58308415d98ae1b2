"""The standard streams of the process, which the caller may have closed, filled or stopped reading.

A command that cannot write its result fails with MG0003. If the reader closes the pipe, the command continues silently
with its usual exit code. If stdout must hold one document only, the output of the user's Python program is redirected
to stderr.
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
    """Open files for closed streams, so that no other file gets their descriptors.

    Reading from a replaced stdin and writing to a replaced stdout fail, and output to a replaced stderr is discarded.
    """
    for name, mode, flags in (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:
            file = os.open(os.devnull, flags)
            # the file stays open for the life of the process
            setattr(sys, name, open(file, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  # for good


@contextlib.contextmanager
def only_documents() -> Generator[None]:
    """Let only `write_out` write to stdout. Other output, including that of child processes, goes to stderr."""
    global _documents
    stream = sys.stdout
    original_stdout = _redirect_to_stderr(stream)
    if original_stdout is None:
        sys.stdout = sys.stderr
    _documents = original_stdout or stream
    try:
        yield
    finally:
        _documents, sys.stdout = None, stream
        if original_stdout is not None:
            _restore_stream(stream, original_stdout)


def _redirect_to_stderr(stream: TextIO) -> TextIO | None:
    """Redirect a stream's descriptor to stderr.

    Returns:
        A stream that still writes to the old target, or None if `stream` has no file descriptor.
    """
    try:
        descriptor, stderr_descriptor = stream.fileno(), sys.stderr.fileno()
        stream.flush()
        original = open(os.dup(descriptor), "w", encoding=stream.encoding, errors=stream.errors)  # noqa: SIM115
    except (OSError, ValueError):
        return None
    os.dup2(stderr_descriptor, descriptor)
    return original


def _restore_stream(stream: TextIO, original: TextIO) -> None:
    """Undo `_redirect_to_stderr` with the stream that it returned. Reopens stdout if the program has closed it."""
    if stream.closed:
        sys.stdout = original
        return
    with contextlib.suppress(OSError):
        stream.flush()
    os.dup2(original.fileno(), stream.fileno())
    original.close()


def write_out(text: str = "") -> None:
    """Write to stdout and flush it. Output to a pipe without a reader is discarded.

    Raises:
        UsageError: MG0003 if stdout cannot be written.
    """
    try:
        _write_and_flush(_documents or sys.stdout, text)
    except BrokenPipeError:
        _silence(_documents or sys.stdout)
    except (OSError, ValueError) as error:  # ValueError: the user's program has closed stdout
        _silence(_documents or sys.stdout)
        raise UsageError(Diagnostic("MG0003", f"standard output cannot be written: {system_reason(error)}")) from error


def write_err(text: str) -> None:
    """Write to stderr. Errors are ignored."""
    with contextlib.suppress(OSError, ValueError):
        _write_and_flush(sys.stderr, text)


def _write_and_flush(stream: TextIO, text: str) -> None:
    """Write to a stream and flush it. Characters that the stream's encoding lacks are escaped."""
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
    except (OSError, ValueError):  # the stream is closed, or has no file descriptor
        # the file stays open for the life of the process
        sys.stdout = open(sink, "w", encoding="utf-8")  # noqa: SIM115  # for good
    else:
        os.close(sink)
