"""Exchange of byte frames between processes as MPI messages.

MPI does not report that a process has ended. A rank that waits for an ended process therefore times out, unless the
launcher first ends all ranks.
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

# Seconds between two checks for messages: the first pause, doubled up to the longest. During a pause, another rank can
# use the core. Chosen: short at first for latency, then 1 ms to save CPU time.
_FIRST_PAUSE, _LONGEST_PAUSE = 20e-6, 1e-3


def processes() -> MPI.Intracomm:
    """Return the communicator of all processes that the launcher started.

    Wait until all of them have called this function.

    `Mpi.close` finalizes MPI. The interpreter does not, because it would hang if other processes have ended. The GIL is
    released during the wait.

    Raises:
        MissingError: MG0602, mpi4py or an MPI library is missing.
    """
    try:
        import mpi4py

        if "mpi4py.MPI" not in sys.modules:
            mpi4py.rc.initialize = mpi4py.rc.finalize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # mpi4py raises RuntimeError if it finds no MPI library
        text = "ranks that mpiexec starts need mpi4py and an MPI library"
        hint = f"{install('mpi')}; or set MASTER_ADDR and MASTER_PORT, and they need neither"
        raise MissingError(Diagnostic("MG0602", text, hint=hint)) from error
    if not MPI.Is_initialized():
        _initialize(MPI)
    return MPI.COMM_WORLD


def _initialize(mpi: Any) -> None:
    """Initialize MPI as an import of mpi4py would, but release the GIL while MPI waits for other ranks."""
    # The extension module is linked with the MPI library, so its handle also resolves the library's symbols.
    library = ctypes.CDLL(mpi.__file__)
    if library.MPI_Init_thread(None, None, mpi.THREAD_MULTIPLE, ctypes.byref(ctypes.c_int())):
        raise MissingError(Diagnostic("MG0602", "the MPI library cannot be initialized"))
    # MPI then returns error codes, which mpi4py turns into exceptions.
    mpi.COMM_WORLD.Set_errhandler(mpi.ERRORS_RETURN)


class Mpi:
    """A `Channel` over MPI."""

    def __init__(self, communicator: MPI.Intracomm) -> None:
        from mpi4py import MPI

        self._mpi: Any = MPI
        # A duplicate of the communicator separates these messages from other MPI messages of the program.
        self._communicator = communicator.Dup()
        self.rank, self.size = communicator.rank, communicator.size
        self.lost: dict[int, str] = {}
        # (peer, request, frame): the frame must stay alive until it is sent
        self._outgoing: list[tuple[int, Any, Frame]] = []

    def send(self, peer: int, frame: Frame) -> None:
        with self._recording_loss(peer):
            self._outgoing.append((peer, self._communicator.Isend([frame, self._mpi.BYTE], peer), frame))

    def poll(self, seconds: float) -> list[tuple[int, Frame]]:
        end, pause = time.monotonic() + seconds, _FIRST_PAUSE
        while True:
            frames = [*self._received()]
            self._outgoing = [entry for entry in self._outgoing if not self._is_sent(*entry)]
            if frames or time.monotonic() > end:
                return frames
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def unsent(self) -> list[int]:
        self._outgoing = [entry for entry in self._outgoing if not self._is_sent(*entry)]
        return [peer for peer, _, _ in self._outgoing]

    def close(self, *, is_clean: bool) -> None:
        if is_clean and not self._mpi.Is_finalized():
            self._communicator.Free()
            self._mpi.Finalize()

    def _received(self) -> list[tuple[int, Frame]]:
        frames: list[tuple[int, Frame]] = []
        status = self._mpi.Status()
        with contextlib.suppress(self._mpi.Exception):  # a receive fails if its sender has ended
            while message := self._communicator.Improbe(status=status):
                frame = bytearray(status.Get_count(self._mpi.BYTE))
                message.Recv([frame, self._mpi.BYTE])
                frames.append((status.Get_source(), frame))
        return frames

    def _is_sent(self, peer: int, request: Any, frame: Frame) -> bool:
        with self._recording_loss(peer):
            return bool(request.Test())
        return True

    @contextlib.contextmanager
    def _recording_loss(self, peer: int) -> Any:
        """Return a context that records an MPI error as the loss of `peer`."""
        try:
            yield
        except self._mpi.Exception as error:
            self.lost[peer] = f"MPI fails: {error}"
