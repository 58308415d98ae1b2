"""A directory of built kernels, keyed by content: safe under concurrent processes, self-healing.

An entry is one file: the SHA-256 of the rest, a JSON line, the cubin. It is written beside its place and
moved there, so a reader sees all of it or nothing; one that fails its digest is deleted and built again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "MESHGEN_CACHE_DIR"


def default_directory() -> Path:
    """`MESHGEN_CACHE_DIR`, else the platform's place for a user's caches."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "meshgen"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "meshgen" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "meshgen"


def key_of(**parts: Any) -> str:
    """Digest of everything that decides what is built."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Cache:
    """Entries below `directory`. A directory that cannot be written costs the cache, not the build."""

    directory: Path

    def _place(self, key: str) -> Path:
        return self.directory / "kernels" / key[:2] / f"{key}.bin"

    def get(self, key: str) -> tuple[bytes, dict[str, Any]] | None:
        """The cubin and its description, or None if there is no sound entry."""
        place = self._place(key)
        try:
            content = place.read_bytes()
        except OSError:
            return None
        digest, _, rest = content.partition(b"\n")
        if digest != hashlib.sha256(rest).hexdigest().encode():
            with contextlib.suppress(OSError):
                place.unlink()
            return None
        head, _, cubin = rest.partition(b"\n")
        return cubin, json.loads(head)

    def put(self, key: str, cubin: bytes, description: dict[str, Any]) -> None:
        """Store an entry; the last of several writers wins, with the same bytes."""
        rest = json.dumps(description, sort_keys=True).encode() + b"\n" + cubin
        with contextlib.suppress(OSError):
            write_atomically(self._place(key), hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest)

    def source_path(self, text: str) -> Path:
        """A file that holds the kernel's source; in a temporary directory if the cache cannot be written."""
        name = Path("sources") / f"{hashlib.sha256(text.encode()).hexdigest()}.py"
        for directory in (self.directory, Path(tempfile.gettempdir()) / f"meshgen-{os.getuid()}"):
            place = directory / name
            with contextlib.suppress(OSError):
                if not place.exists() or place.read_bytes() != text.encode():
                    write_atomically(place, text.encode())
                return place
        raise OSError("neither the cache nor the temporary directory can be written")


def write_atomically(place: Path, content: bytes) -> None:
    """Write a file so that nobody ever sees a part of it. Raises OSError."""
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
