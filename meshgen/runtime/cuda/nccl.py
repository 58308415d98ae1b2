"""NCCL as the executor uses it: one table of prototypes over the library of the `nvidia-nccl` package.

Functions return a tuple of their result code and their value, like those of cuda-bindings. A communicator is a `c_void_p`;
inside a group it has its value when the group is over.

NVIDIA's own `nccl4py` is not used: it needs cuda-core, and each of its releases is for one version of NCCL.
"""

from __future__ import annotations

import ctypes
import importlib.util
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any

from meshgen.ccl.nccl_types import UNIQUE_ID_BYTES, Result
from meshgen.errors import Diagnostic, MissingError
from meshgen.packages import install

LIBRARY = "libnccl.so.2"
OLDEST = 22800  # 2.28, which takes the names of communicators and 8-bit floats
MAGIC, UNDEFINED = 0xCAFEBEEF, -(2**31)  # NCCL_API_MAGIC, NCCL_CONFIG_UNDEF_INT
CONFIG_VERSION = 22700  # of the fields of `Config`: the library gives later ones their defaults
Outcome = tuple[Any, ...]


class UniqueId(ctypes.Structure):
    """`ncclUniqueId`"""

    _fields_ = [("internal", ctypes.c_ubyte * UNIQUE_ID_BYTES)]


class Config(ctypes.Structure):
    """The first fields of `ncclConfig_t`, which says how many it has."""

    _fields_ = [
        ("size", c_size_t), ("magic", c_uint), ("version", c_uint), ("blocking", c_int), ("cgaClusterSize", c_int),
        ("minCTAs", c_int), ("maxCTAs", c_int), ("netName", c_char_p), ("splitShare", c_int), ("trafficClass", c_int),
        ("commName", c_char_p),
    ]  # fmt: skip

    @staticmethod
    def named(name: str) -> Config:
        """Defaults, and the name that NCCL's messages give the communicator."""
        undefined = dict.fromkeys(
            ("blocking", "cgaClusterSize", "minCTAs", "maxCTAs", "splitShare", "trafficClass"), UNDEFINED
        )
        return Config(ctypes.sizeof(Config), MAGIC, CONFIG_VERSION, commName=name.encode() or None, **undefined)


PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "ncclGetVersion": (POINTER(c_int),),
    "ncclGetUniqueId": (POINTER(UniqueId),),
    "ncclCommInitRankConfig": (POINTER(c_void_p), c_int, UniqueId, c_int, POINTER(Config)),
    "ncclCommSplit": (c_void_p, c_int, c_int, POINTER(c_void_p), POINTER(Config)),
    "ncclCommCount": (c_void_p, POINTER(c_int)),
    "ncclCommUserRank": (c_void_p, POINTER(c_int)),
    "ncclCommCuDevice": (c_void_p, POINTER(c_int)),
    "ncclCommGetAsyncError": (c_void_p, POINTER(c_int)),
    "ncclCommFinalize": (c_void_p,),
    "ncclCommDestroy": (c_void_p,),
    "ncclCommAbort": (c_void_p,),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
    "ncclAllReduce": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "ncclAllGather": (c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p),
    "ncclReduceScatter": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "ncclBroadcast": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "ncclReduce": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, c_void_p),
    "ncclSend": (c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "ncclRecv": (c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
}
TEXTS: dict[str, tuple[Any, ...]] = {"ncclGetErrorString": (c_int,), "ncclGetLastError": (c_void_p,)}


class Nccl:
    """The functions of a library that was loaded."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, arguments in PROTOTYPES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, c_int
        for name, arguments in TEXTS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, c_char_p
        self._library = library

    def __getattr__(self, name: str) -> Any:
        """A function without an output."""
        if name not in PROTOTYPES:
            raise AttributeError(name)
        function = getattr(self._library, name)

        def call(*args: Any) -> Outcome:
            return (Result(function(*args)),)

        setattr(self, name, call)
        return call

    def ncclGetErrorString(self, result: int) -> str:
        return self._library.ncclGetErrorString(result).decode()

    def ncclGetLastError(self, comm: c_void_p | None = None) -> str:
        return self._library.ncclGetLastError(comm).decode()

    def ncclGetVersion(self) -> Outcome:
        return self._call_for_int("ncclGetVersion")

    def ncclGetUniqueId(self) -> Outcome:
        found = UniqueId()
        return Result(self._library.ncclGetUniqueId(byref(found))), bytes(found.internal)

    def ncclCommInitRank(self, nranks: int, commId: bytes, rank: int, name: str = "") -> Outcome:
        comm, config = c_void_p(), Config.named(name)
        id_ = UniqueId.from_buffer_copy(commId)
        return Result(self._library.ncclCommInitRankConfig(byref(comm), nranks, id_, rank, byref(config))), comm

    def ncclCommSplit(self, comm: c_void_p, color: int, key: int, name: str = "") -> Outcome:
        found, config = c_void_p(), Config.named(name)
        return Result(self._library.ncclCommSplit(comm, color, key, byref(found), byref(config))), found

    def ncclCommCount(self, comm: c_void_p) -> Outcome:
        return self._call_for_int("ncclCommCount", comm)

    def ncclCommUserRank(self, comm: c_void_p) -> Outcome:
        return self._call_for_int("ncclCommUserRank", comm)

    def ncclCommCuDevice(self, comm: c_void_p) -> Outcome:
        return self._call_for_int("ncclCommCuDevice", comm)

    def ncclCommGetAsyncError(self, comm: c_void_p) -> Outcome:
        return self._call_for_int("ncclCommGetAsyncError", comm)

    def _call_for_int(self, name: str, *args: Any) -> Outcome:
        found = c_int()
        return Result(getattr(self._library, name)(*args, byref(found))), found.value


def load_nccl() -> Nccl:
    """The library of the installed package, or else the system's.

    Raises:
        MissingError: MG0602, NCCL is missing or too old.
    """
    hint = install("cuda12")
    try:
        nccl = Nccl(ctypes.CDLL(_packaged() or LIBRARY))
    except (OSError, AttributeError) as error:
        raise MissingError(Diagnostic("MG0602", f"NCCL is missing or too old: {error}", hint=hint)) from error
    _, version = nccl.ncclGetVersion()
    if version < OLDEST:
        text = f"NCCL {release(version)} is too old: {release(OLDEST)} or later is needed"
        raise MissingError(Diagnostic("MG0602", text, hint=hint))
    return nccl


def release(version: int) -> str:
    """`2.32.3`, of NCCL's number."""
    return f"{version // 10_000}.{version // 100 % 100}.{version % 100}"


def _packaged() -> str:
    """The library in the `nvidia-nccl` package; empty where that is not installed."""
    if importlib.util.find_spec("nvidia") is None:
        return ""
    spec = importlib.util.find_spec("nvidia.nccl")
    places = [] if spec is None else list(spec.submodule_search_locations or [])
    files = [Path(place) / "lib" / LIBRARY for place in places]
    return next((str(file) for file in files if file.is_file()), "")
