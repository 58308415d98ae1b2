"""Private temporary directories that are removed even if the process is killed (by a later process)."""

from __future__ import annotations

import os

from meshgen.locks import lock_of, new_directory
from meshgen.reproducers import own_directories

PREFIX = "meshgen-build-"


class Scratch:
    """A directory that only this user can access. The method `remove` deletes the directory."""

    def __init__(self) -> None:
        self.path, self._lock = new_directory(PREFIX)

    def remove(self) -> None:
        import shutil

        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_abandoned() -> None:
    """Remove the scratch directories that killed processes of this user left behind."""
    import shutil

    try:
        for path in own_directories(PREFIX):
            if (lock := lock_of(path)) is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)
    except OSError:  # The directory for temporary files is missing or cannot be listed.
        return
