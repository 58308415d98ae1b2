"""Exchange of byte frames between processes over TCP, with one connection per pair. A frame is preceded by its length."""

from __future__ import annotations

import selectors
import socket
import struct
from collections import deque
from collections.abc import Mapping

from meshgen.ccl.channel import Frame

_LENGTH = struct.Struct("<Q")
# bytes that one `recv` call reads at most (chosen: few system calls per large frame, 1 MiB of memory)
_MAX_READ_BYTES = 1 << 20


class _Peer:
    """The connection to one peer, with bytes that are not sent yet and the received part of an incomplete frame."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.outgoing: deque[memoryview] = deque()
        self.incoming = bytearray()

    def frames(self) -> list[Frame]:
        """Remove the complete frames from the received bytes, and return them."""
        frames: list[Frame] = []
        start = 0
        while len(self.incoming) - start >= _LENGTH.size:
            end = start + _LENGTH.size + _LENGTH.unpack_from(self.incoming, start)[0]
            if len(self.incoming) < end:
                break
            frames.append(self.incoming[start + _LENGTH.size : end])
            start = end
        del self.incoming[:start]
        return frames


class Sockets:
    """A `Channel` over TCP. A peer is lost when its connection ends."""

    def __init__(self, rank: int, connections: Mapping[int, socket.socket]) -> None:
        """Start as process `rank`. `connections` has an open connection to each of the other processes."""
        self.rank, self.size = rank, len(connections) + 1
        self.lost: dict[int, str] = {}
        self._peers: dict[int, _Peer] = {}
        self._selector = selectors.DefaultSelector()
        for peer, connection in connections.items():
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(connection, selectors.EVENT_READ, peer)
            self._peers[peer] = _Peer(connection)

    def send(self, peer: int, frame: Frame) -> None:
        if peer in self._peers:
            self._peers[peer].outgoing += (memoryview(_LENGTH.pack(len(frame))), memoryview(frame))
            self._send_pending(peer)

    def poll(self, seconds: float) -> list[tuple[int, Frame]]:
        frames: list[tuple[int, Frame]] = []
        for key, events in self._selector.select(seconds):
            peer: int = key.data
            if events & selectors.EVENT_WRITE:
                self._send_pending(peer)
            if events & selectors.EVENT_READ and peer in self._peers:
                frames += [(peer, frame) for frame in self._read(peer)]
        return frames

    def unsent(self) -> list[int]:
        return [rank for rank, connection in self._peers.items() if connection.outgoing]

    def close(self, *, is_clean: bool) -> None:
        """Close all connections and drop unsent bytes."""
        for peer in list(self._peers):
            self._drop(peer, "this process has closed the connection")
        self._selector.close()

    def _read(self, peer: int) -> list[Frame]:
        """Read the bytes that have arrived from `peer`, and return the frames that are now complete."""
        state, reason = self._peers[peer], ""
        try:
            while content := state.connection.recv(_MAX_READ_BYTES):
                state.incoming += content
            reason = "its connection was closed"
        except BlockingIOError:
            pass
        except OSError as error:
            reason = f"its connection failed: {error.strerror or error}"
        frames = state.frames()
        if reason:
            self._drop(peer, reason)
        return frames

    def _send_pending(self, peer: int) -> None:
        """Send as many pending bytes to `peer` as the operating system accepts without blocking."""
        state = self._peers[peer]
        try:
            while state.outgoing:
                sent = state.connection.send(state.outgoing[0])
                rest = state.outgoing.popleft()[sent:]
                if rest:
                    state.outgoing.appendleft(rest)
        except BlockingIOError:
            pass
        # Frames that the peer has sent must still be read, so only the frames to the peer are dropped.
        except OSError:
            state.outgoing.clear()
        both = selectors.EVENT_READ | selectors.EVENT_WRITE
        self._selector.modify(state.connection, both if state.outgoing else selectors.EVENT_READ, peer)

    def _drop(self, peer: int, reason: str) -> None:
        state = self._peers.pop(peer)
        self._selector.unregister(state.connection)
        state.connection.close()
        self.lost[peer] = reason
