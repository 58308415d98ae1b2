"""NCCL on real or emulated GPUs: all GPUs of this machine in one process, or one GPU in each process of a launcher.

Emulated GPUs compute the same results through the same calls of the CUDA driver and NCCL. They measure no times.
"""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

from meshgen.benchmarks.collectives.cases import (
    GROUPS,
    Case,
    Layout,
    count_wrong,
    layout_of,
    lower_call,
    random_operand,
)
from meshgen.benchmarks.collectives.engines import Effort, Outcome
from meshgen.ccl.steps import OPERAND, BufferRef
from meshgen.ccl.world import World
from meshgen.errors import Diagnostic, MissingError, RuntimeFailure, UsageError
from meshgen.ir.graph import DTYPES
from meshgen.runtime.cuda.api import Api, emulated, real, real_of
from meshgen.runtime.cuda.collectives import RankWork, run_lowered
from meshgen.runtime.cuda.communicators import Communicators
from meshgen.runtime.cuda.device import Device
from meshgen.runtime.cuda.nccl import release
from meshgen.runtime.plan import COMMUNICATION
from meshgen.runtime.processes.bootstrap import world as connected

EMULATED_RANKS = 4  # number of emulated GPUs unless the user passes -g (chosen: fast to emulate, more than a pair)


def nccl_engine(is_emulated: bool, ranks: int | None, arch: str, most_bytes: int) -> NcclEngine:
    """Create an engine on real or emulated GPUs. Arguments and errors are those of `engine_of`."""
    world = connected()
    if world and ranks is not None:
        text = f"-g is the number of GPUs of one process, but a launcher has started {world.size}, with one GPU each"
        raise UsageError(Diagnostic("MG0001", text))
    if is_emulated:
        api = emulated(1 if world else ranks or EMULATED_RANKS, arch, world=world)
    else:
        api = real_of(world) if world else real(ranks or 1)
    if world:
        ordinal = 0 if is_emulated else world.local_rank or 0
        return NcclEngine(api, {world.rank: Device(api, ordinal)}, most_bytes, world)
    count = ranks or int(api.cuda("cuDeviceGetCount"))
    if count < 2:
        hint = "start a process for each GPU with torchrun or mpiexec, or give --engine emulated or simulated"
        raise MissingError(Diagnostic("MG0603", "collectives need at least two GPUs, but there is one", hint=hint))
    return NcclEngine(api, {rank: Device(api, rank) for rank in range(count)}, most_bytes)


class NcclEngine:
    """An `Engine` that measures NCCL."""

    def __init__(self, api: Api, devices: Mapping[int, Device], most_bytes: int, world: World | None = None) -> None:
        """`devices`: the GPUs of this process by rank. Raises RuntimeFailure MG0604, MissingError MG0602."""
        self._api, self._devices, self._world = api, devices, world
        if world:
            with world.doing(lambda: "the exchange of the hosts' names"):
                hosts = [bytes(name).decode() for name in world.all_gather("host", platform.node().encode())]
            self.layout = layout_of(hosts)
        else:
            self.layout = Layout(len(devices), len(devices))
        self.reports = world is None or not world.rank
        self._mesh = self.layout.mesh
        calls = [(self._mesh, 0, GROUPS[group]) for group in self.layout.groups]
        self._comms = Communicators(api, devices, calls, world)
        self._memory = {
            rank: [device.allocate(most_bytes, text) for text in ("operand", "result")]
            for rank, device in devices.items()
        }
        self.facts: Mapping[str, Any] = {"nccl": release(api.comm("ncclGetVersion"))}

    def measure(self, case: Case, in_place: bool, effort: Effort) -> Outcome:
        """Raises RuntimeFailure: MG0604, MG0608, MG0609."""
        works = {rank: self._work(case, rank, in_place) for rank in self._devices}
        for rank in works:
            self._fill(case, rank, in_place)
        self._run(works, effort.warm_up)
        self._wait()
        samples = [self._sample(works, effort.iterations) for _ in range(effort.samples)]
        wrong_count = self._wrong(case, works, in_place) if effort.checks else None
        return Outcome(() if self._api.machine else tuple(self._slowest(samples)), wrong_count)

    def _work(self, case: Case, rank: int, in_place: bool) -> RankWork:
        device, (first, second) = self._devices[rank], self._memory[rank]

        def start_of(buffer: BufferRef) -> int:
            return first if buffer == OPERAND else second

        steps = lower_call(case, self._mesh, rank, in_place)
        return RankWork(device, device.streams[COMMUNICATION], steps, start_of)

    def _run(self, works: Mapping[int, RankWork], times: int) -> None:
        for _ in range(times):
            run_lowered(self._api, self._comms, works)

    def _sample(self, works: Mapping[int, RankWork], iterations: int) -> float:
        """Return the seconds per call for `iterations` consecutive calls, on the slowest GPU of this process."""
        self._record("begin")
        self._run(works, iterations)
        self._record("end")
        self._wait()
        elapsed = [self._elapsed(device) for device in self._devices.values()]
        return max(elapsed) * 1e-3 / iterations

    def _record(self, key: str) -> None:
        for device in self._devices.values():
            event = device.event(key, is_timed=True)
            self._api.cuda("cuEventRecord", event, device.streams[COMMUNICATION])

    def _elapsed(self, device: Device) -> float:
        """Return the milliseconds between the start event and the end event of a device."""
        ends = (device.event(key, is_timed=True) for key in ("begin", "end"))
        return float(self._api.cuda("cuEventElapsedTime", *ends))

    def _wait(self) -> None:
        for device in self._devices.values():
            device.use()
            self._api.cuda("cuStreamSynchronize", device.streams[COMMUNICATION])

    def _slowest(self, samples: list[float]) -> list[float]:
        """Return the largest time of each sample over all processes."""
        if not self._world:
            return samples
        local_times = np.array(samples, np.float64)
        times_of_ranks = [
            np.frombuffer(bytes(buffer), np.float64)
            for buffer in self._world.all_gather("times", local_times.tobytes())
        ]
        return np.max(times_of_ranks, axis=0).tolist()

    def _fill(self, case: Case, rank: int, in_place: bool) -> None:
        member = self._mesh.index(rank, GROUPS[case.group])
        start = case.offsets(member)[0] * in_place * DTYPES[case.dtype].itemsize
        self._devices[rank].upload(self._memory[rank][0] + start, random_operand(case, member))

    def _wrong(self, case: Case, works: Mapping[int, RankWork], in_place: bool) -> int:
        """Return the number of wrong elements over all ranks, after one call on fresh operands."""
        for rank in works:
            self._fill(case, rank, in_place)
        self._run(works, 1)
        self._wait()
        total = 0
        for rank, device in self._devices.items():
            member = self._mesh.index(rank, GROUPS[case.group])
            result = np.zeros(case.result_count, DTYPES[case.dtype])
            start = case.offsets(member)[1] * result.itemsize if in_place else 0
            total += count_wrong(case, device.download(self._memory[rank][not in_place] + start, result), member)
        if self._world:
            total = sum(int(bytes(count)) for count in self._world.all_gather("wrong", str(total).encode()))
        return total

    def close(self, error: BaseException | None = None) -> None:
        if error:
            with contextlib.suppress(RuntimeFailure):  # every call fails on a device that has failed
                self._comms.abort()
            if self._world:
                self._world.fail(str(error))
            return
        self._comms.close()
        for device in self._devices.values():
            device.close()
        if self._world:
            self._world.finish()
