"""The module file: one uncompressed zip in one canonical form, read strictly.

Members are ordered by name, with a fixed time and no attributes; a padding field before each makes its bytes start
at a multiple of 64 (4096 for tensors), so that a reader can map them. The reader takes names, sizes and
checksums from the directory, derives every other byte of the file's structure from them, and refuses a file
that differs anywhere, so a damaged or forged structure cannot pass.

Source: PKWARE APPNOTE 6.3.10, sections 4.3 and 4.5.3 (zip64); field 0xD935 is Android's alignment padding.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from meshgen.budget import memory_fault
from meshgen.errors import Diagnostic, ModuleError, UsageError, system_reason
from meshgen.runtime.module_file.files import write_file
from meshgen.runtime.module_file.members import damaged

PAGE, LINE = 4096, 64
WEIGHTS = "weights.safetensors"
_LOCAL = struct.Struct("<IHHHHHIIIHH")
_CENTRAL = struct.Struct("<IHHHHHHIIIHHHHHII")
_END = struct.Struct("<IHHHHIIH")
_END64 = struct.Struct("<IQHHIIQQQQ")
_LOCATOR = struct.Struct("<IIQI")
_LOCAL_MAGIC, _CENTRAL_MAGIC, _END_MAGIC, _END64_MAGIC, _LOCATOR_MAGIC = (
    0x04034B50, 0x02014B50, 0x06054B50, 0x06064B50, 0x07064B50,
)  # fmt: skip
_MAGIC = struct.pack("<I", _LOCAL_MAGIC)  # what a module begins with
_ZIP64, _PADDING = 0x0001, 0xD935
_DATE = 0x0021  # 1 January 1980
_LIMIT = 0xFFFFFFFF
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")


class Entry(NamedTuple):
    """One member as the directory lists it."""

    name: str
    size: int
    crc: int


class Layout(NamedTuple):
    """The canonical layout of a file with these entries."""

    headers: tuple[tuple[int, bytes], ...]  # per entry: its position and local header with padding
    start: tuple[int, ...]  # per entry: position of its bytes
    directory: tuple[int, bytes]  # position and bytes of the central directory with all that follows


def layout(entries: Sequence[Entry]) -> Layout:
    """The canonical form."""
    headers: list[tuple[int, bytes]] = []
    start: list[int] = []
    position = 0
    for entry in entries:
        header = _local_header(entry, position)
        headers.append((position, header))
        start.append(position + len(header))
        position = start[-1] + entry.size
    central = b"".join(_central_header(e, h[0]) for e, h in zip(entries, headers, strict=True))
    return Layout(tuple(headers), tuple(start), (position, central + _end_record(len(entries), position, len(central))))


def _local_header(entry: Entry, position: int) -> bytes:
    big = entry.size >= _LIMIT
    extra = struct.pack("<HHQQ", _ZIP64, 16, entry.size, entry.size) if big else b""
    name = entry.name.encode()
    alignment = PAGE if entry.name.endswith(".safetensors") else LINE
    padding = -(position + _LOCAL.size + len(name) + len(extra) + 4) % alignment
    extra += struct.pack("<HH", _PADDING, padding) + bytes(padding)
    size = _LIMIT if big else entry.size
    fields = (_LOCAL_MAGIC, 45 if big else 20, 0, 0, 0, _DATE, entry.crc, size, size, len(name), len(extra))
    return _LOCAL.pack(*fields) + name + extra


def _central_header(entry: Entry, position: int) -> bytes:
    big, far = entry.size >= _LIMIT, position >= _LIMIT
    wide = [entry.size, entry.size] * big + [position] * far
    extra = struct.pack(f"<HH{len(wide)}Q", _ZIP64, 8 * len(wide), *wide) if wide else b""
    size, name = _LIMIT if big else entry.size, entry.name.encode()
    version = 45 if wide else 20
    fields = (
        _CENTRAL_MAGIC,
        version,
        version,
        0,
        0,
        0,
        _DATE,
        entry.crc,
        size,
        size,
        len(name),
        len(extra),
        0,
        0,
        0,
        0,
    )
    return _CENTRAL.pack(*fields, _LIMIT if far else position) + name + extra


def _end_record(count: int, position: int, size: int) -> bytes:
    small = (min(count, 0xFFFF), min(size, _LIMIT), min(position, _LIMIT))
    record = _END.pack(_END_MAGIC, 0, 0, small[0], *small, 0)
    if 0xFFFF not in small[:1] and _LIMIT not in small[1:]:
        return record
    wide = _END64.pack(_END64_MAGIC, _END64.size - 12, 45, 45, 0, 0, count, count, size, position)
    return wide + _LOCATOR.pack(_LOCATOR_MAGIC, 0, position + size, 1) + record


def path_of(given: Any) -> Path:
    """A user's path. Raises UsageError MG0001 for anything else, and for an empty text, which would be the working directory."""
    try:
        if isinstance(text := os.fspath(given), str) and text:
            return Path(text)
    except TypeError:
        pass
    raise UsageError(Diagnostic("MG0001", f"expected a path, got {given!r}"))


