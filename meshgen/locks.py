"""Temporary files and directories with locks that mark them as in use.

The kernel releases a lock when its process ends.

Files left behind by killed processes are not locked, so the next process removes them.
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
except ImportError:  # Windows has no such locks: leftover files cannot be recognized, so none are removed
    fcntl = None

_SUFFIX = ".new"


@contextmanager
def replacing(path: Path, prefix: str, mode: int) -> Generator[BinaryIO]:
    """Yield a temporary file next to `path`. It replaces `path` on success and is removed on failure.

    Temporary files with this prefix that no process has locked are removed first.

    Raises:
        OSError: the file cannot be written.
    """
    fresh, handle = _new_file(path.parent, prefix, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if fcntl is not None:
                os.replace(fresh, path)  # replaced while the lock is still held
        if fcntl is None:
            os.replace(fresh, path)  # Windows cannot rename an open file
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()


def _new_file(directory: Path, prefix: str, mode: int) -> tuple[Path, int]:
    for leftover in directory.glob(f"{prefix}*{_SUFFIX}"):
        if (lock := lock_of(leftover)) is not None:
            with contextlib.suppress(OSError):
                leftover.unlink()
            os.close(lock)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:  # Another process may delete the file between open() and flock(), so retry until the lock is held.
        path = directory / f"{prefix}{os.urandom(4).hex()}{_SUFFIX}"
        file = os.open(path, flags, mode)
        if _is_held(file, path, unless_unknown=True):
            return path, file
        os.close(file)


def new_directory(prefix: str) -> tuple[Path, int]:
    """Create a directory for temporary files that only its user can enter.

    Returns it with a descriptor that holds its lock.

    Raises:
        OSError: the directory cannot be created.
    """
    import tempfile  # imported late: only the compiler needs it

    # Another process may delete the directory between mkdtemp() and flock(), so retry until the lock is held.
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix))
        with contextlib.suppress(FileNotFoundError):
            file = os.open(path, os.O_RDONLY)
            if _is_held(file, path, unless_unknown=True):
                return path, file
            os.close(file)


def lock_of(path: Path) -> int | None:
    """Lock a file or directory of this user, and return the descriptor that holds the lock.

    Returns None if another process holds the lock or the file is gone.
    """
    if fcntl is None:
        return None
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    if os.fstat(file).st_uid == os.geteuid() and _is_held(file, path, unless_unknown=False):
        return file
    os.close(file)
    return None


def _is_held(file: int, path: Path, *, unless_unknown: bool) -> bool:
    """Whether this process now holds the lock of `file`, and `file` is still at `path`.

    Args:
        unless_unknown: the result on systems without locks.
    """
    if fcntl is None:
        return unless_unknown
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return unless_unknown
    try:
        return os.path.samestat(os.fstat(file), os.stat(path, follow_symlinks=False))
    except OSError:
        return False
