"""Safe reading of untrusted zip files, within the memory budget.

Member names must be unique, the directory must belong to this file, and a member's size is compared with the free
memory before it is unpacked.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from meshgen.budget import memory_fault, regular_size

# Other methods are rejected: with bz2 and lzma, one chunk of input may expand to any size, and Python has no limit for it.
_BOUNDED = {zipfile.ZIP_STORED: "stored", zipfile.ZIP_DEFLATED: "deflated"}
_MAGIC = b"PK\x03\x04"


@contextmanager
def zip_faults() -> Generator[None]:
    """Convert the exceptions of damaged zip files to ValueError."""
    try:
        yield
    # `zipfile` raises RuntimeError for an encrypted member.
    except (EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(str(error)) from error


def open_zip(source: Path | IO[bytes]) -> zipfile.ZipFile:
    """Return an opened zip file. Raises OSError, or ValueError if the file is damaged or has two members of one name."""
    if isinstance(source, Path):
        regular_size(source)
    with zip_faults():
        try:
            archive = zipfile.ZipFile(source)
        except zipfile.BadZipFile as error:
            if _starts_as_zip(source):
                raise ValueError(f"it is damaged or cut off: {error}") from error
            raise
    try:
        _refuse_damaged(archive)
    except ValueError:
        archive.close()
        raise
    return archive


def _starts_as_zip(source: Path | IO[bytes]) -> bool:
    if isinstance(source, Path):
        with source.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    source.seek(0)
    return source.read(len(_MAGIC)) == _MAGIC


def _refuse_damaged(archive: zipfile.ZipFile) -> None:
    entries = archive.infolist()
    # An offset other than 0 means that the directory belongs to a zip file stored inside of this one, whose end was cut
    # off.
    if min((entry.header_offset for entry in entries), default=0):
        raise ValueError("it is damaged or cut off: the directory of its members is not at its end")
    names: set[str] = set()
    for entry in entries:
        if entry.filename in names:
            raise ValueError(f"it is damaged: its member '{entry.filename:.200}' stands twice")
        names.add(entry.filename)


def open_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> IO[bytes]:
    """Return the stream of a member, limited to `entry.file_size` bytes.

    Raises:
        ValueError: the member is damaged or has an unsupported compression.
    """
    if entry.compress_type not in _BOUNDED:
        raise ValueError(f"member '{entry.filename:.200}' is compressed, but not by deflate")
    with zip_faults():
        return archive.open(entry)


def member_bytes(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Return the bytes of a member.

    Raises:
        OSError: the file cannot be read.
        ValueError: the member is damaged or does not fit into memory.
    """
    if fault := memory_fault(entry.file_size, f"member '{entry.filename:.200}'"):
        raise ValueError(fault)
    with open_member(archive, entry) as member, zip_faults():
        # Without the size, `read` would unpack the entire member, even if the directory entry states a smaller size.
        content = member.read(entry.file_size)
    if len(content) != entry.file_size:
        raise ValueError(f"member '{entry.filename:.200}' has {len(content)} bytes, not {entry.file_size}")
    return content
