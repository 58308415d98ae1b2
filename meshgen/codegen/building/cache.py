"""A content-addressed directory of built kernels: safe under concurrent processes, self-healing, private.

An entry is one file: a SHA-256 digest of the rest, a JSON line with the key, and the code (cubin and PTX). It is
written to a temporary file and renamed, so a reader sees all of it or nothing. An entry that does not match its digest
or key is deleted and built again. Entries run on GPUs, so files that another user could have written are never read.
Entries that are unused for 30 days (old kernels, other versions) are deleted.
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
_UNUSED = 30 * _DAY  # seconds without use after which an entry is deleted (chosen: a month)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def default_directory() -> Path | None:
    """Return `MESHGEN_CACHE_DIR` if it is set, otherwise the platform's cache directory.

    Returns None if the user has no home directory.
    """
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    try:
        home = Path.home()
    except RuntimeError:
        home = None
    variable, subfolder = {
        "darwin": ("", "Library/Caches/meshgen"),
        "win32": ("LOCALAPPDATA", "AppData/Local/meshgen"),
    }.get(sys.platform, ("XDG_CACHE_HOME", ".cache/meshgen"))
    if base := os.environ.get(variable):
        return Path(base) / "meshgen"
    return home / subfolder if home else None


def key_of(**parts: Any) -> str:
    """Return the digest of everything that decides a build result."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Cache:
    """Cache entries in files below a directory, which is created on demand.

    An unusable directory disables the cache; the build continues.

    Attributes:
        warning: the reason why nothing is cached, or None.
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
        except (OSError, RuntimeError) as error:  # Path resolution raises RuntimeError for a loop of symbolic links.
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
        """Return the code and the description of the entry `key`, or None without a valid entry."""
        if self.directory is None:
            return None
        path = _entry_path(self.directory, key)
        try:
            content = _read_own(path)
        except OSError:
            return None
        entry = _decoded(key, content)
        if entry is None:
            self.drop(key)
        else:
            _mark_used(path)
        return entry

    def put(self, key: str, code: bytes, description: dict[str, Any]) -> None:
        """Store an entry. If several processes write it, the last one wins. All of them write the same bytes."""
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


def _mark_used(path: Path) -> None:
    """Set the modification time of a file to now, at most once a day. It records the last use of the entry."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > _DAY:
            os.utime(path)


def _delete_unused(folder: Path) -> None:
    """Delete the files that were not used for `_UNUSED` seconds. Failures are ignored.

    The scan runs at most once a day: the modification time of the folder is the time of the last scan, or of the
    creation of a subfolder.
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
    """Yield the files in the subfolders of a folder; symbolic links to folders are skipped."""
    with os.scandir(folder) as subfolders:
        for subfolder in list(subfolders):
            if subfolder.is_dir(follow_symlinks=False):
                with os.scandir(subfolder) as files:
                    yield from (file for file in list(files) if not file.is_dir(follow_symlinks=False))


def _distrust(directory: Path) -> str:
    """Return the reason why a directory is not private, or "" if it is private.

    Reasons are another owner, write access for other users, and a symbolic link on the path that another user created.
    """
    if sys.platform == "win32":  # On Windows, only the user can write to the user's profile, which contains the cache.
        return ""
    user = os.geteuid()
    for link in (path for path in (directory, *directory.parents) if path.is_symlink()):
        if link.lstat().st_uid not in (0, user):
            return f"the link '{link}' belongs to user {link.lstat().st_uid}"
    status = directory.stat()
    if status.st_uid != user:
        return f"it belongs to user {status.st_uid}, not to {user}"
    if status.st_mode & _OTHERS_WRITE:
        return f"others may write to it (its mode is {stat.S_IMODE(status.st_mode):o}; chmod go-w makes it private)"
    return ""


def _read_own(path: Path) -> bytes:
    """Return the content of a regular file that belongs to this user and that no other user may write to.

    Raises:
        OSError: the path is any other file, or cannot be read.
    """
    if sys.platform == "win32":
        return path.read_bytes()
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE:
            raise PermissionError(f"'{path}' is not a private file")
        return file.read()


def _decoded(key: str, content: bytes) -> tuple[bytes, dict[str, Any]] | None:
    """Return the code and the description in `content`, or None if the entry is damaged or has a key other than `key`."""
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


def _write_atomically(path: Path, content: bytes) -> None:
    """Write a file atomically. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with replacing(path, ".", 0o600) as file:
        file.write(content)
