"""Detection of torch's `.pt2` archives, without importing their reader."""

from __future__ import annotations

import os
from pathlib import Path

_ZIP = b"PK\x03\x04"  # the first bytes of a non-empty zip file


def is_archive(path: Path) -> bool:
    """Whether `path` is a `.pt2` archive, judged by the file name or, for a zip file, by a member with a torch program."""
    if path.suffix == ".pt2":
        return True
    if not os.path.isfile(path):  # reading a device may never end, and `path` may be a text too long for a file name
        return False
    try:
        with open(path, "rb") as file:
            return file.read(len(_ZIP)) == _ZIP and _has_program(path)
    except (OSError, ValueError):  # `open` raises ValueError for a path with a NUL byte
        return False


def _has_program(path: Path) -> bool:
    import zipfile  # a lazy import, because few programs are zip files

    try:
        with zipfile.ZipFile(path) as opened:
            return any(name.endswith("/archive_format") for name in opened.namelist())
    except (OSError, zipfile.BadZipFile):
        return False
