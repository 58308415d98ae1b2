"""Private temporary directories that are removed, however a process ends."""

from __future__ import annotations

import os

from meshgen.locks import lock_of, new_directory
from meshgen.reproducers import own_directories

PREFIX = "meshgen-build-"


class Scratch:
    """A directory that only its user can enter, until `remove`."""

    def __init__(self) -> None:
        self.path, self._lock = new_directory(PREFIX)

    def remove(self) -> None:
        import shutil

        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_abandoned() -> None:
    """Remove what processes of this user that were killed have left."""
    import shutil

    try:
        for place in own_directories(PREFIX):
            if (lock := lock_of(place)) is not None:
                shutil.rmtree(place, ignore_errors=True)
                os.close(lock)
    except OSError:  # the folder of temporary files is missing or cannot be listed
        return
