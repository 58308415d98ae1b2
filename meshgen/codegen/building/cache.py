"""A directory of built kernels, keyed by content: safe under concurrent processes, self-healing, private.

An entry is one file: the SHA-256 of the rest, a JSON line that holds the key, the code (cubin and PTX). It is written to a temporary file
and renamed, so a reader sees all of it or nothing; one that is not what was stored under its key is deleted and
built again. Entries run on GPUs, so nothing is read that another user could have written. Entries that are unused
for long are deleted: old kernels, and entries of other versions.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from meshgen.errors import Diagnostic, system_reason
from meshgen.locks import replacing

VARIABLE = "MESHGEN_CACHE_DIR"
_FOLDER = "kernels"
_DAY = 24 * 3600  # seconds
_UNUSED = 30 * _DAY  # entries not read or written for this long are deleted
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def default_directory() -> Path | None:
    """`MESHGEN_CACHE_DIR`, else the platform's place for a user's caches; None for a user without a home directory."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    try:
        home = Path.home()
    except RuntimeError:
        home = None
    variable, place = {
        "darwin": ("", "Library/Caches/meshgen"),
        "win32": ("LOCALAPPDATA", "AppData/Local/meshgen"),
    }.get(sys.platform, ("XDG_CACHE_HOME", ".cache/meshgen"))
    if base := os.environ.get(variable):
        return Path(base) / "meshgen"
    return home / place if home else None


def key_of(**parts: Any) -> str:
    """Digest of everything that decides what is built."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Cache:
    """Entries below a directory, which is made. One that cannot be used costs the cache, not the build.

    `warning` is the reason why nothing is cached, or None.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or default_directory()
        self.warning: Diagnostic | None = None
        if self.directory is None:
            self._give_up("the home directory is unknown")
            return
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            distrust = _distrust(self.directory)
            self.directory = self.directory.resolve()
        except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
            self._give_up(_reason(error))
        else:
            if distrust:
                self._give_up(distrust)

    def _give_up(self, reason: str) -> None:
        where = f" '{self.directory}'" if self.directory else ""
        hint = f"name a directory that only you can write to with {VARIABLE}"
        self.warning = Diagnostic("MG0004", f"built kernels are not cached: kernel cache{where}: {reason}", hint=hint)
        self.directory = None

    def get(self, key: str) -> tuple[bytes, dict[str, Any]] | None:
        """The code and its description, or None without a sound entry."""
        if self.directory is None:
            return None
        place = _entry_path(self.directory, key)
        try:
            content = _read_own(place)
        except OSError:
            return None
        entry = _decoded(key, content)
        if entry is None:
            self.drop(key)
        else:
            _mark_used(place)
        return entry

    def put(self, key: str, code: bytes, description: dict[str, Any]) -> None:
        """Store an entry; the last of several writers wins, with the same bytes."""
        if self.directory is None:
            return
        rest = json.dumps({"key": key, "description": description}, sort_keys=True).encode() + b"\n" + code
        try:
            _write_atomically(
                _entry_path(self.directory, key), hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest
            )
        except OSError as error:
            self._give_up(_reason(error))
        else:
            _delete_unused(self.directory / _FOLDER)

    def drop(self, key: str) -> None:
        """Delete an entry."""
        if self.directory is not None:
            with contextlib.suppress(OSError):
                _entry_path(self.directory, key).unlink()


def _reason(error: Exception) -> str:
    return "it is not a directory" if isinstance(error, FileExistsError) else system_reason(error)


def _entry_path(directory: Path, key: str) -> Path:
    return directory / _FOLDER / key[:2] / f"{key}.bin"


def _mark_used(place: Path) -> None:
    """Record the use of a file in its modification time, once a day."""
    with contextlib.suppress(OSError):
        if time.time() - place.stat().st_mtime > _DAY:
            os.utime(place)


def _delete_unused(folder: Path) -> None:
    """Delete the files that are unused for long; failures are ignored.

    They are looked for once a day: the folder's time of change says when, or that a folder in it is new.
    """
    now = time.time()
    with contextlib.suppress(OSError):
        if now - folder.stat().st_mtime < _DAY:
            return
        os.utime(folder)
        for file in _files(folder):
            if now - file.stat(follow_symlinks=False).st_mtime > _UNUSED:
                os.unlink(file)


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Files in the folders of a folder; links are skipped."""
    with os.scandir(folder) as inner:
        for each in list(inner):
            if each.is_dir(follow_symlinks=False):
                with os.scandir(each) as files:
                    yield from (file for file in list(files) if not file.is_dir(follow_symlinks=False))


def _distrust(directory: Path) -> str:
    """Why a directory is not its user's alone: whose it is, who may write, who made a link on the way. Empty if it is private."""
    if sys.platform == "win32":  # a user's profile is private there
        return ""
    user = os.geteuid()
    for link in (place for place in (directory, *directory.parents) if place.is_symlink()):
        if link.lstat().st_uid not in (0, user):
            return f"the link '{link}' belongs to user {link.lstat().st_uid}"
    found = directory.stat()
    if found.st_uid != user:
        return f"it belongs to user {found.st_uid}, not to {user}"
    if found.st_mode & _OTHERS_WRITE:
        return f"others may write to it (its mode is {stat.S_IMODE(found.st_mode):o}; chmod go-w makes it private)"
    return ""


def _read_own(place: Path) -> bytes:
    """The content of a regular file of this user that no other user may write to. Raises OSError for any other file."""
    if sys.platform == "win32":
        return place.read_bytes()
    with open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & _OTHERS_WRITE:
            raise PermissionError(f"'{place}' is not a private file")
        return file.read()


def _decoded(key: str, content: bytes) -> tuple[bytes, dict[str, Any]] | None:
    """The content of an entry, or None if it is damaged or has another key."""
    digest, _, rest = content.partition(b"\n")
    if digest != hashlib.sha256(rest).hexdigest().encode():
        return None
    head, _, code = rest.partition(b"\n")
    try:
        value = json.loads(head)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    document = cast("dict[str, Any]", value)
    description = document.get("description")
    if set(document) != {"key", "description"} or document["key"] != key or not isinstance(description, dict):
        return None
    return code, cast("dict[str, Any]", description)


def _write_atomically(place: Path, content: bytes) -> None:
    """Write a file atomically. Raises OSError."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with replacing(place, ".", 0o600) as file:
        file.write(content)
