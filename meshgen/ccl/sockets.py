"""Frames between processes over TCP, one connection for each pair. Every frame has its length before it."""

from __future__ import annotations

import selectors
import socket
import struct
from collections import deque
from collections.abc import Mapping

from meshgen.ccl.channel import Frame

_LENGTH = struct.Struct("<Q")
_MOST_BYTES = 1 << 20  # that one call of the system reads


class _Peer:
    """A connection, its unsent bytes, and the start of an incomplete frame."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.outgoing: deque[memoryview] = deque()
        self.incoming = bytearray()

    def frames(self) -> list[Frame]:
        """The frames that are complete."""
        found: list[Frame] = []
        start = 0
        while len(self.incoming) - start >= _LENGTH.size:
            end = start + _LENGTH.size + _LENGTH.unpack_from(self.incoming, start)[0]
            if len(self.incoming) < end:
                break
            found.append(self.incoming[start + _LENGTH.size : end])
            start = end
        del self.incoming[:start]
        return found


class Sockets:
    """See `Channel`. A peer whose connection ends is lost."""

    def __init__(self, rank: int, connections: Mapping[int, socket.socket]) -> None:
        """`connections`: to each of the other processes."""
        self.rank, self.size = rank, len(connections) + 1
        self.lost: dict[int, str] = {}
        self._peers: dict[int, _Peer] = {}
        self._selector = selectors.DefaultSelector()
        for number, connection in connections.items():
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(connection, selectors.EVENT_READ, number)
            self._peers[number] = _Peer(connection)

    def send(self, peer: int, frame: Frame) -> None:
        if peer in self._peers:
            self._peers[peer].outgoing += (memoryview(_LENGTH.pack(len(frame))), memoryview(frame))
            self._send_pending(peer)

    def poll(self, seconds: float) -> list[tuple[int, Frame]]:
        found: list[tuple[int, Frame]] = []
        for key, events in self._selector.select(seconds):
            number: int = key.data
            if events & selectors.EVENT_WRITE:
                self._send_pending(number)
            if events & selectors.EVENT_READ and number in self._peers:
                found += [(number, frame) for frame in self._read(number)]
        return found

    def unsent(self) -> list[int]:
        return [number for number, peer in self._peers.items() if peer.outgoing]

    def close(self, *, is_clean: bool) -> None:
        """Close the connections; unsent bytes are dropped."""
        for number in list(self._peers):
            self._drop(number, "this process has closed the connection")
        self._selector.close()

    def _read(self, number: int) -> list[Frame]:
        """Read; returns the complete frames."""
        peer, reason = self._peers[number], ""
        try:
            while content := peer.connection.recv(_MOST_BYTES):
                peer.incoming += content
            reason = "its connection was closed"
        except BlockingIOError:
            pass
        except OSError as error:
            reason = f"its connection failed: {error.strerror or error}"
        found = peer.frames()
        if reason:
            self._drop(number, reason)
        return found

    def _send_pending(self, number: int) -> None:
        """Send as much as the system accepts now."""
        peer = self._peers[number]
        try:
            while peer.outgoing:
                sent = peer.connection.send(peer.outgoing[0])
                rest = peer.outgoing.popleft()[sent:]
                if rest:
                    peer.outgoing.appendleft(rest)
        except BlockingIOError:
            pass
        except OSError:  # earlier frames of the peer can still be read, before the end of its connection is seen
            peer.outgoing.clear()
        both = selectors.EVENT_READ | selectors.EVENT_WRITE
        self._selector.modify(peer.connection, both if peer.outgoing else selectors.EVENT_READ, number)

    def _drop(self, number: int, reason: str) -> None:
        peer = self._peers.pop(number)
        self._selector.unregister(peer.connection)
        peer.connection.close()
        self.lost[number] = reason
