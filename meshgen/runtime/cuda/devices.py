"""GPUs of a session, real or emulated: memory that stays between steps, and the executors that use it."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshgen.ir.graph import TensorType
from meshgen.runtime.cuda.api import Api, keeps_context
from meshgen.runtime.cuda.code import code_of
from meshgen.runtime.cuda.device import Device
from meshgen.runtime.cuda.execute import Executor, Program
from meshgen.runtime.cuda.retired import retire
from meshgen.runtime.dlpack import CUDA, Memory, memory_of
from meshgen.runtime.loaded import Loaded
from meshgen.runtime.plan import ALIGNMENT
from meshgen.runtime.processes.bootstrap import time_out_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class GpuShard:
    """The memory of one rank for a tensor. `owner` keeps memory alive that is not the session's."""

    rank: int
    type: TensorType
    address: int
    owner: object = None


class _Held:
    """What a session has on its GPUs."""

    def __init__(self, api: Api, ranks: int) -> None:
        self.api = api
        self.steps: list[GpuSteps] = []
        with api.kept_context():
            self.devices = [Device(api, rank) for rank in range(ranks)]

    def wait(self) -> None:
        for steps in self.steps:
            steps.wait()

    @keeps_context
    def close(self) -> None:
        """Free all after the pending work, also if that fails. Raises RuntimeFailure MG0604, MG0608 then."""
        try:
            self.wait()
        except BaseException:
            self.abort()
            raise
        for steps in self.steps:
            steps.executor.close()
        for device in self.devices:
            device.close()

    @keeps_context
    def abort(self) -> None:
        for steps in self.steps:
            steps.executor.abort()
        for device in self.devices:
            device.abandon()


class GpuDevices:
    """The GPUs of all ranks. Pending work is waited for before the host touches memory.

    A session that is not closed is freed with the last object that has its devices: itself, or a result on them.
    """

    def __init__(self, api: Api, ranks: int) -> None:
        self.api, self._held = api, _Held(api, ranks)
        self.devices = self._held.devices
        self._release = weakref.finalize(self, retire, self._held)
        self._release.atexit = False  # the driver frees what a process has

    @keeps_context
    def allocate(self, kind: TensorType, ranks: Sequence[int], name: str) -> list[GpuShard]:
        return [GpuShard(rank, kind, self.devices[rank].allocate(kind.nbytes, name)) for rank in ranks]

    @keeps_context
    def write(self, shards: Sequence[GpuShard], value_of: Callable[[int], Array]) -> None:
        self.wait()
        for shard in shards:
            self.devices[shard.rank].upload(shard.address, value_of(shard.rank))

    @keeps_context
    def read(self, shard: GpuShard) -> Array:
        self.wait()
        return self.devices[shard.rank].download(shard.address, np.empty(shard.type.sizes, shard.type.numpy_dtype))

    @keeps_context
    def copy(self, target: GpuShard, source: GpuShard) -> None:
        self.wait()
        device = self.devices[target.rank]
        if source.type.nbytes:
            device.copy(target.address, source.address, source.type.nbytes, device.streams[0])
            self.api.cuda("cuStreamSynchronize", device.streams[0])

    def bind(self, kind: TensorType, rank: int, given: Any) -> GpuShard | None:
        found = memory_of(given, stream=self.devices[rank].streams[0])
        if found is None or not self._memory_fits(found, kind, rank):
            return None
        return GpuShard(rank, kind, found.address, found)

    def _memory_fits(self, memory: Memory, kind: TensorType, rank: int) -> bool:
        """Whether kernels may use memory as if it were their own: they rely on alignment, and write donated arguments."""
        is_same = (memory.shape, memory.dtype) == (kind.sizes, kind.numpy_dtype) and memory.is_contiguous
        return is_same and memory.device == (CUDA, rank) and memory.address % ALIGNMENT == 0 and not memory.is_read_only

    @keeps_context
    def steps(self, parts: Sequence[Loaded], inputs: Sequence[Mapping[int, Sequence[GpuShard]]]) -> GpuSteps:
        self._held.steps.append(made := GpuSteps(parts, inputs, self.api))
        return made

    def wait(self) -> None:
        """Wait until all work is done. Raises RuntimeFailure MG0604, MG0608 for its failures."""
        self._held.wait()

    def close(self) -> None:
        """Free all memory. Raises as `wait`."""
        self._release.detach()
        self._held.close()

    def abort(self) -> None:
        """Abort pending work after a failure and free all memory; the devices are unusable afterwards."""
        self._release.detach()
        self._held.abort()


class GpuSteps:
    """An entry function on GPUs."""

    def __init__(self, parts: Sequence[Loaded], inputs: Sequence[Mapping[int, Sequence[GpuShard]]], api: Api) -> None:
        programs = [
            Program(part.manifest, part.constants, code_of(part.manifest.kernels, part.member, api), _addresses(own))
            for part, own in zip(parts, inputs, strict=True)
        ]
        self.executor = Executor(programs, api, warm_up=api.machine is None, time_out=time_out_of(os.environ))
        self._inputs = [dict(own) for own in inputs]
        self._issue: Callable[[], None] | None = None
        self._is_under_way = False
        self.outputs = self._outputs()

    def _outputs(self) -> list[list[list[GpuShard]]]:
        return [
            [
                [GpuShard(rank, kind, address) for rank, address in sorted(addresses.items())]
                for number in part.frame.plan.outputs
                for kind in [part.frame.plan.buffers[number].type]
                for addresses in [part.kept.get(number) or part.frame.addresses(number)]
            ]
            for part in self.executor.parts
        ]

    def run(self) -> None:
        """One call of the host where a step is one graph: nothing waits for it."""
        if self._issue is not None:
            self._issue()
            self._is_under_way = True
            return
        self.executor.step()
        self._issue = self.executor.issue_of_step()

    def wait(self) -> None:
        if self._is_under_way:
            self._is_under_way = False
            self.executor.wait()

    def rebind(self, part: int, buffer: int, shards: Sequence[GpuShard]) -> None:
        self.wait()
        self._inputs[part][buffer] = shards
        self._issue = None
        self.executor.rebind(part, _addresses(self._inputs[part]))
        self.outputs = self._outputs()


def _addresses(inputs: Mapping[int, Sequence[GpuShard]]) -> dict[int, dict[int, int]]:
    return {buffer: {shard.rank: shard.address for shard in shards} for buffer, shards in inputs.items()}
