"""The NCCL functions that the executor uses, called with ctypes through one table of prototypes.

Functions return a tuple of result code and value, like those of cuda-bindings. A communicator is a `c_void_p`. If it
is created inside an NCCL group, it has its value only after the end of the group.

NVIDIA's `nccl4py` is not used: it needs cuda-core, and each of its releases supports one version of NCCL only.
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
OLDEST = 22800  # 2.28, the first release with communicator names and 8-bit floats
MAGIC, UNDEFINED = 0xCAFEBEEF, -(2**31)  # NCCL_API_MAGIC and NCCL_CONFIG_UNDEF_INT in nccl.h
# the NCCL version to which the fields of `_Config` belong: the library sets fields of later versions to their defaults
CONFIG_VERSION = 22700
Outcome = tuple[Any, ...]


class UniqueId(ctypes.Structure):
    """The C struct `ncclUniqueId`."""

    _fields_ = [("internal", ctypes.c_ubyte * UNIQUE_ID_BYTES)]


class Config(ctypes.Structure):
    """The first fields of the C struct `ncclConfig_t`. Its field `size` tells NCCL how many there are."""

    _fields_ = [
        ("size", c_size_t), ("magic", c_uint), ("version", c_uint), ("blocking", c_int), ("cgaClusterSize", c_int),
        ("minCTAs", c_int), ("maxCTAs", c_int), ("netName", c_char_p), ("splitShare", c_int), ("trafficClass", c_int),
        ("commName", c_char_p),
    ]  # fmt: skip

    @staticmethod
    def named(name: str) -> Config:
        """Return the default configuration with a name, which NCCL's messages use for the communicator."""
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
    """The functions of a loaded NCCL library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, arguments in PROTOTYPES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, c_int
        for name, arguments in TEXTS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, c_char_p
        self._library = library

    def __getattr__(self, name: str) -> Any:
        """Return a function of the library that has no output values."""
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
        unique_id = UniqueId()
        return Result(self._library.ncclGetUniqueId(byref(unique_id))), bytes(unique_id.internal)

    def ncclCommInitRank(self, nranks: int, commId: bytes, rank: int, name: str = "") -> Outcome:
        comm, config = c_void_p(), Config.named(name)
        id_ = UniqueId.from_buffer_copy(commId)
        return Result(self._library.ncclCommInitRankConfig(byref(comm), nranks, id_, rank, byref(config))), comm

    def ncclCommSplit(self, comm: c_void_p, color: int, key: int, name: str = "") -> Outcome:
        new_comm, config = c_void_p(), Config.named(name)
        return Result(self._library.ncclCommSplit(comm, color, key, byref(new_comm), byref(config))), new_comm

    def ncclCommCount(self, comm: c_void_p) -> Outcome:
        return self._call_for_int("ncclCommCount", comm)

    def ncclCommUserRank(self, comm: c_void_p) -> Outcome:
        return self._call_for_int("ncclCommUserRank", comm)

    def ncclCommCuDevice(self, comm: c_void_p) -> Outcome:
        return self._call_for_int("ncclCommCuDevice", comm)

    def ncclCommGetAsyncError(self, comm: c_void_p) -> Outcome:
        return self._call_for_int("ncclCommGetAsyncError", comm)

    def _call_for_int(self, name: str, *args: Any) -> Outcome:
        value = c_int()
        return Result(getattr(self._library, name)(*args, byref(value))), value.value


def load_nccl() -> Nccl:
    """Load NCCL from the installed package, or else from the system.

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
    """Format an NCCL version number, for example as `2.32.3`."""
    return f"{version // 10_000}.{version // 100 % 100}.{version % 100}"


def _packaged() -> str:
    """Return the path of the library in the `nvidia-nccl` package, or an empty text if the package is not installed."""
    if importlib.util.find_spec("nvidia") is None:
        return ""
    spec = importlib.util.find_spec("nvidia.nccl")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    files = [Path(folder) / "lib" / LIBRARY for folder in folders]
    return next((str(file) for file in files if file.is_file()), "")
