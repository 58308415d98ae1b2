"""The transport of byte frames between the processes of a program: `sockets.py` or `mpi.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

Frame: TypeAlias = bytes | bytearray


class Channel(Protocol):
    """One process's end. Frames to another process arrive in the order of sending.

    Attributes:
        rank, size: of this process, and how many there are.
        lost: disconnected peers, each with the reason.
    """

    rank: int
    size: int
    lost: dict[int, str]

    def send(self, peer: int, frame: Frame) -> None:
        """Returns at once; the frame goes out during this and later calls of `poll`."""
        ...

    def poll(self, seconds: float) -> Sequence[tuple[int, Frame]]:
        """Frames that have arrived, with their senders; waits at most this long for one."""
        ...

    def unsent(self) -> list[int]:
        """Peers with unsent frames."""
        ...

    def close(self, *, is_clean: bool) -> None:
        """Close the connections. `is_clean`: all processes are alive and close too, with nothing in flight."""
        ...
