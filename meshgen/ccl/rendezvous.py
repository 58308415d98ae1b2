"""Rendezvous of the processes of a program: each process listens on a port, and all pairs of processes connect.

Before they connect, processes exchange their ports through rank 0, which listens at a known address, or through a torch
store at that address. In each pair, the process with the higher rank connects to the other one.
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
# host, port, number of processes and token (a random text) of a process, as sent to the other processes
Record = dict[str, Any]
# (rank, size, record of this process, time-out in seconds) -> records of all ranks
Exchange = Callable[[int, int, Record, float], Mapping[int, Record]]

# Identifies connections between ranks of meshgen, because other programs may connect to the port.
_PROTOCOL = "meshgen-1"
_SIZE = struct.Struct("<I")
# bytes of the largest accepted record or table of records; bounds the memory that a foreign client can claim (chosen:
# above any table)
_MOST_BYTES = 1 << 24
# seconds within which a connected process must identify itself (chosen: 10 times the start of a process)
_IDENTIFY_SECONDS = 5.0
# Seconds between attempts to connect, and the shortest time-out of an attempt. Chosen: short compared with the start of
# a process, 0.5 s.
_RETRY_SECONDS = 0.1
_READ_ERRORS = (OSError, ValueError)


def connect(rank: int, size: int, address: Address, exchange: Exchange, time_out: float) -> Sockets:
    """Connect this process to all other processes, and return the connections.

    Raises:
        UsageError: MG0611, the address is unusable.
        RuntimeFailure: MG0609, not all processes connect in time, or they belong to different programs.
    """
    token = secrets.token_hex(16)
    with _listen_at((own_host(address), 0), size) as listener:
        host, port = listener.getsockname()[:2]
        records = exchange(rank, size, {"host": host, "port": port, "token": token, "size": size}, time_out)
        end = time.monotonic() + time_out
        connections = {peer: _connect_to_rank(rank, peer, records[peer], end) for peer in range(rank)}
        while len(connections) < size - 1:
            connection, record = _accept(listener, end, sorted({*range(rank + 1, size)} - {*connections}), rank)
            if record.get("token") == token and rank < record.get("rank", -1) < size:
                connections[record["rank"]] = connection
            else:
                connection.close()
    return Sockets(rank, connections)


def own_host(address: Address) -> str:
    """Return the address at which other processes reach this machine: that of the interface that routes to `address`."""
    try:
        family, kind, protocol, _, resolved = socket.getaddrinfo(*address, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(resolved)  # `connect` of a datagram socket sends no packet.
            return str(probe.getsockname()[0])
    except OSError as error:
        text = f"MASTER_ADDR is '{address[0]}', which cannot be reached: {error.strerror or error}"
        raise UsageError(
            Diagnostic("MG0611", text, hint="give the name or address of the machine of rank 0")
        ) from error


def through_rank_0(address: Address) -> Exchange:
    """Return an exchange in which rank 0 listens at `address`, collects all records, and sends them to all ranks."""

    def exchange(rank: int, size: int, record: Record, time_out: float) -> Mapping[int, Record]:
        if rank == 0:
            return _collect(address, size, record, time_out)
        return _send_to_rank_0(address, rank, record, time_out)

    return exchange


def _collect(address: Address, size: int, record: Record, time_out: float) -> Mapping[int, Record]:
    records, connections = {0: record}, list[socket.socket]()
    end, refusal = time.monotonic() + time_out, ""
    with _listen_at(address, size) as listener:
        try:
            while len(records) < size and not refusal:
                connection, caller = _accept(listener, end, sorted({*range(size)} - {*records}), 0)
                refusal = _refusal(caller, size, records)
                if caller:
                    connections.append(connection)
                    records[caller["rank"]] = caller
        except RuntimeFailure as failure:
            refusal = failure.diagnostics[0].message
        for connection in connections:
            with connection, contextlib.suppress(OSError):  # Rank 0 notices later that this rank is gone.
                _send_record(
                    connection, {"refusal": refusal} if refusal else {str(index): row for index, row in records.items()}
                )
    if refusal:
        raise RuntimeFailure(Diagnostic("MG0609", refusal, hint="start all ranks together, with the same variables"))
    return records


def _refusal(record: Record, size: int, records: Mapping[int, Record]) -> str:
    """Return the reason why rank 0 refuses a record, or an empty text if it accepts the record.

    An empty record, from a caller that is not a rank, is ignored, so the text is empty.
    """
    if not record:
        return ""
    if record["size"] != size:
        return f"rank {record['rank']} was started with {record['size']} processes, but rank 0 with {size}"
    return f"two processes have rank {record['rank']}" if record["rank"] in records else ""


def _send_to_rank_0(address: Address, rank: int, record: Record, time_out: float) -> Mapping[int, Record]:
    end = time.monotonic() + time_out
    with _connect_to_rank_0(address, rank, end) as connection:
        _send_record(connection, {"protocol": _PROTOCOL, "rank": rank, **record})
        connection.settimeout(max(end - time.monotonic(), _IDENTIFY_SECONDS))
        try:
            table = _receive_record(connection)
        except _READ_ERRORS as error:
            text = f"rank {rank} reached rank 0, but did not receive the table of ranks: {error}"
            raise RuntimeFailure(Diagnostic("MG0609", text)) from error
    if "refusal" in table:
        raise RuntimeFailure(Diagnostic("MG0609", f"rank 0 refused rank {rank}: {table['refusal']}"))
    return {int(index): row for index, row in table.items()}


def _connect_to_rank_0(address: Address, rank: int, end: float) -> socket.socket:
    """Connect to rank 0. Retry until `end`, because rank 0 may start later."""
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


def _connect_to_rank(rank: int, peer: int, record: Record, end: float) -> socket.socket:
    """Connect to rank `peer`, which is lower than `rank` and already listens."""
    try:
        connection = socket.create_connection(
            (record["host"], record["port"]), max(end - time.monotonic(), _RETRY_SECONDS)
        )
        _send_record(
            connection, {"protocol": _PROTOCOL, "rank": rank, "token": record["token"], "size": record["size"]}
        )
        return connection
    except OSError as error:
        text = f"rank {rank} cannot connect to rank {peer} ({record['host']}): {error.strerror or error}"
        raise RuntimeFailure(Diagnostic("MG0609", text)) from error


def _listen_at(address: Address, backlog: int) -> socket.socket:
    """Return a socket that listens at `address`.

    Raises:
        UsageError: MG0611, the address belongs to another machine or is in use.
    """
    try:
        family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server(address, family=family, backlog=backlog)
    except OSError as error:
        text = f"rank 0 cannot listen at MASTER_ADDR={address[0]}, MASTER_PORT={address[1]}: {error.strerror or error}"
        hint = "start rank 0 on that machine, and choose a port that is free"
        raise UsageError(Diagnostic("MG0611", text, hint=hint)) from error


def _accept(listener: socket.socket, end: float, missing: list[int], rank: int) -> tuple[socket.socket, Record]:
    """Accept the next connection and read its record.

    The record is empty if the other end is not a rank of meshgen.

    Raises:
        RuntimeFailure: MG0609, no connection until `end`.
    """
    listener.settimeout(max(end - time.monotonic(), 0.001))
    try:
        connection, _ = listener.accept()
    except TimeoutError as error:
        text = f"rank {rank} timed out waiting for {ranks_text(missing)} to start"
        raise RuntimeFailure(Diagnostic("MG0609", text)) from error
    connection.settimeout(_IDENTIFY_SECONDS)
    try:
        record = _receive_record(connection)
        is_rank = record.get("protocol") == _PROTOCOL and all(isinstance(record.get(n), int) for n in ("rank", "size"))
    except _READ_ERRORS:
        record, is_rank = {}, False
    if not is_rank:
        connection.close()
    return connection, record if is_rank else {}


def _send_record(connection: socket.socket, value: Mapping[str, Any]) -> None:
    text = json.dumps(value).encode()
    connection.sendall(_SIZE.pack(len(text)) + text)


def _receive_record(connection: socket.socket) -> Record:
    """Read the record that the other end sends. Raises OSError or ValueError if the record is malformed."""
    size: int = _SIZE.unpack(_receive_bytes(connection, _SIZE.size))[0]
    if size > _MOST_BYTES:
        raise ValueError(f"a record of {size} bytes")
    value = json.loads(_receive_bytes(connection, size))
    if not isinstance(value, dict):
        raise ValueError("no record")
    return value


def _receive_bytes(connection: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        content = connection.recv(count - len(received))
        if not content:
            raise ConnectionError("the connection was closed")
        received += content
    return bytes(received)
