"""Resources of a cubin, read from its ELF sections: registers, stack, and counts of characteristic instructions.

No CUDA tool is run, because `nvdisasm` takes 0.3 s per kernel, longer than most compilations. The tests compare with
`cuobjdump` and `nvdisasm`. Source: the ELF-64 specification; the output of these two tools for the layout of `.nv.info`
and the opcodes. An opcode is the low 12 bits of a 128-bit instruction, the same on sm_80 and sm_90.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

_OPCODES = {
    0x23C: "HMMA", 0x237: "IMMA", 0x23F: "DMMA", 0x9F0: "HGMMA", 0x9F1: "IGMMA",
    0x9F3: "QGMMA", 0xDF0: "HGMMA", 0xDF1: "IGMMA", 0xDF3: "QGMMA", 0x5EA: "UTCHMMA", 0x5B4: "UTMALDG",
    **dict.fromkeys((0x223, 0x423, 0x623, 0x823, 0xA23, 0xC23), "FFMA"), 0xFAE: "LDGSTS", 0x981: "LDG", 0x986: "STG",
    0x983: "LDL", 0x387: "STL", 0x987: "STL", 0x918: "NOP",
}  # fmt: skip
_SECTION = struct.Struct("<IIQQQQIIQQ")
# Attribute numbers in `.nv.info`. The value of both attributes is (symbol, number).
_FRAME_SIZE, _REGISTER_COUNT = 0x11, 0x2F
_SIZED = 0x04  # Attribute format in `.nv.info`: a 16-bit size, followed by a value of that many bytes.


class Resources(NamedTuple):
    """Registers per thread, bytes of stack frame per thread (spills included), and instruction counts by mnemonic.

    `instructions["total"]` counts all instructions except padding; only characteristic mnemonics are counted by name.
    """

    registers: int
    stack_bytes: int
    instructions: dict[str, int]


def read_resources(cubin: bytes, entry: str) -> Resources:
    """Return the resources of kernel `entry`.

    Raises:
        ValueError: the bytes are not a cubin with such a kernel.
    """
    try:
        section_of = dict(sections(cubin))
        code, attributes = section_of[f".text.{entry}"], list(_attributes(section_of[".nv.info"]))
    except (struct.error, KeyError, IndexError, ValueError, OverflowError) as error:
        raise ValueError(f"not a cubin with kernel '{entry}'") from error
    counts = Counter(_OPCODES.get(word & 0xFFF, "other") for word, _ in struct.iter_unpack("<QQ", code))
    padding = counts.pop("NOP", 0)
    named = {name: counts[name] for name in sorted(set(_OPCODES.values())) if counts[name]}
    named["total"] = len(code) // 16 - padding
    # The table also lists device functions, whose values are at most as large as those of the kernel that calls them.
    return Resources(_largest(attributes, _REGISTER_COUNT), _largest(attributes, _FRAME_SIZE), named)


def has_kernel(cubin: bytes, entry: str) -> bool:
    """Whether the bytes are a cubin with kernel `entry`."""
    try:
        return any(name == f".text.{entry}" for name, _ in sections(cubin))
    except (struct.error, KeyError, IndexError, ValueError, OverflowError):
        return False


def _largest(attributes: list[tuple[int, bytes]], kind: int) -> int:
    return max((struct.unpack("<II", value)[1] for k, value in attributes if k == kind and len(value) == 8), default=0)


def sections(elf: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the name and contents of each section that has bytes in the file."""
    if elf[:6] != b"\x7fELF\x02\x01":
        raise KeyError("magic")
    offset = struct.unpack_from("<Q", elf, 0x28)[0]
    size, count, names_index = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [_SECTION.unpack_from(elf, offset + i * size) for i in range(count)]
    names = headers[names_index]
    table = elf[names[4] : names[4] + names[5]]
    for header in headers:
        name = table[header[0] : table.index(b"\0", header[0])].decode()
        if header[1] not in (0, 8):  # sections of types SHT_NULL and SHT_NOBITS have no bytes in the file
            yield name, elf[header[4] : header[4] + header[5]]


def _attributes(section: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the (attribute, value) pairs of a `.nv.info` section. Attributes of other formats than `_SIZED` are
    skipped.
    """
    offset = 0
    while offset + 4 <= len(section):
        layout, kind, size = struct.unpack_from("<BBH", section, offset)
        offset += 4
        if layout == _SIZED:
            yield kind, section[offset : offset + size]
            offset += size
