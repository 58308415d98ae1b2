"""Files that are written whole: nobody ever sees a part of one, and what was there stays until the new one is complete."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from meshgen.errors import Diagnostic, UsageError


def write_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file, all of it or nothing; `write` puts the content into what it is handed.

    A link stays, and what it names is written. Devices and pipes cannot be replaced: they are written as they are.
    Raises UsageError MG0003 if it cannot be written.
    """
    try:
        place = Path(os.path.realpath(path))
        if _is_special(place):
            with open(place, "wb") as file:
                write(file)
        else:
            _replace(place, write)
    except (OSError, ValueError) as error:  # ValueError: a path with a byte 0
        reason = getattr(error, "strerror", None) or error
        raise UsageError(Diagnostic("MG0003", f"'{path}' cannot be written: {reason}")) from error


def write_text(path: Path, text: str) -> None:
    """Write a text as `write_file` does."""
    write_file(path, lambda file: file.write(text.encode()))


def _is_special(place: Path) -> bool:
    """Whether it is there and no plain file."""
    try:
        return not stat.S_ISREG(place.stat().st_mode)
    except FileNotFoundError:
        return False


def _replace(place: Path, write: Callable[[BinaryIO], object]) -> None:
    fresh = place.with_name(f".{os.getpid()}-{secrets.token_hex(4)}.new")
    try:
        with open(fresh, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, place)
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()
