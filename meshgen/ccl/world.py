"""The processes of a program, one rank each: named messages between them, and propagation of failures.

A rank that waits for a message records its current operation (`doing`), so that a failure names the collective, its axes and the ranks
that are missing. A process that fails sends the reason to all others; these then fail too, each with its own operation.
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

# Seconds: PyTorch's default for NCCL (`torch.distributed.init_process_group`, parameter `timeout`): 10 minutes
TIME_OUT_SECONDS = 600.0
PARTING_SECONDS = 1.0  # seconds that a failing process waits for the reports of the others
_LOOK_SECONDS = 0.05  # seconds between two checks of the launcher and the time-out while nothing arrives
_MESSAGE, _FAILED, _LEAVES = range(3)  # kinds of frames
_HEADER = struct.Struct("<BI")  # kind of a frame, and bytes of the message's name

Wanted = tuple[int, str]  # a rank and the name of a message from it


class World:
    """All ranks, from the one that this process is.

    Attributes:
        rank, size: in all meshes of a program, one mesh after the other.
        local_rank: number of this process on its machine, which is that of its GPU; None: the launcher does not set it.
        time_out: seconds after which waiting for a rank fails.
    """

    def __init__(
        self, channel: Channel, *, local_rank: int | None = None, time_out: float = TIME_OUT_SECONDS,
        has_launcher: bool = False,
    ) -> None:  # fmt: skip
        """`has_launcher`: the parent process is the launcher, or ends with it: this process must not outlive it."""
        self.rank, self.size, self.local_rank, self.time_out = channel.rank, channel.size, local_rank, time_out
        self._channel = channel
        self._parent = os.getppid() if has_launcher else None
        self._arrived: dict[Wanted, deque[Frame]] = defaultdict(deque)
        self._failed: dict[int, tuple[str, float]] = {}  # failed ranks, the reason, and when it was received
        self._left: set[int] = set()  # ranks that reached the end
        self._doing: list[Callable[[], str]] = []
        self._is_over = False

    # --- messages --------------------------------------------------------------------------------------------------------

    def send(self, peer: int, name: str, content: Frame) -> None:
        """Queue a message; it is sent while this process waits for others."""
        title = name.encode()
        self._channel.send(peer, b"".join((_HEADER.pack(_MESSAGE, len(title)), title, content)))

    def take(self, peer: int, name: str) -> Frame | None:
        """The next message of this name from a rank, in the order of sending; None if none has arrived."""
        found = self._arrived.get((peer, name))
        if not found:
            return None
        content = found.popleft()
        if not found:
            del self._arrived[peer, name]
        return content

    def receive(self, wanted: Sequence[Wanted]) -> list[Frame]:
        """The next message of each rank and name; returns when the messages of this process have been sent too.

        Raises:
            RuntimeFailure: MG0609, a rank has failed, is gone, or does not reply in time.
        """
        begin, found = time.monotonic(), dict[int, Frame]()
        while True:
            for place, (peer, name) in enumerate(wanted):
                if place not in found and (content := self.take(peer, name)) is not None:
                    found[place] = content
            missing = {wanted[place][0] for place in range(len(wanted)) if place not in found}
            missing |= set(self._channel.unsent()) - self._left
            if not missing:
                return [found[place] for place in range(len(wanted))]
            self.wait(missing, begin)

    def wait(self, missing: Iterable[int], begin: float) -> None:
        """Wait for arrivals while these ranks are missing.

        Raises as `receive`; the time-out counts from `begin`, a reading of `time.monotonic`.
        """
        ranks = sorted(missing)
        if gone := [rank for rank in ranks if rank in self._left]:
            raise self.failure(f"{ranks_text(gone)} reached the end of the program", ranks)
        self.look(ranks)
        self._deliver(_LOOK_SECONDS)
        if time.monotonic() - begin > self.time_out:
            raise self.failure(f"no reply within {self.time_out:g} s", ranks)

    def look(self, missing: Sequence[int] = ()) -> None:
        """Raises RuntimeFailure MG0609: a rank has failed or is gone. `missing` are the ranks that this one waits for.

        If another rank has failed, these may still reply or report their own failure: they are given time for it.
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
        """Receive what has arrived, without waiting."""
        self.require_whole()
        self._deliver(0.0)

    def all_gather(self, name: str, content: Frame, ranks: Sequence[int] | None = None) -> list[Frame]:
        """The contribution of each of the ranks (default: all) under this name, in their order. Raises as `receive`."""
        ranks = range(self.size) if ranks is None else ranks
        others = [rank for rank in ranks if rank != self.rank]
        for rank in others:
            self.send(rank, name, content)
        found = dict(zip(others, self.receive([(rank, name) for rank in others]), strict=True))
        return [found.get(rank, content) for rank in ranks]

    def finish(self) -> None:
        """Wait until all ranks reach the end: only then has any of them succeeded. Raises as `receive`."""
        with self.doing(lambda: "the end of the program"):
            self.all_gather("end", b"")

    # --- failures --------------------------------------------------------------------------------------------------------

    @contextmanager
    def doing(self, text: Callable[[], str]) -> Generator[None]:
        """A context that sets the operation named by failures: `all_reduce over x (block.mlir:12)`."""
        self._doing.append(text)
        try:
            yield
        finally:
            self._doing.pop()

    def fail(self, reason: str) -> None:
        """Send the failure of this rank to all others, and wait shortly for their reports."""
        if self._is_over:
            return
        for rank in self._others():
            self._channel.send(rank, _HEADER.pack(_FAILED, 0) + reason.encode(errors="replace"))
        end = time.monotonic() + PARTING_SECONDS
        while self._silent() and time.monotonic() < end:
            self._deliver(_LOOK_SECONDS)
        self._end()

    def close(self) -> None:
        """End the program on this rank. The others may go on, but get no more messages from it."""
        if self._is_over:
            return
        for rank in self._others():
            self._channel.send(rank, _HEADER.pack(_LEAVES, 0))
        begin = time.monotonic()
        while (self._silent() or self._channel.unsent()) and time.monotonic() - begin < self.time_out:
            self._deliver(_LOOK_SECONDS)
            if self._failed or set(self._channel.lost) - self._left:
                break
        self._end()

    def require_whole(self) -> None:
        """Raises RuntimeFailure MG0609 after the end."""
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
        """MG0609, with the operation of this rank, and the ranks it was waiting for."""
        waits = f" waits for {ranks_text(missing)}" if missing else ""
        place = f" in {self._doing[-1]()}" if self._doing else ""
        verb = waits or (" is" if place else "")
        return RuntimeFailure(Diagnostic("MG0609", f"rank {self.rank}{verb}{place}: {reason}"))

    def _others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.rank]

    def _silent(self) -> list[int]:
        """Connected ranks that have not reached the end."""
        return [rank for rank in self._others() if rank not in {*self._failed, *self._left, *self._channel.lost}]

    def _end(self) -> None:
        self._is_over = True
        self._channel.close(is_clean={*self._failed, *self._left} == {*self._others()})


def ranks_text(ranks: Sequence[int]) -> str:
    """`rank 1`, `ranks 0, 2, 3`"""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