def refuse_place(path: Path) -> None:
    """Raise UsageError MG0003 if the path cannot be written, before a long build."""
    try:
        fault = errno.EISDIR if path.is_dir() else 0 if path.parent.is_dir() else errno.ENOENT
    except (OSError, ValueError) as error:  # ValueError: a path with a byte 0
        fault = (error.errno if isinstance(error, OSError) else None) or errno.EINVAL
    if fault:
        raise UsageError(Diagnostic("MG0003", f"'{path}' cannot be written: {os.strerror(fault)}"))


def write(path: Path, members: Mapping[str, bytes]) -> None:
    """Write a file with these members, all of it or nothing. Raises UsageError MG0003 if it cannot be written."""
    refuse_place(path)
    entries = [Entry(name, len(members[name]), zlib.crc32(members[name])) for name in sorted(members)]
    assert all(_NAME.fullmatch(entry.name) for entry in entries)
    plan = layout(entries)

    def content(file: BinaryIO) -> None:
        for entry, (_, header) in zip(entries, plan.headers, strict=True):
            file.write(header)
            file.write(members[entry.name])
        file.write(plan.directory[1])

    write_file(path, content)


class Container:
    """A module file that was read: a mapping from member names to their bytes."""

    def __init__(self, path: Path, *, mapped: bool = False) -> None:
        """Read the file and check its structure.

        Args:
            mapped: leave the weights in the file, as a mapping of it; all else is copied.
        Raises:
            UsageError: MG0002, the file is missing or cannot be read.
            ModuleError: MG0501, it is something else; MG0502, it is damaged.
        """
        self.path = path
        content = memoryview(_map(path) if mapped else _read(path))
        self._entries = _read_directory(content, path)
        plan = layout(self._entries)
        for position, expected in (*plan.headers, plan.directory):
            if bytes(content[position : position + len(expected)]) != expected:
                raise damaged(path, f"its structure is malformed (at byte {position})")
        self._members: dict[str, memoryview] = {}
        for entry, start in zip(self._entries, plan.start, strict=True):
            own = content[start : start + entry.size]
            stays = not mapped or entry.name.rpartition("/")[2] == WEIGHTS
            self._members[entry.name] = own if stays else memoryview(bytes(own))

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __getitem__(self, name: str) -> memoryview:
        """The member's bytes. Raises ModuleError for an unknown member."""
        if name not in self._members:
            raise damaged(self.path, f"it has no member '{name}'")
        return self._members[name]


