"""Which files are `.pt2` archives of torch, without what reads them."""

from __future__ import annotations

import os
from pathlib import Path

_ZIP = b"PK\x03\x04"  # how a zip with members begins


def is_archive(path: Path) -> bool:
    """Whether a path is that of a `.pt2` file: by its name, or as a zip with a program of torch in it."""
    if path.suffix == ".pt2":
        return True
    if not os.path.isfile(path):  # a device need not end, and a name may be too long for one
        return False
    try:
        with open(path, "rb") as file:
            return file.read(len(_ZIP)) == _ZIP and _has_program(path)
    except (OSError, ValueError):  # ValueError: a path with a byte 0
        return False


def _has_program(path: Path) -> bool:
    import zipfile  # few programs are in a zip

    try:
        with zipfile.ZipFile(path) as opened:
            return any(name.endswith("/archive_format") for name in opened.namelist())
    except (OSError, zipfile.BadZipFile):
        return False
