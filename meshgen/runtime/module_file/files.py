"""Atomic file writes: readers never see a partial file, and the old file stays until the new one is complete."""

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
    """Write a file atomically; `write` writes the content to the stream that it receives.

    A symbolic link is kept and its target is written. Devices and pipes are written directly, because they cannot be
    replaced. An existing file keeps its owner and mode.
    Raises UsageError MG0003 if the file cannot be written.
    """
    try:
        target = Path(os.path.realpath(path))
        old_status = _status(target)
        if old_status and not stat.S_ISREG(old_status.st_mode):
            with open(target, "wb") as file:
                write(cast("BinaryIO", _Stream(file)))
        else:
            _replace(target, old_status, write)
    except (OSError, ValueError) as error:  # pathlib raises ValueError for a path with a NUL byte
        raise UsageError(Diagnostic("MG0003", f"'{path}' cannot be written: {system_reason(error)}")) from error


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically. Lone surrogates, which come from file names that are not Unicode, are escaped."""
    write_file(path, lambda file: file.write(text.encode(errors="backslashreplace")))


class _Stream:
    """A stream for a device or pipe, which has no `seek` and `tell`, because devices and pipes do not support these."""

    def __init__(self, file: BinaryIO) -> None:
        self.write, self.flush = file.write, file.flush


def _status(path: Path) -> os.stat_result | None:
    """Return the `stat` result of a path, or None if the path does not exist."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _replace(target: Path, old_status: os.stat_result | None, write: Callable[[BinaryIO], object]) -> None:
    """Write a temporary file in the folder of `target`, and rename it to `target` with the permissions of the old file."""
    tag = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:12]
    with replacing(target, f".{tag}-", 0o600 if old_status else 0o666) as file:
        if old_status:
            _copy_permissions(file.fileno(), old_status)
        write(file)
        file.flush()
        os.fsync(file.fileno())


def _copy_permissions(handle: int, old_status: os.stat_result) -> None:
    if not hasattr(os, "fchown"):  # Windows: permissions are inherited from the directory
        return
    mode = stat.S_IMODE(old_status.st_mode)
    with contextlib.suppress(OSError):  # only root may change the owner
        os.fchown(handle, old_status.st_uid, -1)
    try:
        os.fchown(handle, -1, old_status.st_gid)
    except OSError:
        mode &= ~stat.S_IRWXG  # the new file could not get the old group, so no group gets access
    os.fchmod(handle, mode)
