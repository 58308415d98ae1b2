"""Discovery of this process's rank from the variables that launchers set, and connection to the other ranks.

    torchrun              RANK, WORLD_SIZE, LOCAL_RANK; connects at MASTER_ADDR and MASTER_PORT, through torchrun's
    store
    mpiexec of Open MPI   OMPI_COMM_WORLD_RANK, ...: MPI messages
    mpiexec of MPICH      PMI_RANK, PMI_SIZE, MPI_LOCALRANKID: MPI messages
    srun                  SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID: MPI messages

If MASTER_ADDR and MASTER_PORT are set, sockets replace MPI. Together with RANK, WORLD_SIZE and LOCAL_RANK, they suffice
without any launcher.
"""

from __future__ import annotations

import atexit
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any

from meshgen.ccl.channel import Channel
from meshgen.ccl.mpi import Mpi, processes
from meshgen.ccl.rendezvous import Address, Exchange, Record, connect, through_rank_0
from meshgen.ccl.world import PARTING_SECONDS, TIME_OUT_SECONDS, World
from meshgen.errors import Diagnostic, MissingError, RuntimeFailure, UsageError
from meshgen.names import whole_number
from meshgen.packages import install
from meshgen.runtime.processes.watchdog import Watchdog
from meshgen.runtime.sizes import LAUNCHERS

TIME_OUT = "MESHGEN_TIME_OUT"  # environment variable with the time-out in seconds
# variable with the number of processes -> variables with the global and the local rank
_RANKS = {
    "WORLD_SIZE": ("RANK", "LOCAL_RANK"),
    "OMPI_COMM_WORLD_SIZE": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "PMI_SIZE": ("PMI_RANK", "MPI_LOCALRANKID"),
    "SLURM_STEP_NUM_TASKS": ("SLURM_PROCID", "SLURM_LOCALID"),
}
assert tuple(_RANKS) == LAUNCHERS
Environment = Mapping[str, str]


@dataclass(frozen=True)
class Place:
    """The rank of this process, as described by environment variables.

    Attributes:
        local_rank: index among the processes of this host, which is the index of its GPU; None if unset.
        address: address for the rendezvous of the ranks, or None if MPI connects them.
        through_store: torchrun's store listens at the address.
        has_launcher: the parent process is a launcher, not a shell that has set the variables.
    """

    rank: int
    size: int
    local_rank: int | None
    address: Address | None
    through_store: bool
    has_launcher: bool


def place_of(environment: Environment) -> Place | None:
    """Return the rank of this process, or None for a single process.

    Raises:
        UsageError: MG0611, variables are missing or contradict each other.
    """
    for name, (rank_name, local_name) in _RANKS.items():
        size = whole_number(environment.get(name, ""))
        if size is None:
            continue
        if size < 2 and not environment.get(rank_name):
            return None
        rank = _variable_number(environment, rank_name, f"{name} is {size}")
        if rank >= size:
            text = f"{rank_name} is {rank}, but {'there is 1 process' if size == 1 else f'there are {size} processes'} ({name})"
            raise _bad(text, f"a rank must be less than {name}")
        if size < 2:
            return None
        local_rank = 0 if _sees_one_gpu(environment) else whole_number(environment.get(local_name, ""))
        address = _address(environment, is_required=name == "WORLD_SIZE")
        through_store = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and name == "WORLD_SIZE"
        has_launcher = name != "WORLD_SIZE" or "TORCHELASTIC_RUN_ID" in environment
        return Place(rank, size, local_rank, address, through_store, has_launcher)
    if rank_text := environment.get("RANK"):  # Without this check, the process would run all ranks.
        _variable_number(environment, "WORLD_SIZE", f"RANK is {rank_text}")
    return None


def _sees_one_gpu(environment: Environment) -> bool:
    """Whether each process can use only one GPU, as with `srun --gpus-per-task 1`."""
    visible = environment.get("CUDA_VISIBLE_DEVICES", "")
    return bool(visible) and "," not in visible


def _address(environment: Environment, *, is_required: bool) -> Address | None:
    names = ("MASTER_ADDR", "MASTER_PORT")
    present = [name for name in names if environment.get(name)]
    if not present and not is_required:
        return None
    if missing := [name for name in names if name not in present]:
        text = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set, so the processes cannot find each other"
        raise _bad(text, "set MASTER_ADDR to the machine of rank 0, and MASTER_PORT to a port of it that is free")
    port = _variable_number(environment, "MASTER_PORT", "MASTER_ADDR is set")
    if not 0 < port < 1 << 16:
        raise _bad(f"MASTER_PORT is {port}", "ports are 1 to 65535")
    return environment["MASTER_ADDR"], port


