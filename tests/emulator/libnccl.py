"""A `libnccl.so.2` in front of the emulated NCCL, so that the table of prototypes of `meshgen.runtime.cuda.nccl` can be run on it.

The library is jumps to pointers that Python has put into a table, so arguments arrive as the C prototypes below say.
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
    """`ncclComm_t`; callbacks get objects of derived types unconverted, as the emulated NCCL takes them."""


class Id(Structure):
    _fields_ = [("internal", ctypes.c_char * UNIQUE_ID_BYTES)]


class Config(Structure):
    """The fields that every `ncclConfig_t` since 2.14 begins with, and the name among those that came later."""

    _fields_ = [("size", c_size_t), ("magic", c_uint), ("version", c_uint), ("customized", c_int * 4),
                ("netName", c_char_p), ("splitShare", c_int), ("trafficClass", c_int), ("commName", c_char_p)]  # fmt: skip


P, Z, N, S = c_void_p, c_size_t, c_int, c_void_p  # pointer, size, int, stream
# Prototypes of functions without outputs. Source: nccl.h of NCCL 2.32.3
PLAIN: dict[str, list[Any]] = {
    "ncclGroupStart": [], "ncclGroupEnd": [],
    "ncclCommFinalize": [Comm], "ncclCommDestroy": [Comm], "ncclCommAbort": [Comm],
    "ncclAllReduce": [P, P, Z, N, N, Comm, S], "ncclAllGather": [P, P, Z, N, Comm, S],
    "ncclReduceScatter": [P, P, Z, N, N, Comm, S], "ncclBroadcast": [P, P, Z, N, N, Comm, S],
    "ncclReduce": [P, P, Z, N, N, N, Comm, S], "ncclSend": [P, Z, N, N, Comm, S], "ncclRecv": [P, Z, N, N, Comm, S],
}  # fmt: skip
INTEGERS = ("ncclCommCount", "ncclCommUserRank", "ncclCommCuDevice", "ncclCommGetAsyncError")  # of a communicator
MAGIC, UNDEFINED = 0xCAFEBEEF, -(2**31)


class LibNccl:
    """The functions of an emulated NCCL as C function pointers."""

    def __init__(self, nccl: EmulatedNccl) -> None:
        self._nccl = nccl
        self._made: list[tuple[Any, c_void_p]] = []  # communicators that have their values when the group is over
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
            self._tell_handles()
            return int(result)

        return call

    def _integer(self, name: str) -> Callable[..., int]:
        def call(*args: Any) -> int:
            result, value = getattr(self._nccl, name)(*args[:-1])
            if not result:
                args[-1][0] = value
            return int(result)

        return call

    def _unique_id(self, place: Any) -> int:
        result, value = self._nccl.ncclGetUniqueId()
        ctypes.memmove(place, value, UNIQUE_ID_BYTES)
        return int(result)

    def _init(self, place: Any, ranks: int, own: Id, rank: int, config: Any) -> int:
        self._nccl.machine.orders_launches |= os.environ.get(LAUNCH_ORDER) == "1"
        return self._made_by(place, config, lambda name: self._nccl.ncclCommInitRank(ranks, bytes(own), rank, name))

    def _split(self, comm: Comm, color: int, key: int, place: Any, config: Any) -> int:
        return self._made_by(place, config, lambda name: self._nccl.ncclCommSplit(comm, color, key, name))

    def _made_by(self, place: Any, config: Any, make: Callable[[str], Any]) -> int:
        """NCCL refuses a configuration that was not initialised, and options outside of their ranges."""
        given = config[0]
        if given.size < ctypes.sizeof(Config) or given.magic != MAGIC:
            return Result.ncclInvalidArgument
        if {*given.customized, given.splitShare, given.trafficClass} != {UNDEFINED} or given.netName is not None:
            return Result.ncclInvalidArgument
        result, comm = make((given.commName or b"").decode())
        if not result:
            self._made.append((ctypes.cast(place, c_void_p).value, comm))
            self._tell_handles()
        return int(result)

    def _tell_handles(self) -> None:
        """Write those communicators that have been made, as NCCL does at the end of the group."""
        for address, comm in self._made:
            if comm.value:
                c_void_p.from_address(address).value = comm.value
        self._made = [each for each in self._made if not each[1].value]

    def _text(self, text: str) -> int:
        kept = self._texts.setdefault(text, ctypes.create_string_buffer(text.encode()))
        return ctypes.addressof(kept)


def build(folder: Path) -> Path:
    """The library, as `libnccl.so.2` in a folder. Needs gcc on x86-64."""
    names = [*PLAIN, *INTEGERS, "ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRankConfig", "ncclCommSplit",
             "ncclGetErrorString", "ncclGetLastError"]  # fmt: skip
    source, library = folder / "libnccl.c", folder / "libnccl.so.2"
    source.write_text("".join(
        f'void *table_{name};\n__asm__(".pushsection .text\\n.globl {name}\\n{name}: movq table_{name}@GOTPCREL(%rip), %r11\\njmp *(%r11)\\n.popsection\\n");\n'
        for name in names
    ))  # fmt: skip
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return library
