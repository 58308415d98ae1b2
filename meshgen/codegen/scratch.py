"""Private temporary directories of which nothing stays, however a process ends.

Whoever uses one holds a lock on it, which the kernel drops when the process ends. So a directory without a lock belongs
to nobody, and whoever makes the next one removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from meshgen.reproducers import own_directories

PREFIX = "meshgen-build-"


class Scratch:
    """A directory that only its user can enter, until `remove`."""

    def __init__(self) -> None:
        remove_abandoned()
        lock = None
        while lock is None:  # between the two calls another process may take it for abandoned
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            lock = _locked(self.path)
        self._lock = lock

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_abandoned() -> None:
    """Remove what processes of this user that were killed have left."""
    for place in own_directories(PREFIX):
        if (lock := _locked(place)) is not None:
            shutil.rmtree(place, ignore_errors=True)
            os.close(lock)


def _locked(place: Path) -> int | None:
    """An open file that holds the directory's lock; None where another process has it, or the directory is gone."""
    try:
        file = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(file), os.stat(place, follow_symlinks=False)):
            return file
    except OSError:
        pass
    os.close(file)
    return None
