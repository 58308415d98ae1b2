"""Private temporary directories of which nothing stays, however a process ends."""

from __future__ import annotations

import os
import shutil

from meshgen.locks import new_directory
from meshgen.reproducers import own_directories

PREFIX = "meshgen-build-"


class Scratch:
    """A directory that only its user can enter, until `remove`. Those that killed processes left go when one is made."""

    def __init__(self) -> None:
        self.path, self._lock = new_directory(PREFIX, own_directories(PREFIX))

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
