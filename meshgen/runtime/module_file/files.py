"""Files that are written whole: nobody ever sees a part of one, and what was there stays until the new one is complete."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

from meshgen.errors import Diagnostic, UsageError
from meshgen.locks import replacing


def write_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file, all of it or nothing; `write` puts the content into what it is handed.

    A link stays, and what it names is written. Devices and pipes cannot be replaced: they are written as they are. A file
    that was there keeps its owner and mode.
    Raises UsageError MG0003 if it cannot be written.
    """
    try:
        place = Path(os.path.realpath(path))
        was = _status(place)
        if was and not stat.S_ISREG(was.st_mode):
            with open(place, "wb") as file:
                write(cast("BinaryIO", _Stream(file)))
        else:
            _replace(place, was, write)
    except (OSError, ValueError) as error:  # ValueError: a path with a byte 0
        reason = getattr(error, "strerror", None) or error
        raise UsageError(Diagnostic("MG0003", f"'{path}' cannot be written: {reason}")) from error


def write_text(path: Path, text: str) -> None:
    """Write a text as `write_file` does."""
    write_file(path, lambda file: file.write(text.encode()))


class _Stream:
    """A device or pipe, where a position means nothing: none can be asked for or gone to."""

    def __init__(self, file: BinaryIO) -> None:
        self.write, self.flush = file.write, file.flush


def _status(place: Path) -> os.stat_result | None:
    """None where there is nothing yet."""
    try:
        return place.stat()
    except FileNotFoundError:
        return None


def _replace(place: Path, was: os.stat_result | None, write: Callable[[BinaryIO], object]) -> None:
    """Write a file beside it and move that there; who may read the one that was may read this one, and nobody else."""
    tag = hashlib.sha256(os.fsencode(place.name)).hexdigest()[:12]
    with replacing(place, f".{tag}-", 0o600 if was else 0o666) as file:
        if was:
            _keep_rights(file.fileno(), was)
        write(file)
        file.flush()
        os.fsync(file.fileno())


def _keep_rights(handle: int, was: os.stat_result) -> None:
    if not hasattr(os, "fchown"):  # Windows: rights come with the directory
        return
    mode = stat.S_IMODE(was.st_mode)
    with contextlib.suppress(OSError):  # only root gives a file away
        os.fchown(handle, was.st_uid, -1)
    try:
        os.fchown(handle, -1, was.st_gid)
    except OSError:
        mode &= ~stat.S_IRWXG  # its group is now another one
    os.fchmod(handle, mode)
