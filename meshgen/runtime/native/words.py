"""The launch table's alphabet: 64-bit little-endian words. `meshgen/native/table.h` has the same numbers for C.

Records begin with a number of what follows, so a reader never searches: it takes words one after the other and checks each.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TypeAlias

MAGIC = int.from_bytes(b"mgxtable", "little")
VERSION = 2  # in version 1 all codes of a kernel had one grid
TABLE = "native/table.bin"  # the member that holds it
_MASK = (1 << 64) - 1  # words have 64 bits; negative numbers are in two's complement

Record: TypeAlias = tuple[int, ...]


class Op(IntEnum):
    """Operations of a rank, with their words. Places are bytes in the rank's memory."""

    LAUNCH = 1  # stream, function, three sizes of the grid, count, then for each parameter its kind and two words
    COPY = 2  # stream, target, source, bytes
    CLEAR = 3  # stream, target, bytes
    RECORD = 4  # stream, event
    WAIT = 5  # stream, event
    GROUP = 6  # number, count, then the calls of NCCL that are issued together with those of the other ranks


class Parameter(IntEnum):
    """Of a kernel, followed by two words."""

    POINTER = 1  # place, bytes that the kernel may touch from there on
    WORD32 = 2  # value, 0
    WORD64 = 3  # value, 0


class Call(IntEnum):
    """Of NCCL. Behind each: communicator, stream, source, target, count, data type, reduction, peer or root."""

    ALL_REDUCE = 1
    ALL_GATHER = 2
    REDUCE_SCATTER = 3
    BROADCAST = 4
    REDUCE = 5
    SEND = 6
    RECEIVE = 7


class Control(IntEnum):
    """Instructions of the host for the ranks of one mesh. A target is a place in the words of the control."""

    END = 0
    RUN = 1  # number of a segment
    JUMP = 2  # target
    ONLY = 3  # first rank, ranks, target where none of these is local
    CHOOSE = 4  # first rank, ranks, place and bytes of an integer, count, targets; the last one for numbers beyond


class Code(IntEnum):
    """Of a kernel. Behind each: architecture as a number, whether no other will do, member, threads, shared bytes, and three sizes of
    the grid, or zeros where it is that of the launch.
    """

    CUBIN = 1
    PTX = 2


class Words:
    """A table that is being written."""

    def __init__(self) -> None:
        self._words: list[int] = []

    def put(self, *values: int) -> None:
        self._words += [value & _MASK for value in values]

    def put_list(self, values: Iterable[int]) -> None:
        """Their number, then the words themselves."""
        listed = list(values)
        self.put(len(listed), *listed)

    def put_lists(self, lists: Sequence[Sequence[int]]) -> None:
        self.put(len(lists))
        for each in lists:
            self.put_list(each)

    def put_text(self, text: str) -> None:
        """Its bytes in UTF-8 and their number, filled up to whole words with zeros, of which there is one at least."""
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
    """Records without repetition: ranks of one kind share theirs."""

    def __init__(self) -> None:
        self._numbers: dict[Record, int] = {}

    def number(self, record: Iterable[int]) -> int:
        """The number of a record, which is added unless it is there."""
        return self._numbers.setdefault(tuple(record), len(self._numbers))

    @property
    def records(self) -> list[Record]:
        return list(self._numbers)
