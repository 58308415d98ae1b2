"""Reproducers of internal errors, stored for bug reports in private directories.

The newest few are kept, and their size is bounded.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

PREFIX = "meshgen-reproducer-"
KEPT = 8  # chosen: number of reproducers kept per user
MOST_BYTES = 16 << 20  # chosen: largest size of one file in bytes; a larger file is truncated


def save_reproducer(files: Mapping[str, bytes]) -> Path | None:
    """Write the files to a new directory that only the user can read, and delete the user's oldest reproducers.

    Returns None if the directory cannot be written.
    """
    import shutil
    import tempfile

    try:
        directory = Path(tempfile.mkdtemp(prefix=PREFIX))
        for name, content in files.items():
            (directory / name).write_bytes(content[:MOST_BYTES])
        for old in sorted(own_directories(PREFIX), key=_age)[KEPT:]:
            shutil.rmtree(old, ignore_errors=True)
    except OSError:
        return None
    return directory


def own_directories(prefix: str) -> Iterator[Path]:
    """Yield this user's temporary directories whose names start with `prefix`.

    Other users' directories and links are skipped.
    """
    import tempfile

    with os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and _is_own_directory(entry):
                yield Path(entry.path)


def _is_own_directory(entry: os.DirEntry[str]) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:  # another process has deleted the directory
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _age(directory: Path) -> float:
    """Return a sort key that puts the newest directory first, and directories that no longer exist last."""
    try:
        return -directory.stat().st_mtime
    except OSError:
        return 0.0
