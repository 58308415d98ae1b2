"""The interface for sending byte frames between the processes of a program, implemented in `sockets.py` and `mpi.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

Frame: TypeAlias = bytes | bytearray


class Channel(Protocol):
    """The connections of this process to all other processes of the program. Frames of a sender arrive in order.

    Attributes:
        rank, size: rank of this process, and number of processes.
        lost: disconnected peer -> reason.
    """

    rank: int
    size: int
    lost: dict[int, str]

    def send(self, peer: int, frame: Frame) -> None:
        """Queue a frame and return at once. The frame is sent during this and later calls of `poll`."""
        ...

    def poll(self, seconds: float) -> Sequence[tuple[int, Frame]]:
        """Return the frames that have arrived, each with its sender. Waits at most `seconds` for the first frame."""
        ...

    def unsent(self) -> list[int]:
        """Return the peers to which frames are still unsent."""
        ...

    def close(self, *, is_clean: bool) -> None:
        """Close the connections.

        Args:
            is_clean: all processes are alive and close as well, with nothing in flight.
        """
        ...
