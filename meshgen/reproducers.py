"""Reproducers of internal errors, kept for a report: private directories, the newest few, of bounded size."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

PREFIX = "meshgen-reproducer-"
KEPT = 8  # directories per user
MOST_BYTES = 16 << 20  # of one file; a larger one is cut


def keep_reproducer(files: Mapping[str, bytes]) -> Path | None:
    """A new directory that only its owner can read, with these files; the oldest ones go. None where none can be written."""
    import shutil
    import tempfile

    try:
        place = Path(tempfile.mkdtemp(prefix=PREFIX))
        for name, content in files.items():
            (place / name).write_bytes(content[:MOST_BYTES])
        for old in sorted(own_directories(PREFIX), key=_age)[KEPT:]:
            shutil.rmtree(old, ignore_errors=True)
    except OSError:
        return None
    return place


def own_directories(prefix: str) -> Iterator[Path]:
    """This user's directories of this kind in the place for temporary files. Those of others and links are passed over."""
    import tempfile

    with os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and _is_own_directory(entry):
                yield Path(entry.path)


def _is_own_directory(entry: os.DirEntry[str]) -> bool:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:  # it went meanwhile
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _age(place: Path) -> float:
    """Sort key: the newest first; what is gone is the oldest."""
    try:
        return -place.stat().st_mtime
    except OSError:
        return 0.0
