"""The words of the launch table, 64-bit and little-endian. `meshgen/native/table.h` defines the same numbers for C.

Each record begins with its length or kind, so a reader consumes words strictly in order and checks each of them.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TypeAlias

MAGIC = int.from_bytes(b"mgxtable", "little")
VERSION = 2  # in version 1 all code variants of a kernel had the same grid
TABLE = "native/table.bin"  # the member with the table
_MASK = (1 << 64) - 1  # words have 64 bits; negative numbers are stored in two's complement

Record: TypeAlias = tuple[int, ...]


class Op(IntEnum):
    """Operations of a rank, with the words that follow. Source and target are byte offsets in the rank's memory."""

    LAUNCH = 1  # stream, function, three grid sizes, number of parameters, then per parameter its kind and two words
    COPY = 2  # stream, target, source, bytes
    CLEAR = 3  # stream, target, bytes
    RECORD = 4  # stream, event
    WAIT = 5  # stream, event
    GROUP = 6  # group index, number of calls, then the NCCL calls that are issued together with the other ranks' calls


class Parameter(IntEnum):
    """Kinds of kernel parameters. Two words follow each."""

    POINTER = 1  # byte offset in the rank's memory, number of bytes that the kernel may access from there
    WORD32 = 2  # value, 0
    WORD64 = 3  # value, 0


class Call(IntEnum):
    """NCCL calls. Each is followed by communicator, stream, source, target, count, data type, reduction, peer or root."""

    ALL_REDUCE = 1
    ALL_GATHER = 2
    REDUCE_SCATTER = 3
    BROADCAST = 4
    REDUCE = 5
    SEND = 6
    RECEIVE = 7


class Control(IntEnum):
    """Instructions that the host executes for the ranks of a mesh. A target is an index into the control words."""

    END = 0
    RUN = 1  # index of a segment
    JUMP = 2  # target
    ONLY = 3  # first rank, number of ranks, target of a jump if none of these ranks is local
    # first rank, number of ranks, byte offset and size of the branch index, number of targets, targets (last: default)
    CHOOSE = 4


class Code(IntEnum):
    """Kinds of a kernel's code. Each is followed by architecture, exactness, member, threads, shared bytes and grid.

    Exactness is 1 if the code runs on no other architecture. The grid is three sizes, or zeros for the launch's own
    grid.
    """

    CUBIN = 1
    PTX = 2


class Words:
    """A launch table under construction."""

    def __init__(self) -> None:
        self._words: list[int] = []

    def put(self, *values: int) -> None:
        self._words += [value & _MASK for value in values]

    def put_list(self, values: Iterable[int]) -> None:
        """Write the number of values, then the values."""
        listed = list(values)
        self.put(len(listed), *listed)

    def put_lists(self, lists: Sequence[Sequence[int]]) -> None:
        self.put(len(lists))
        for values in lists:
            self.put_list(values)

    def put_text(self, text: str) -> None:
        """Write the number of UTF-8 bytes, then the bytes, padded with at least one zero byte to entire words."""
        content = text.encode()
        self.put(len(content))
        padded = content.ljust((len(content) // 8 + 1) * 8, b"\0")
        self.put(*(int.from_bytes(padded[n : n + 8], "little") for n in range(0, len(padded), 8)))

    def put_texts(self, texts: Sequence[str]) -> None:
        self.put(len(texts))
        for text in texts:
            self.put_text(text)

    def encode(self) -> bytes:
        words = array("Q", self._words)
        if sys.byteorder == "big":
            words.byteswap()
        return words.tobytes()


class Pool:
    """Records without duplicates, so that ranks can share them."""

    def __init__(self) -> None:
        self._numbers: dict[Record, int] = {}

    def number(self, record: Iterable[int]) -> int:
        """Return the index of a record; add the record if it is new."""
        return self._numbers.setdefault(tuple(record), len(self._numbers))

    @property
    def records(self) -> list[Record]:
        return list(self._numbers)
