"""A server for the emulated GPU, used by the `libcuda.so.1` and `libnccl.so.2` of `emulated_gpu.c`.

Several processes may be clients, each with some of the ranks. Contexts and NCCL groups belong to a process. The server
answers a call that initializes communicators when all processes have made it.
"""

from __future__ import annotations

import ctypes
import selectors
import socket
import struct
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from meshgen.emulator.cuda.modules import Function
from meshgen.emulator.cuda.nccl import _Group
from meshgen.runtime.cuda.api import emulated
from meshgen.runtime.cuda.device import ParameterBlock
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.plan import NETWORK

NOT_READY = 600  # CUDA_ERROR_NOT_READY in cuda.h
HEAD = struct.Struct("<3Q")
COMMS = {"ncclAllReduce": 5, "ncclAllGather": 4, "ncclReduceScatter": 5, "ncclBroadcast": 5, "ncclReduce": 6, "ncclSend": 4, "ncclRecv": 4,
         # value: argument index of the communicator
         "ncclCommGetAsyncError": 0, "ncclCommDestroy": 0, "ncclCommAbort": 0}  # fmt: skip
NO_INTEGERS = ("cuDriverGetVersion", "cuDeviceGetCount", "ncclGetUniqueId", "ncclGroupStart")
Answer = tuple[int, int, bytes]


@dataclass
class Client:
    """A process with its current context, its stream captures, and its open NCCL group."""

    stream: socket.socket
    current: int | None = None
    captures: list[Any] = field(default_factory=list)
    group: Any = field(default_factory=_Group)


