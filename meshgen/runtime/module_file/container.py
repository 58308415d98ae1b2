"""The module file: an uncompressed zip file in one canonical form, which the reader enforces.

Members are sorted by name and have a fixed time stamp and no attributes. Padding before each member aligns its bytes
to 64 (tensors: to 4096), so that a reader can map them. The reader takes only names, sizes and checksums from the
central directory. It derives every other byte of the zip structure from these and rejects a file that differs
anywhere, so a damaged or forged structure cannot pass.

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

# Alignment in bytes: of tensors (the page size, so that they can be mapped), and of other members (a cache line).
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
_MAGIC = struct.pack("<I", _LOCAL_MAGIC)  # the first bytes of every module file
_ZIP64, _PADDING = 0x0001, 0xD935
_DATE = 0x0021  # the MS-DOS encoding of 1 January 1980, the earliest date
_LIMIT = 0xFFFFFFFF  # in a 32-bit field: the actual value is in the zip64 extra field
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")


class Entry(NamedTuple):
    """A member of the zip file as listed in the central directory."""

    name: str
    size: int
    crc: int


class Layout(NamedTuple):
    """The bytes of the canonical zip structure around the contents of the members."""

    # per member: position of its local header, and the bytes of the header with padding
    headers: tuple[tuple[int, bytes], ...]
    start: tuple[int, ...]  # per member: position of its contents
    # position of the central directory, and the bytes of the directory and the end records
    directory: tuple[int, bytes]


def layout(entries: Sequence[Entry]) -> Layout:
    """Return the canonical zip structure for `entries`."""
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


def path_of(argument: Any) -> Path:
    """Return a user's argument as a path.

    Raises UsageError MG0001 unless the argument is a path or text. An empty text is an error too: it would mean the
    working directory.
    """
    try:
        if isinstance(text := os.fspath(argument), str) and text:
            return Path(text)
    except TypeError:
        pass
    raise UsageError(Diagnostic("MG0001", f"expected a path, got {argument!r}"))


def require_writable(path: Path) -> None:
    """Raise UsageError MG0003 if no file can be written at `path`.

    Callers check this before a long build, so that its result is not lost.
    """
    try:
        fault = errno.EISDIR if path.is_dir() else 0 if path.parent.is_dir() else errno.ENOENT
    except (OSError, ValueError) as error:  # pathlib raises ValueError for a path with a NUL byte
        fault = (error.errno if isinstance(error, OSError) else None) or errno.EINVAL
    if fault:
        raise UsageError(Diagnostic("MG0003", f"'{path}' cannot be written: {os.strerror(fault)}"))


def write(path: Path, members: Mapping[str, bytes]) -> None:
    """Write a module file with the members `members`, atomically.

    Raises UsageError MG0003 if the file cannot be written.
    """
    require_writable(path)
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
    """The members of a module file that has been opened, as a mapping from member names to bytes."""

    def __init__(self, path: Path, *, mapped: bool = False) -> None:
        """Read the file and check its structure.

        Args:
            mapped: memory-map the weights instead of reading them. All other members are copied into memory.
        Raises:
            UsageError: MG0002, the file is missing or cannot be read.
            ModuleError: MG0501, the file is not a module; MG0502, it is damaged.
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
            member_bytes = content[start : start + entry.size]
            is_view = not mapped or entry.name.rpartition("/")[2] == WEIGHTS
            self._members[entry.name] = member_bytes if is_view else memoryview(bytes(member_bytes))

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __getitem__(self, name: str) -> memoryview:
        """Return the bytes of a member. Raises ModuleError for an unknown member."""
        if name not in self._members:
            raise damaged(self.path, f"it has no member '{name}'")
        return self._members[name]


def _read(path: Path) -> bytes:
    """Read the file into memory, so that later writes to it have no effect.

    Returns an empty result if the file is not a module.
    """
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
    """Map the file into memory. Returns an empty result if the file is too short to be a module."""
    with _opened(path) as file:
        if os.fstat(file.fileno()).st_size < _END.size:
            return b""
        try:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise _unreadable(path, system_reason(error)) from error


def _opened(path: Path) -> FileIO:
    """Open a regular file. Raises UsageError MG0002 for a pipe or device too, because reading one may never end."""
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
    """Return names, sizes and checksums of the members. `Container` checks the other fields against the canonical form."""
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
    """Return the number of entries, the size and the position of the central directory.

    Raises ValueError or struct.error for a malformed end record.
    """
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
    offset = 0
    for _ in range(count):
        fields = _CENTRAL.unpack_from(directory, offset)
        crc, size, name_size, extra_size = fields[7], fields[9], fields[10], fields[11]
        offset += _CENTRAL.size
        name = bytes(directory[offset : offset + name_size]).decode("latin-1")
        if fields[0] != _CENTRAL_MAGIC or not _NAME.fullmatch(name):
            raise ValueError(f"its directory has a bad entry '{name[:80]!a}'")
        offset += name_size
        if size == _LIMIT:
            size = struct.unpack_from("<Q", directory, offset + 4)[0]
        offset += extra_size
        yield Entry(name, size, crc)
