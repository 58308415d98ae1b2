"""A `libnccl.so.2` that wraps the emulated NCCL, to test the prototypes in `meshgen.runtime.cuda.nccl`.

The library consists of jumps to pointers that Python has put into a table. Arguments arrive as in the C prototypes.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from ctypes import POINTER, Structure, c_char_p, c_int, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any

from meshgen.ccl.nccl_types import UNIQUE_ID_BYTES, Result
from meshgen.emulator.cuda.nccl import EmulatedNccl
from meshgen.runtime.cuda.api import LAUNCH_ORDER


class Comm(c_void_p):
    """`ncclComm_t`. ctypes passes an object of a derived type to callbacks unconverted, as the emulated NCCL expects."""


class Id(Structure):
    _fields_ = [("internal", ctypes.c_char * UNIQUE_ID_BYTES)]


class Config(Structure):
    """The leading fields of `ncclConfig_t` since 2.14, and the later fields up to the name of the communicator."""

    _fields_ = [("size", c_size_t), ("magic", c_uint), ("version", c_uint), ("customized", c_int * 4),
                ("netName", c_char_p), ("splitShare", c_int), ("trafficClass", c_int), ("commName", c_char_p)]  # fmt: skip


P, Z, N, S = c_void_p, c_size_t, c_int, c_void_p  # types of a pointer, a size, an int and a stream
# Prototypes of functions without outputs. Source: nccl.h of NCCL 2.32.3
PLAIN: dict[str, list[Any]] = {
    "ncclGroupStart": [], "ncclGroupEnd": [],
    "ncclCommFinalize": [Comm], "ncclCommDestroy": [Comm], "ncclCommAbort": [Comm],
    "ncclAllReduce": [P, P, Z, N, N, Comm, S], "ncclAllGather": [P, P, Z, N, Comm, S],
    "ncclReduceScatter": [P, P, Z, N, N, Comm, S], "ncclBroadcast": [P, P, Z, N, N, Comm, S],
    "ncclReduce": [P, P, Z, N, N, N, Comm, S], "ncclSend": [P, Z, N, N, Comm, S], "ncclRecv": [P, Z, N, N, Comm, S],
}  # fmt: skip
# functions that take a communicator and output an integer
INTEGERS = ("ncclCommCount", "ncclCommUserRank", "ncclCommCuDevice", "ncclCommGetAsyncError")
MAGIC, UNDEFINED = 0xCAFEBEEF, -(2**31)


class LibNccl:
    """The functions of an emulated NCCL as C function pointers."""

    def __init__(self, nccl: EmulatedNccl) -> None:
        self._nccl = nccl
        # communicators, with the output addresses to which their handles are written when the group ends
        self._pending: list[tuple[Any, c_void_p]] = []
        self._texts: dict[str, ctypes.Array[ctypes.c_char]] = {}
        functions: dict[str, tuple[Callable[..., Any], list[Any], Any]] = {
            name: (self._plain(name), types, N) for name, types in PLAIN.items()
        }
        for name in INTEGERS:
            functions[name] = (self._integer(name), [Comm, POINTER(N)], N)
        functions |= {
            "ncclGetVersion": (self._integer("ncclGetVersion"), [POINTER(N)], N),
            "ncclGetUniqueId": (self._unique_id, [POINTER(Id)], N),
            "ncclCommInitRankConfig": (self._init, [POINTER(c_void_p), N, Id, N, POINTER(Config)], N),
            "ncclCommSplit": (self._split, [Comm, N, N, POINTER(c_void_p), POINTER(Config)], N),
            "ncclGetErrorString": (lambda number: self._text(nccl.ncclGetErrorString(number)), [N], c_void_p),
            "ncclGetLastError": (lambda comm: self._text(nccl.ncclGetLastError()), [c_void_p], c_void_p),
        }
        self._pointers = {name: ctypes.CFUNCTYPE(result, *types)(f) for name, (f, types, result) in functions.items()}

    def install(self, library: ctypes.CDLL) -> None:
        for name, pointer in self._pointers.items():
            c_void_p.in_dll(library, f"table_{name}").value = ctypes.cast(pointer, c_void_p).value

    def _plain(self, name: str) -> Callable[..., int]:
        def call(*args: Any) -> int:
            (result,) = getattr(self._nccl, name)(*(0 if value is None else value for value in args))
            self._write_handles()
            return int(result)

        return call

    def _integer(self, name: str) -> Callable[..., int]:
        def call(*args: Any) -> int:
            result, value = getattr(self._nccl, name)(*args[:-1])
            if not result:
                args[-1][0] = value
            return int(result)

        return call

    def _unique_id(self, output: Any) -> int:
        result, value = self._nccl.ncclGetUniqueId()
        ctypes.memmove(output, value, UNIQUE_ID_BYTES)
        return int(result)

    def _init(self, output: Any, ranks: int, unique_id: Id, rank: int, config: Any) -> int:
        self._nccl.machine.orders_launches |= os.environ.get(LAUNCH_ORDER) == "1"
        return self._initialize(
            output, config, lambda name: self._nccl.ncclCommInitRank(ranks, bytes(unique_id), rank, name)
        )

    def _split(self, comm: Comm, color: int, key: int, output: Any, config: Any) -> int:
        return self._initialize(output, config, lambda name: self._nccl.ncclCommSplit(comm, color, key, name))

    def _initialize(self, output: Any, config: Any, make: Callable[[str], Any]) -> int:
        """Initialize a communicator. Like NCCL, reject a configuration with uninitialized or out-of-range options."""
        options = config[0]
        if options.size < ctypes.sizeof(Config) or options.magic != MAGIC:
            return Result.ncclInvalidArgument
        if {*options.customized, options.splitShare, options.trafficClass} != {
            UNDEFINED
        } or options.netName is not None:
            return Result.ncclInvalidArgument
        result, comm = make((options.commName or b"").decode())
        if not result:
            self._pending.append((ctypes.cast(output, c_void_p).value, comm))
            self._write_handles()
        return int(result)

    def _write_handles(self) -> None:
        """At the end of a group, write the handles of initialized communicators to their output addresses, like NCCL."""
        for address, comm in self._pending:
            if comm.value:
                c_void_p.from_address(address).value = comm.value
        self._pending = [pending for pending in self._pending if not pending[1].value]

    def _text(self, text: str) -> int:
        buffer = self._texts.setdefault(text, ctypes.create_string_buffer(text.encode()))
        return ctypes.addressof(buffer)


def build(folder: Path) -> Path:
    """Compile the library to `libnccl.so.2` in `folder`; requires gcc on x86-64."""
    names = [*PLAIN, *INTEGERS, "ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRankConfig", "ncclCommSplit",
             "ncclGetErrorString", "ncclGetLastError"]  # fmt: skip
    source, library = folder / "libnccl.c", folder / "libnccl.so.2"
    source.write_text("".join(
        f'void *table_{name};\n__asm__(".pushsection .text\\n.globl {name}\\n{name}: movq table_{name}@GOTPCREL(%rip), %r11\\njmp *(%r11)\\n.popsection\\n");\n'
        for name in names
    ))  # fmt: skip
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return library