class Server:
    """Serves the emulated devices of a module, one per rank and all of one architecture, to `clients` processes."""

    def __init__(self, path: Path, module: LoadedModule, arch: str, clients: int = 1) -> None:
        self.api = emulated(module.ranks, arch)
        if any(item.stream == NETWORK for part in module.parts for item in part.schedule.items):
            self.api.order_collectives()  # the loader also requests ordered collectives from NCCL
        for part in module.parts:
            for kernel in part.manifest.kernels.values():
                for binary in kernel.binaries.values():
                    self.api.driver.register(bytes(part.members[binary.file]), bytes(part.members[binary.ptx]).decode())
        self._machine, self._nccl = self.api.machine, self.api.nccl
        self._alone, self._comms = clients == 1, list[Any]()
        self._waiting: list[Client] = []  # clients that wait until all ranks have joined the new communicators
        self.fault = ""
        self.calls: dict[str, int] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, args=(clients,), daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until all clients have disconnected."""
        self._thread.join(60)
        self._listener.close()

    def _serve(self, clients: int) -> None:
        """Answer requests in the order of arrival.

        The client that creates NCCL's unique id thus precedes the clients that use the id.
        """
        selector, remaining = selectors.DefaultSelector(), clients
        selector.register(self._listener, selectors.EVENT_READ)
        while remaining:
            for key, _ in selector.select():
                if key.data is None:
                    stream = self._listener.accept()[0]
                    selector.register(stream, selectors.EVENT_READ, Client(stream))
                elif not self._answer_request(key.data):
                    selector.unregister(key.data.stream)
                    key.data.stream.close()
                    remaining -= 1

    def _answer_request(self, client: Client) -> bool:
        """Answer one request, and return whether the client is still connected."""
        head = _read(client.stream, HEAD.size)
        if not head:
            return False
        name_bytes, count, nbytes = HEAD.unpack(head)
        name = _read(client.stream, name_bytes).decode()
        integers = struct.unpack(f"<{count}Q", _read(client.stream, 8 * count))
        content = _read(client.stream, nbytes)
        self.calls[name] = self.calls.get(name, 0) + 1
        self._machine.current, self._machine.captures = client.current, client.captures
        self._nccl._group = client.group
        answer = self._call(client, name, integers, content)
        client.current, client.group = self._machine.current, self._nccl._group
        if self._machine.fault and not self.fault:
            self.fault = str(self._machine.fault)
            sys.stderr.write(self.fault + "\n")
        if answer:
            _send(client.stream, answer)
        return True

    def _call(self, client: Client, name: str, integers: tuple[int, ...], content: bytes) -> Answer | None:
        special: Callable[..., Answer | None] | None = getattr(self, f"_{name}", None)
        if special:
            return special(client, integers, content)
        args: list[Any] = [] if name in NO_INTEGERS else [_signed(integer) for integer in integers]
        if name in COMMS:
            args[COMMS[name]] = self._comms[args[COMMS[name]] - 1]
        owner = self._nccl if name.startswith("nccl") else self.api.driver
        result, *values = getattr(owner, name)(*args)
        return int(result), int(values[0]) if values and values[0] is not None else 0, b""

    def _cuGetErrorName(self, client: Client, integers: tuple[int, ...], content: bytes) -> Answer:
        result, text = self.api.driver.cuGetErrorName(integers[0])
        return int(result), 0, text or b"unknown"

    def _cuGetErrorString(self, client: Client, integers: tuple[int, ...], content: bytes) -> Answer:
        result, text = self.api.driver.cuGetErrorString(integers[0])
        return int(result), 0, text or b"unknown"

    def _cuMemcpyHtoD(self, client: Client, integers: tuple[int, ...], content: bytes) -> Answer:
        array = np.frombuffer(content, np.uint8)
        return int(self.api.driver.cuMemcpyHtoD(integers[0], array.ctypes.data, len(content))[0]), 0, b""

    def _cuMemcpyDtoH(self, client: Client, integers: tuple[int, ...], content: bytes) -> Answer:
        array = np.empty(integers[1], np.uint8)
        result = int(self.api.driver.cuMemcpyDtoH(array.ctypes.data, *integers)[0])
        return result, 0, b"" if result else array.tobytes()

    def _cuModuleLoadData(self, client: Client, integers: tuple[int, ...], content: bytes) -> Answer:
        result, handle = self.api.driver.cuModuleLoadData(content)
        return int(result), handle or 0, b""

    def _cuModuleGetFunction(self, client: Client, integers: tuple[int, ...], content: bytes) -> Answer:
        result, handle = self.api.driver.cuModuleGetFunction(integers[0], content)
        if result:
            return int(result), 0, b""
        parameters = self._machine.find(handle, Function).entry.parameters
        return 0, handle, b"".join(struct.pack("<2Q", parameter.offset, parameter.size) for parameter in parameters)

    def _cuLaunchKernel(self, client: Client, integers: tuple[int, ...], content: bytes) -> Answer:
        values = struct.unpack(f"<{len(content) // 8}Q", content)
        sizes = [parameter.size for parameter in self._machine.find(integers[0], Function).entry.parameters]
        block = ParameterBlock(list(zip(values, sizes, strict=True)))
        return int(self.api.driver.cuLaunchKernel(*integers, block.address, 0)[0]), 0, b""

    def _cuStreamQuery(self, client: Client, integers: tuple[int, ...], content: bytes) -> Answer:
        result = int(self.api.driver.cuStreamQuery(integers[0])[0])
        if result == NOT_READY and self._alone and self.api.is_stuck:
            result = int(self.api.driver.cuStreamSynchronize(integers[0])[0])  # lets the emulator diagnose the deadlock
        return result, 0, b""

    def _ncclGetErrorString(self, client: Client, integers: tuple[int, ...], content: bytes) -> Answer:
        text = f"{self._nccl.ncclGetErrorString(integers[0])}; {self._nccl.last_error}"
        return 0, 0, text.encode()

    def _ncclGetUniqueId(self, client: Client, integers: tuple[int, ...], content: bytes) -> Answer:
        result, unique_id = self._nccl.ncclGetUniqueId()
        return int(result), 0, unique_id

    def _ncclCommInitRank(self, client: Client, integers: tuple[int, ...], content: bytes) -> Answer:
        result, comm = self._nccl.ncclCommInitRank(integers[0], content, integers[1], "all ranks")
        return self._with_comm(result, comm)

    def _ncclCommSplit(self, client: Client, integers: tuple[int, ...], content: bytes) -> Answer:
        comm, color, key = integers
        return self._with_comm(*self._nccl.ncclCommSplit(self._comms[comm - 1], _signed(color), key, ""))

    def _with_comm(self, result: int, comm: ctypes.c_void_p | None) -> Answer:
        self._comms.append(comm)
        return int(result), len(self._comms), b""

    def _ncclGroupEnd(self, client: Client, integers: tuple[int, ...], content: bytes) -> Answer | None:
        """End a group. Clients that initialize communicators get their answer when the last one arrives."""
        group = self._nccl._group
        if group.depth == 1 and group.arrivals:
            self._waiting.append(client)
            client.group = group
            arrivals = [arrival for waiting in self._waiting for arrival in waiting.group.arrivals]
            if len(arrivals) < self._machine.devices:
                return None
            group.arrivals = arrivals
            answer = int(self._nccl.ncclGroupEnd()[0]), 0, b""
            for other in self._waiting:
                if other is not client:
                    other.group = _Group()
                    _send(other.stream, answer)
            self._waiting = []
            return answer
        return int(self._nccl.ncclGroupEnd()[0]), 0, b""


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _read(stream: socket.socket, nbytes: int) -> bytes:
    """Read `nbytes` bytes, or return b"" if the other end has disconnected."""
    content = bytearray()
    while len(content) < nbytes:
        piece = stream.recv(min(nbytes - len(content), 1 << 20))
        if not piece:
            return b""
        content += piece
    return bytes(content)


def _send(stream: socket.socket, answer: Answer) -> None:
    result, value, content = answer
    stream.sendall(HEAD.pack(result & 0xFFFFFFFF, value & (1 << 64) - 1, len(content)) + content)
