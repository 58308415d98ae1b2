"""The launch table is a sequence of 64-bit little-endian words.

`meshgen/native/table.h` has the same constants for C.

Each record begins with its length or kind, so a reader consumes words strictly in order and checks each of them.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TypeAlias

MAGIC = int.from_bytes(b"mgxtable", "little")
VERSION = 2  # Version 1 had the same grid for all code variants of a kernel.
TABLE = "native/table.bin"  # the member that contains the table
_MASK = (1 << 64) - 1  # words have 64 bits; negative numbers are stored in two's complement

Record: TypeAlias = tuple[int, ...]


class Op(IntEnum):
    """Kinds of operations of a rank. The comments list the words that follow.

    Sources and targets are byte offsets in the rank's memory.
    """

    # stream, function, three grid sizes, number of parameters; then for each parameter its kind and two words
    LAUNCH = 1
    COPY = 2  # stream, target, source, bytes
    CLEAR = 3  # stream, target, bytes
    RECORD = 4  # stream, event
    WAIT = 5  # stream, event
    GROUP = 6  # group index, number of calls; then the NCCL calls, which all ranks issue together in one NCCL group


class Parameter(IntEnum):
    """Kinds of kernel parameters. Each is followed by two words."""

    POINTER = 1  # byte offset in the rank's memory, number of bytes that the kernel may access from there
    WORD32 = 2  # value, 0
    WORD64 = 3  # value, 0


class Call(IntEnum):
    """Kinds of NCCL calls.

    Each is followed by communicator, stream, source, target, count, data type, reduction, and peer or root.
    """

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
    ONLY = 3  # first rank, number of ranks, and target of the jump if none of these ranks is in this process
    # first rank, number of ranks, byte offset and size of the branch index, number of targets, targets (last: default)
    CHOOSE = 4


class Code(IntEnum):
    """Kinds of a kernel's code.

    Each is followed by architecture, exactness, member, threads, shared bytes and grid.

    Exactness is 1 if the code runs on this architecture only. The grid is three sizes, or three zeros for the grid of
    the launch.
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
        """Write the number of UTF-8 bytes, then the bytes, padded to entire words with at least one zero byte."""
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
    """A list of distinct records, so that ranks share equal ones."""

    def __init__(self) -> None:
        self._numbers: dict[Record, int] = {}

    def number(self, record: Iterable[int]) -> int:
        """Return the index of `record`, which is appended if it is new."""
        return self._numbers.setdefault(tuple(record), len(self._numbers))

    @property
    def records(self) -> list[Record]:
        return list(self._numbers)
