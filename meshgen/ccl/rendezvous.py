"""Rendezvous of processes at one address: each listens on a port of its own, and the ports are exchanged.

exchange     the ports: through rank 0, which listens at the address, or a store of torch that serves there
connect      a connection for each pair, of the later rank to the earlier one
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any

from meshgen.ccl.sockets import Sockets
from meshgen.ccl.world import ranks_text
from meshgen.errors import Diagnostic, RuntimeFailure, UsageError

Address = tuple[str, int]  # host and port
Record = dict[str, Any]  # a process's record for the others
Exchange = Callable[[int, int, Record, float], Mapping[int, Record]]  # rank, size, own record, time-out in seconds

_PROTOCOL = "meshgen-1"  # the first bytes of a connection: other programs may connect to a port
_SIZE = struct.Struct("<I")
_MOST_BYTES = 1 << 24  # of a record or table
_KNOCK_SECONDS = 5.0  # seconds that a connected process may take to identify itself
_RETRY_SECONDS = 0.1  # seconds between two attempts to connect, and at least for each (chosen: short beside the start of a process, 0.5 s)
_Gone = (OSError, ValueError)


def connect(rank: int, size: int, address: Address, exchange: Exchange, time_out: float) -> Sockets:
    """Connections to all other processes.

    Raises:
        UsageError: MG0611, the address is unusable.
        RuntimeFailure: MG0609, not all processes connect in time, or they do not belong together.
    """
    token = secrets.token_hex(16)
    with _listening((own_host(address), 0), size) as listener:
        host, port = listener.getsockname()[:2]
        records = exchange(rank, size, {"host": host, "port": port, "token": token, "size": size}, time_out)
        end = time.monotonic() + time_out
        found = {peer: _call(rank, peer, records[peer], end) for peer in range(rank)}
        while len(found) < size - 1:
            connection, said = _knock(listener, end, sorted({*range(rank + 1, size)} - {*found}), rank)
            if said.get("token") == token and rank < said.get("rank", -1) < size:
                found[said["rank"]] = connection
            else:
                connection.close()
    return Sockets(rank, found)


def own_host(address: Address) -> str:
    """This machine's address for the other processes: that of the interface that routes to `address`."""
    try:
        family, kind, protocol, _, resolved = socket.getaddrinfo(*address, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(resolved)  # sends nothing
            return str(probe.getsockname()[0])
    except OSError as error:
        text = f"MASTER_ADDR is '{address[0]}', which cannot be reached: {error.strerror or error}"
        raise UsageError(
            Diagnostic("MG0611", text, hint="give the name or address of the machine of rank 0")
        ) from error


def through_rank_0(address: Address) -> Exchange:
    """Rank 0 listens at the address, collects the records and sends all of them to every rank."""

    def exchange(rank: int, size: int, record: Record, time_out: float) -> Mapping[int, Record]:
        if rank == 0:
            return _collect(address, size, record, time_out)
        return _tell(address, rank, record, time_out)

    return exchange


def _collect(address: Address, size: int, record: Record, time_out: float) -> Mapping[int, Record]:
    records, connections = {0: record}, list[socket.socket]()
    end, refusal = time.monotonic() + time_out, ""
    with _listening(address, size) as listener:
        try:
            while len(records) < size and not refusal:
                connection, said = _knock(listener, end, sorted({*range(size)} - {*records}), 0)
                refusal = _contradiction(said, size, records)
                if said:
                    connections.append(connection)
                    records[said["rank"]] = said
        except RuntimeFailure as failure:
            refusal = failure.diagnostics[0].message
        for connection in connections:
            with connection, contextlib.suppress(OSError):  # a rank that is gone by now is noticed later
                _say(connection, {"refusal": refusal} if refusal else {str(n): each for n, each in records.items()})
    if refusal:
        raise RuntimeFailure(Diagnostic("MG0609", refusal, hint="start all ranks together, with the same variables"))
    return records


def _contradiction(said: Record, size: int, records: Mapping[int, Record]) -> str:
    """Why a connection is refused; empty if it is accepted, or not from a rank."""
    if not said:
        return ""
    if said["size"] != size:
        return f"rank {said['rank']} was started with {said['size']} processes, but rank 0 with {size}"
    return f"two processes are rank {said['rank']}" if said["rank"] in records else ""


def _tell(address: Address, rank: int, record: Record, time_out: float) -> Mapping[int, Record]:
    end = time.monotonic() + time_out
    with _reached(address, rank, end) as connection:
        _say(connection, {"protocol": _PROTOCOL, "rank": rank, **record})
        connection.settimeout(max(end - time.monotonic(), _KNOCK_SECONDS))
        try:
            table = _heard(connection)
        except _Gone as error:
            text = f"rank {rank} reached rank 0, but did not receive the table of ranks: {error}"
            raise RuntimeFailure(Diagnostic("MG0609", text)) from error
    if "refusal" in table:
        raise RuntimeFailure(Diagnostic("MG0609", f"rank 0 refused rank {rank}: {table['refusal']}"))
    return {int(number): each for number, each in table.items()}


def _reached(address: Address, rank: int, end: float) -> socket.socket:
    """A connection to rank 0, which may start later."""
    while True:
        try:
            return socket.create_connection(address, timeout=max(end - time.monotonic(), _RETRY_SECONDS))
        except OSError as error:
            if time.monotonic() > end:
                where = f"MASTER_ADDR={address[0]}, MASTER_PORT={address[1]}"
                text = f"rank {rank} cannot reach rank 0 ({where}): {error.strerror or error}"
                raise RuntimeFailure(
                    Diagnostic("MG0609", text, hint="check that rank 0 runs and that its port is open")
                ) from error
            time.sleep(_RETRY_SECONDS)


def _call(rank: int, peer: int, record: Record, end: float) -> socket.socket:
    """A connection to an earlier rank, which listens."""
    try:
        connection = socket.create_connection(
            (record["host"], record["port"]), max(end - time.monotonic(), _RETRY_SECONDS)
        )
        _say(connection, {"protocol": _PROTOCOL, "rank": rank, "token": record["token"], "size": record["size"]})
        return connection
    except OSError as error:
        text = f"rank {rank} cannot connect to rank {peer} ({record['host']}): {error.strerror or error}"
        raise RuntimeFailure(Diagnostic("MG0609", text)) from error


def _listening(address: Address, most: int) -> socket.socket:
    """Raises UsageError MG0611 where the address is not this machine's, or in use."""
    try:
        family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server(address, family=family, backlog=most)
    except OSError as error:
        text = f"rank 0 cannot listen at MASTER_ADDR={address[0]}, MASTER_PORT={address[1]}: {error.strerror or error}"
        hint = "start rank 0 on that machine, and choose a port that is free"
        raise UsageError(Diagnostic("MG0611", text, hint=hint)) from error


def _knock(listener: socket.socket, end: float, missing: list[int], rank: int) -> tuple[socket.socket, Record]:
    """The next connection and its record; none, if it is not from a rank. Raises RuntimeFailure MG0609."""
    listener.settimeout(max(end - time.monotonic(), 0.001))
    try:
        connection, _ = listener.accept()
    except TimeoutError as error:
        text = f"rank {rank} timed out waiting for {ranks_text(missing)} to start"
        raise RuntimeFailure(Diagnostic("MG0609", text)) from error
    connection.settimeout(_KNOCK_SECONDS)
    try:
        said = _heard(connection)
        is_ours = said.get("protocol") == _PROTOCOL and all(isinstance(said.get(n), int) for n in ("rank", "size"))
    except _Gone:
        said, is_ours = {}, False
    if not is_ours:
        connection.close()
    return connection, said if is_ours else {}


def _say(connection: socket.socket, value: Mapping[str, Any]) -> None:
    text = json.dumps(value).encode()
    connection.sendall(_SIZE.pack(len(text)) + text)


def _heard(connection: socket.socket) -> Record:
    """Read a record. Raises OSError or ValueError if it is malformed."""
    size: int = _SIZE.unpack(_exactly(connection, _SIZE.size))[0]
    if size > _MOST_BYTES:
        raise ValueError(f"a record of {size} bytes")
    value = json.loads(_exactly(connection, size))
    if not isinstance(value, dict):
        raise ValueError("no record")
    return value


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        part = connection.recv(count - len(found))
        if not part:
            raise ConnectionError("the connection was closed")
        found += part
    return bytes(found)