def _read(path: Path) -> bytes:
    """The whole file, so that later writes to it have no effect. Only the first bytes of another kind of file."""
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if os.pread(file.fileno(), 4, 0) != _MAGIC:
            return b""
        if fault := memory_fault(size, "its content"):
            raise _unreadable(path, fault)
        try:
            return file.readall()
        except (OSError, MemoryError) as error:
            raise _unreadable(path, system_reason(error)) from error


def _map(path: Path) -> mmap.mmap | bytes:
    """A mapping of the file."""
    with _opened(path) as file:
        if os.fstat(file.fileno()).st_size < _END.size:
            return b""
        try:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise _unreadable(path, system_reason(error)) from error


def _opened(path: Path) -> FileIO:
    """The opened file, which must be a regular one: reading a pipe or device may never end. Raises UsageError MG0002."""
    try:
        if not path.is_file() and path.exists():
            raise OSError(errno.EINVAL, os.strerror(errno.EISDIR) if path.is_dir() else "it is not a regular file")
        return open(path, "rb", buffering=0)
    except (OSError, ValueError) as error:
        raise _unreadable(path, system_reason(error)) from error


def _unreadable(path: Path, reason: object) -> UsageError:
    hint = "a module is a .mgx file, which meshgen compile writes" if path.suffix != ".mgx" else ""
    return UsageError(Diagnostic("MG0002", f"'{path}' cannot be read: {reason}", hint=hint))


def _read_directory(content: memoryview, path: Path) -> list[Entry]:
    """Names, sizes and checksums. The rest of the directory is checked against the canonical form."""
    if bytes(content[:4]) != _MAGIC:
        raise ModuleError(
            Diagnostic("MG0501", f"'{path}' is not a meshgen module", hint="meshgen compile writes modules")
        )
    try:
        count, size, position = _read_end(content)
        if position + size > len(content):
            raise ValueError(f"its directory ends at byte {position + size}, but the file at {len(content)}")
        entries = list(_read_entries(content[position : position + size], count))
        end = position + size + len(_end_record(count, position, size))
        if end != len(content) or sum(e.size for e in entries) > position:
            raise ValueError(f"it has {len(content)} bytes, but its directory describes {end}")
        names = [entry.name for entry in entries]
        if names != sorted(set(names)):
            raise ValueError("its members are repeated or out of order")
    except (struct.error, ValueError) as error:
        reason = "it is truncated" if isinstance(error, struct.error) else str(error)
        raise damaged(path, reason) from error
    return entries


def _read_end(content: memoryview) -> tuple[int, int, int]:
    """Number of entries, size and position of the directory. Raises ValueError or struct.error."""
    tail = len(content) - _END.size
    if tail < 0 or _END.unpack_from(content, tail)[0] != _END_MAGIC:
        raise ValueError("its end record is missing: it was truncated, or data was appended")
    _, _, _, _, count, size, position, _ = _END.unpack_from(content, tail)
    if count != 0xFFFF and _LIMIT not in (size, position):
        return count, size, position
    wide = tail - _LOCATOR.size - _END64.size
    if wide < 0 or _END64.unpack_from(content, wide)[0] != _END64_MAGIC:
        raise ValueError("its end record is damaged")
    _, _, _, _, _, _, _, count, size, position = _END64.unpack_from(content, wide)
    return count, size, position


def _read_entries(directory: memoryview, count: int) -> Iterator[Entry]:
    place = 0
    for _ in range(count):
        fields = _CENTRAL.unpack_from(directory, place)
        crc, size, name_size, extra_size = fields[7], fields[9], fields[10], fields[11]
        place += _CENTRAL.size
        name = bytes(directory[place : place + name_size]).decode("latin-1")
        if fields[0] != _CENTRAL_MAGIC or not _NAME.fullmatch(name):
            raise ValueError(f"its directory has a bad entry '{name[:80]!a}'")
        place += name_size
        if size == _LIMIT:
            size = struct.unpack_from("<Q", directory, place + 4)[0]
        place += extra_size
        yield Entry(name, size, crc)
