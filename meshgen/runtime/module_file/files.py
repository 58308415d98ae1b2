"""Atomic writes of files: readers never see a partial file, and the old one stays until the new one is complete."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

from meshgen.errors import Diagnostic, UsageError, system_reason
from meshgen.locks import replacing


def write_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file atomically; `write` writes the content to the stream that it is given.

    A link stays, and its target is written. Devices and pipes cannot be replaced: they are written directly. An existing file
    keeps its owner and mode.
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
        raise UsageError(Diagnostic("MG0003", f"'{path}' cannot be written: {system_reason(error)}")) from error


def write_text(path: Path, text: str) -> None:
    """Write a text as `write_file` does, with escapes for what is not Unicode in the names of files that it mentions."""
    write_file(path, lambda file: file.write(text.encode(errors="backslashreplace")))


class _Stream:
    """A device or pipe, which cannot seek or tell."""

    def __init__(self, file: BinaryIO) -> None:
        self.write, self.flush = file.write, file.flush


def _status(place: Path) -> os.stat_result | None:
    """None if the path does not exist."""
    try:
        return place.stat()
    except FileNotFoundError:
        return None


def _replace(place: Path, was: os.stat_result | None, write: Callable[[BinaryIO], object]) -> None:
    """Write a temporary file in the same folder and rename it; it gets the permissions of the old one."""
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
    with contextlib.suppress(OSError):  # only root may change the owner
        os.fchown(handle, was.st_uid, -1)
    try:
        os.fchown(handle, -1, was.st_gid)
    except OSError:
        mode &= ~stat.S_IRWXG  # its group is now another one
    os.fchmod(handle, mode)
