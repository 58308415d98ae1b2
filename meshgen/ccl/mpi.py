"""Frames between processes as messages of MPI.

MPI does not report that a process is gone: a rank that waits for it times out, unless the launcher ends all before.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import time
from typing import TYPE_CHECKING, Any

from meshgen.ccl.channel import Frame
from meshgen.errors import Diagnostic, MissingError
from meshgen.packages import install

if TYPE_CHECKING:
    from mpi4py import MPI

_FIRST_PAUSE, _LONGEST_PAUSE = 20e-6, 1e-3  # seconds between two looks: lets other ranks of the core run


def processes() -> MPI.Intracomm:
    """Return the communicator of all processes of the launcher, when all of them have called it.

    MPI is ended by `Mpi.close`, not by the interpreter, which would hang on processes that are gone. Other threads of Python run while this
    one waits for the others. Raises MissingError MG0602 without mpi4py or an MPI library.
    """
    try:
        import mpi4py

        if "mpi4py.MPI" not in sys.modules:
            mpi4py.rc.initialize = mpi4py.rc.finalize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # mpi4py raises the latter where it finds no library
        text = "ranks that mpiexec starts need mpi4py and an MPI library"
        hint = f"{install('mpi')}; or set MASTER_ADDR and MASTER_PORT, and they need neither"
        raise MissingError(Diagnostic("MG0602", text, hint=hint)) from error
    if not MPI.Is_initialized():
        _initialize(MPI)
    return MPI.COMM_WORLD


def _initialize(mpi: Any) -> None:
    """Initialize MPI as mpi4py does when it is imported, but without the interpreter's lock, which mpi4py holds while it waits for the others."""
    library = ctypes.CDLL(
        mpi.__file__
    )  # a handle also finds the functions of the libraries that the module was linked with
    if library.MPI_Init_thread(None, None, mpi.THREAD_MULTIPLE, ctypes.byref(ctypes.c_int())):
        raise MissingError(Diagnostic("MG0602", "the MPI library cannot be initialized"))
    mpi.COMM_WORLD.Set_errhandler(mpi.ERRORS_RETURN)  # errors of calls become exceptions


class Mpi:
    """See `Channel`."""

    def __init__(self, communicator: MPI.Intracomm) -> None:
        from mpi4py import MPI

        self._mpi: Any = MPI
        self._own = communicator.Dup()  # separate from other messages of the program
        self.rank, self.size = communicator.rank, communicator.size
        self.lost: dict[int, str] = {}
        self._outgoing: list[tuple[int, Any, Frame]] = []  # peer, request, and the memory that it reads

    def send(self, peer: int, frame: Frame) -> None:
        with self._noting(peer):
            self._outgoing.append((peer, self._own.Isend([frame, self._mpi.BYTE], peer), frame))

    def poll(self, seconds: float) -> list[tuple[int, Frame]]:
        end, pause = time.monotonic() + seconds, _FIRST_PAUSE
        while True:
            found = [*self._received()]
            self._outgoing = [each for each in self._outgoing if not self._is_sent(*each)]
            if found or time.monotonic() > end:
                return found
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def unsent(self) -> list[int]:
        self._outgoing = [each for each in self._outgoing if not self._is_sent(*each)]
        return [peer for peer, _, _ in self._outgoing]

    def close(self, *, is_clean: bool) -> None:
        if is_clean and not self._mpi.Is_finalized():
            self._own.Free()
            self._mpi.Finalize()

    def _received(self) -> list[tuple[int, Frame]]:
        found: list[tuple[int, Frame]] = []
        status = self._mpi.Status()
        with contextlib.suppress(self._mpi.Exception):  # of peers that are gone
            while message := self._own.Improbe(status=status):
                frame = bytearray(status.Get_count(self._mpi.BYTE))
                message.Recv([frame, self._mpi.BYTE])
                found.append((status.Get_source(), frame))
        return found

    def _is_sent(self, peer: int, request: Any, frame: Frame) -> bool:
        with self._noting(peer):
            return bool(request.Test())
        return True

    @contextlib.contextmanager
    def _noting(self, peer: int) -> Any:
        """An error of MPI is the loss of the peer."""
        try:
            yield
        except self._mpi.Exception as error:
            self.lost[peer] = f"MPI fails: {error}"
