"""What carries frames of bytes between the processes of a program: `sockets.py` or `mpi.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

Frame: TypeAlias = bytes | bytearray


class Channel(Protocol):
    """One process's end. What it sends to another one arrives in that order.

    Attributes:
        rank, size: of this process, and how many there are.
        lost: peers that nothing can be sent to or comes from any more, and why.
    """

    rank: int
    size: int
    lost: dict[int, str]

    def send(self, peer: int, frame: Frame) -> None:
        """Returns at once; the frame goes out during this and later calls of `poll`."""
        ...

    def poll(self, seconds: float) -> Sequence[tuple[int, Frame]]:
        """Frames that have arrived and who sent them; waits for something to happen, but no longer than that."""
        ...

    def unsent(self) -> list[int]:
        """Peers for whom frames have not left yet."""
        ...

    def close(self, *, is_clean: bool) -> None:
        """Give everything up. `is_clean`: all processes are alive and do so, with nothing under way."""
        ...
