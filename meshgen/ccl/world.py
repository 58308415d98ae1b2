"""The processes of a program, one rank each. They exchange named messages and report failures to each other.

A waiting rank records its current operation (`doing`), so that an error message contains the collective, its axes and
the missing ranks. A failing process sends the reason to all others. They then fail too, and each of them names its own
current operation.
"""

from __future__ import annotations

import os
import struct
import time
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

from meshgen.ccl.channel import Channel, Frame
from meshgen.errors import Diagnostic, RuntimeFailure

# Seconds. Source: the default `timeout` of `torch.distributed.init_process_group` for NCCL, 10 minutes.
TIME_OUT_SECONDS = 600.0
# seconds that a failing process waits for reports of other ranks (chosen: short, but enough for a network round trip)
PARTING_SECONDS = 1.0
# seconds between two checks for a dead launcher and for the time-out (chosen: an idle rank then uses almost no CPU)
_LOOK_SECONDS = 0.05
_MESSAGE, _FAILED, _LEAVES = range(3)  # kinds of frames
_HEADER = struct.Struct("<BI")  # kind of the frame, and length in bytes of the message's name

MessageKey = tuple[int, str]  # (rank, name): a message called `name` from that rank


class World:
    """The interface of this process to all ranks of the program.

    Attributes:
        rank, size: rank of this process and number of ranks, counted over all meshes of the program in order.
        local_rank: index of this process on its host, which selects its GPU, or None if the launcher does not set it.
        time_out: seconds after which waiting for a rank fails.
    """

    def __init__(
        self, channel: Channel, *, local_rank: int | None = None, time_out: float = TIME_OUT_SECONDS,
        has_launcher: bool = False,
    ) -> None:  # fmt: skip
        """Connect the rank of this process to the others through `channel`.

        Args:
            has_launcher: the parent process is the launcher or ends with it; this process must not outlive its parent.
        """
        self.rank, self.size, self.local_rank, self.time_out = channel.rank, channel.size, local_rank, time_out
        self._channel = channel
        self._parent = os.getppid() if has_launcher else None
        self._arrived: dict[MessageKey, deque[Frame]] = defaultdict(deque)
        self._failed: dict[int, tuple[str, float]] = {}  # failed rank -> (reason, time of arrival)
        self._left: set[int] = set()  # ranks that reached the end of the program
        self._doing: list[Callable[[], str]] = []
        self._is_over = False

    # --- messages --------------------------------------------------------------------------------------------------------

    def send(self, peer: int, name: str, content: Frame) -> None:
        """Queue a message to rank `peer`. It is sent while this process waits for other ranks."""
        title = name.encode()
        self._channel.send(peer, b"".join((_HEADER.pack(_MESSAGE, len(title)), title, content)))

    def take(self, peer: int, name: str) -> Frame | None:
        """Remove and return the oldest message called `name` from rank `peer`, or None if none has arrived."""
        queue = self._arrived.get((peer, name))
        if not queue:
            return None
        content = queue.popleft()
        if not queue:
            del self._arrived[peer, name]
        return content

    def receive(self, expected: Sequence[MessageKey]) -> list[Frame]:
        """Wait for one message per (rank, name) in `expected`, and return their contents in this order.

        Also wait until all messages of this process are sent.

        Raises:
            RuntimeFailure: MG0609, a rank has failed, has disconnected, or does not reply in time.
        """
        start, contents = time.monotonic(), dict[int, Frame]()
        while True:
            for index, (peer, name) in enumerate(expected):
                if index not in contents and (content := self.take(peer, name)) is not None:
                    contents[index] = content
            missing = {expected[index][0] for index in range(len(expected)) if index not in contents}
            missing |= set(self._channel.unsent()) - self._left
            if not missing:
                return [contents[index] for index in range(len(expected))]
            self.wait(missing, start)

    def wait(self, missing: Iterable[int], begin: float) -> None:
        """Wait a short time for messages while `missing` ranks have not replied.

        Args:
            begin: reading of `time.monotonic` from which the time-out counts.
        Raises:
            RuntimeFailure: the same errors as `receive`.
        """
        ranks = sorted(missing)
        if gone := [rank for rank in ranks if rank in self._left]:
            raise self.failure(f"{ranks_text(gone)} reached the end of the program", ranks)
        self.look(ranks)
        self._deliver(_LOOK_SECONDS)
        if time.monotonic() - begin > self.time_out:
            raise self.failure(f"no reply within {self.time_out:g} s", ranks)

    def look(self, missing: Sequence[int] = ()) -> None:
        """Raise RuntimeFailure MG0609 if a rank has failed or has disconnected.

        Args:
            missing: the ranks for which this rank waits. After the failure of another rank, they get `PARTING_SECONDS`
                to reply or to report their own failure.
        """
        self.require_whole()
        for rank, (reason, when) in self._failed.items():
            if not missing or rank in missing or time.monotonic() - when > PARTING_SECONDS:
                raise self.failure(f"rank {rank} failed: {reason}", missing)
        for rank, reason in self._channel.lost.items():
            if rank not in self._left:
                raise self.failure(f"rank {rank} is gone: {reason}", missing)
        if self._parent is not None and os.getppid() != self._parent:
            raise self.failure("the launcher is gone", missing)

    def listen(self) -> None:
        """Receive the messages that have arrived, without waiting."""
        self.require_whole()
        self._deliver(0.0)

    def all_gather(self, name: str, content: Frame, ranks: Sequence[int] | None = None) -> list[Frame]:
        """Send `content` under `name` to `ranks` (default: all), and return the contents of all of them in this order.

        Raises:
            RuntimeFailure: the same errors as `receive`.
        """
        ranks = range(self.size) if ranks is None else ranks
        peers = [rank for rank in ranks if rank != self.rank]
        for rank in peers:
            self.send(rank, name, content)
        contents = dict(zip(peers, self.receive([(rank, name) for rank in peers]), strict=True))
        return [contents.get(rank, content) for rank in ranks]

    def finish(self) -> None:
        """Wait until all ranks reach the end of the program: a rank succeeds only if all ranks do.

        Raises:
            RuntimeFailure: the same errors as `receive`.
        """
        with self.doing(lambda: "the end of the program"):
            self.all_gather("end", b"")

    # --- failures --------------------------------------------------------------------------------------------------------

    @contextmanager
    def doing(self, text: Callable[[], str]) -> Generator[None]:
        """Return a context in which the error messages of this rank contain the operation `text()`.

        Example: `all_reduce over x (block.mlir:12)`.
        """
        self._doing.append(text)
        try:
            yield
        finally:
            self._doing.pop()

    def fail(self, reason: str) -> None:
        """Send the failure of this rank to all other ranks, wait briefly for their reports, and disconnect."""
        if self._is_over:
            return
        for rank in self._peers():
            self._channel.send(rank, _HEADER.pack(_FAILED, 0) + reason.encode(errors="replace"))
        end = time.monotonic() + PARTING_SECONDS
        while self._running_ranks() and time.monotonic() < end:
            self._deliver(_LOOK_SECONDS)
        self._end()

    def close(self) -> None:
        """Leave the program on this rank. Other ranks may continue, but they get no more messages from this rank."""
        if self._is_over:
            return
        for rank in self._peers():
            self._channel.send(rank, _HEADER.pack(_LEAVES, 0))
        start = time.monotonic()
        while (self._running_ranks() or self._channel.unsent()) and time.monotonic() - start < self.time_out:
            self._deliver(_LOOK_SECONDS)
            if self._failed or set(self._channel.lost) - self._left:
                break
        self._end()

    def require_whole(self) -> None:
        """Raise RuntimeFailure MG0609 if this rank has left the program or has disconnected after a failure."""
        if self._is_over:
            text = "the ranks have disconnected after a failure, or at the end of the program"
            raise RuntimeFailure(Diagnostic("MG0609", text, hint="start all of them again"))

    def _deliver(self, seconds: float) -> None:
        for peer, frame in self._channel.poll(seconds):
            kind, size = _HEADER.unpack_from(frame)
            name, content = frame[_HEADER.size : _HEADER.size + size], frame[_HEADER.size + size :]
            if kind == _MESSAGE:
                self._arrived[peer, name.decode()].append(content)
            elif kind == _FAILED:
                self._failed[peer] = content.decode(errors="replace"), time.monotonic()
            else:
                self._left.add(peer)

    def failure(self, reason: str, missing: Sequence[int] = ()) -> RuntimeFailure:
        """Return the error MG0609 with `reason`, the current operation of this rank, and the `missing` ranks."""
        waits_text = f" waits for {ranks_text(missing)}" if missing else ""
        operation = f" in {self._doing[-1]()}" if self._doing else ""
        verb = waits_text or (" is" if operation else "")
        return RuntimeFailure(Diagnostic("MG0609", f"rank {self.rank}{verb}{operation}: {reason}"))

    def _peers(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.rank]

    def _running_ranks(self) -> list[int]:
        """Return the other ranks that are connected, have not failed and have not reached the end of the program."""
        return [rank for rank in self._peers() if rank not in {*self._failed, *self._left, *self._channel.lost}]

    def _end(self) -> None:
        self._is_over = True
        self._channel.close(is_clean={*self._failed, *self._left} == {*self._peers()})


def ranks_text(ranks: Sequence[int]) -> str:
    """Format a list of ranks, for example as `rank 1` or `ranks 0, 2, 3`."""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
