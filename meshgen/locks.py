"""New files and directories that are known to be in use: a lock says so, which the kernel drops when its process ends.

Leftovers of killed processes have no lock, so the next process removes them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows: nothing is known to be abandoned, and nothing is removed
    fcntl = None

_SUFFIX = ".new"


@contextmanager
def replacing(place: Path, prefix: str, mode: int) -> Generator[BinaryIO]:
    """A temporary file next to `place`, renamed to it when complete, and removed on failure. Raises OSError.

    What was left by processes that had begun a file with this prefix is removed.
    """
    fresh, handle = _new_file(place.parent, prefix, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if fcntl is not None:
                os.replace(fresh, place)  # while it is locked
        if fcntl is None:
            os.replace(fresh, place)  # Windows moves no open file
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()


def _new_file(directory: Path, prefix: str, mode: int) -> tuple[Path, int]:
    for left in directory.glob(f"{prefix}*{_SUFFIX}"):
        if (lock := lock_of(left)) is not None:
            with contextlib.suppress(OSError):
                left.unlink()
            os.close(lock)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:  # before it is locked another process may take it for abandoned
        place = directory / f"{prefix}{os.urandom(4).hex()}{_SUFFIX}"
        file = os.open(place, flags, mode)
        if _is_held(file, place, unless_unknown=True):
            return place, file
        os.close(file)


def new_directory(prefix: str) -> tuple[Path, int]:
    """A new directory for temporary files that only its user can enter, and a descriptor that locks it. Raises OSError."""
    import tempfile  # only compilers need it

    while True:  # as above
        place = Path(tempfile.mkdtemp(prefix=prefix))
        with contextlib.suppress(FileNotFoundError):
            file = os.open(place, os.O_RDONLY)
            if _is_held(file, place, unless_unknown=True):
                return place, file
            os.close(file)


def lock_of(place: Path) -> int | None:
    """A descriptor that holds the lock of a file or directory of this user. None where another process has it, or it is gone."""
    if fcntl is None:
        return None
    try:
        file = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    if os.fstat(file).st_uid == os.geteuid() and _is_held(file, place, unless_unknown=False):
        return file
    os.close(file)
    return None


def _is_held(file: int, place: Path, *, unless_unknown: bool) -> bool:
    """Whether this process has the lock now, of what is still at its place; `unless_unknown` where locks are missing."""
    if fcntl is None:
        return unless_unknown
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return unless_unknown
    try:
        return os.path.samestat(os.fstat(file), os.stat(place, follow_symlinks=False))
    except OSError:
        return False
