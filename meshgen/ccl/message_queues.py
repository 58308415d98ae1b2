"""Buffered messages between ranks, so that two meshes that send to each other need not run at the same time."""

from __future__ import annotations

from collections import deque

from meshgen.errors import Diagnostic, RuntimeFailure
from meshgen.ops.evaluate.common import Array


class Wires:
    """For each pair (sender, receiver) of world ranks, a FIFO queue of messages that were sent and not yet received."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, int], deque[Array]] = {}

    def send(self, sender: int, receiver: int, content: Array) -> None:
        self._waiting.setdefault((sender, receiver), deque()).append(content.copy())

    def receive(self, sender: int, receiver: int) -> Array:
        """Remove and return the oldest message between two ranks.

        Raises RuntimeFailure MG0604 if no message is pending.
        """
        if not (queue := self._waiting.get((sender, receiver))):
            text = f"rank {receiver} waits for a message that rank {sender} never sends"
            raise RuntimeFailure(Diagnostic("MG0604", text))
        return queue.popleft()