def _variable_number(environment: Environment, name: str, because: str) -> int:
    text = environment.get(name, "")
    number = whole_number(text)
    if number is None:
        state = f"'{text}', not a number" if text else "not set"
        raise _bad(f"{because}, but {name} is {state}", f"start it with torchrun, mpiexec or srun, or set {name}")
    return number


def _bad(text: str, hint: str) -> UsageError:
    return UsageError(Diagnostic("MG0611", text, hint=hint))


# --- connecting -----------------------------------------------------------------------------------------------------------

_worlds: list[World] = []  # a list with the world of this process, or an empty list before its first use


def world(time_out: float | None = None) -> World | None:
    """Return all ranks, connected on first use, or None for a single process.

    Args:
        time_out: seconds, read on first use. Default: the variable MESHGEN_TIME_OUT, else `TIME_OUT_SECONDS`.
    Raises:
        UsageError: MG0611, the variables are incomplete or contradict each other.
        MissingError: MG0602, mpi4py or torch is missing.
        RuntimeFailure: MG0609, not all ranks connect in time.
    """
    if not _worlds and (process := place_of(os.environ)):
        limit = time_out_of(os.environ) if time_out is None else time_out
        _worlds.append(joined(process, limit))
        atexit.register(_worlds[0].close)
    return _worlds[0] if _worlds else None


def joined(process: Place, time_out: float) -> World:
    """Connect to all ranks if this has not been done, and return the ranks. Raises the same errors as `world`."""
    channel = _connected(process, time_out)
    return World(channel, local_rank=process.local_rank, time_out=time_out, has_launcher=process.has_launcher)


def time_out_of(environment: Environment) -> float:
    """Return the seconds after which waiting for a rank fails: MESHGEN_TIME_OUT, or else `TIME_OUT_SECONDS`.

    Raises:
        UsageError: MG0611, the variable is not a positive number.
    """
    text = environment.get(TIME_OUT, "")
    try:
        seconds = float(text or TIME_OUT_SECONDS)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e9:
        raise _bad(f"{TIME_OUT} is '{text}'", "give a number of seconds, such as 60")
    return seconds


def _connected(process: Place, time_out: float) -> Channel:
    if process.address is None:
        with _start_of_mpi(process, time_out):
            communicator = processes()
            channel = Mpi(communicator)
        if (communicator.rank, communicator.size) != (process.rank, process.size):
            text = (
                f"this is rank {process.rank} of {process.size} processes for the launcher, but rank {communicator.rank} of "
                f"{communicator.size} for mpi4py"
            )
            raise _bad(text, "mpi4py uses another MPI library than the launcher: MPI4PY_LIBMPI can name the launcher's")
        return channel
    exchange = _through_store(process.address) if process.through_store else through_rank_0(process.address)
    return connect(process.rank, process.size, process.address, exchange, time_out)


def _start_of_mpi(process: Place, time_out: float) -> Watchdog:
    """Return a watchdog context for the start of MPI, which waits for all ranks without a time-out."""

    def failure(reason: str) -> RuntimeFailure:
        text = f"rank {process.rank} waits for all {process.size} ranks in the start of MPI: {reason}"
        return RuntimeFailure(
            Diagnostic("MG0609", text, hint="see whether a rank has ended or hangs before it starts MPI")
        )

    # A launcher kills all ranks when the first one ends, so the other ranks get time to report first.
    return Watchdog(time_out, failure, lambda _: time.sleep(PARTING_SECONDS), has_launcher=process.has_launcher)


def _through_store(address: Address) -> Exchange:
    """Return an exchange through torchrun's store, which already listens at the address."""

    def exchange(rank: int, size: int, record: Record, time_out: float) -> Mapping[int, Record]:
        try:
            distributed: Any = import_module("torch.distributed")
        except ImportError as error:
            text = "torchrun started this process, but torch cannot be imported"
            raise MissingError(Diagnostic("MG0602", text, hint=install("torch"))) from error
        host, port = address
        trial = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        try:
            store: Any = distributed.TCPStore(
                host, port, is_master=False, timeout=timedelta(seconds=time_out), wait_for_workers=False
            )
            store.set(f"meshgen/{trial}/{rank}", json.dumps(record))
            return {peer: json.loads(store.get(f"meshgen/{trial}/{peer}")) for peer in range(size)}
        except RuntimeError as error:  # The errors of torch are subclasses of RuntimeError.
            text = f"rank {rank} cannot find all {size} ranks in torchrun's store: {str(error).splitlines()[0]}"
            raise RuntimeFailure(Diagnostic("MG0609", text)) from error

    return exchange
