"""The GPUs of a session, real or emulated: memory that persists between steps, and the executors that use this memory."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshgen.ir.graph import TensorType
from meshgen.runtime.cuda.api import Api, preserves_context
from meshgen.runtime.cuda.code import code_of
from meshgen.runtime.cuda.deferred_free import retire
from meshgen.runtime.cuda.device import Device
from meshgen.runtime.cuda.execute import Executor, Program
from meshgen.runtime.dlpack import CUDA, Memory, memory_of
from meshgen.runtime.engine_interfaces import Loaded
from meshgen.runtime.plan import ALIGNMENT
from meshgen.runtime.processes.bootstrap import time_out_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class GpuShard:
    """A tensor's shard in the memory of one rank.

    If the memory was allocated outside of the session, `owner` keeps it alive.
    """

    rank: int
    type: TensorType
    address: int
    owner: object = None


class _Resources:
    """The devices and executors of a session."""

    def __init__(self, api: Api, ranks: int) -> None:
        self.api = api
        self.steps: list[GpuSteps] = []
        with api.preserved_context():
            self.devices = [Device(api, rank) for rank in range(ranks)]

    def wait(self) -> None:
        for steps in self.steps:
            steps.wait()

    @preserves_context
    def close(self) -> None:
        """Wait for pending work and free everything, even if that work fails.

        Raises RuntimeFailure MG0604 or MG0608 if the work fails.
        """
        try:
            self.wait()
        except BaseException:
            self.abort()
            raise
        for steps in self.steps:
            steps.executor.close()
        for device in self.devices:
            device.close()

    @preserves_context
    def abort(self) -> None:
        for steps in self.steps:
            steps.executor.abort()
        for device in self.devices:
            device.abandon()


class GpuDevices:
    """The GPUs of all ranks.

    Methods that access memory from the host first wait for pending work. If a session is not closed, its resources are
    freed with the last object that refers to its devices: the session, or one of its results.
    """

    def __init__(self, api: Api, ranks: int) -> None:
        self.api, self._resources = api, _Resources(api, ranks)
        self.devices = self._resources.devices
        self._release = weakref.finalize(self, retire, self._resources)
        self._release.atexit = False  # At process exit, the driver frees everything.

    @preserves_context
    def allocate(self, tensor_type: TensorType, ranks: Sequence[int], name: str) -> list[GpuShard]:
        return [GpuShard(rank, tensor_type, self.devices[rank].allocate(tensor_type.nbytes, name)) for rank in ranks]

    @preserves_context
    def write(self, shards: Sequence[GpuShard], value_of: Callable[[int], Array]) -> None:
        self.wait()
        for shard in shards:
            self.devices[shard.rank].upload(shard.address, value_of(shard.rank))

    @preserves_context
    def read(self, shard: GpuShard) -> Array:
        self.wait()
        return self.devices[shard.rank].download(shard.address, np.empty(shard.type.sizes, shard.type.numpy_dtype))

    @preserves_context
    def copy(self, target: GpuShard, source: GpuShard) -> None:
        self.wait()
        device = self.devices[target.rank]
        if source.type.nbytes:
            device.copy(target.address, source.address, source.type.nbytes, device.streams[0])
            self.api.cuda("cuStreamSynchronize", device.streams[0])

    def bind(self, tensor_type: TensorType, rank: int, array: Any) -> GpuShard | None:
        memory = memory_of(array, stream=self.devices[rank].streams[0])
        if memory is None or not self._memory_fits(memory, tensor_type, rank):
            return None
        return GpuShard(rank, tensor_type, memory.address, memory)

    def _memory_fits(self, memory: Memory, tensor_type: TensorType, rank: int) -> bool:
        """Whether kernels can use external memory directly, without a copy.

        Kernels rely on its alignment, and they write donated arguments, so read-only memory does not fit.
        """
        is_same = (memory.shape, memory.dtype) == (tensor_type.sizes, tensor_type.numpy_dtype) and memory.is_contiguous
        return is_same and memory.device == (CUDA, rank) and memory.address % ALIGNMENT == 0 and not memory.is_read_only

    @preserves_context
    def steps(self, parts: Sequence[Loaded], inputs: Sequence[Mapping[int, Sequence[GpuShard]]]) -> GpuSteps:
        self._resources.steps.append(new_steps := GpuSteps(parts, inputs, self.api))
        return new_steps

    def wait(self) -> None:
        """Wait until all work has finished. Raises RuntimeFailure MG0604 or MG0608 if it failed."""
        self._resources.wait()

    def close(self) -> None:
        """Free all memory. Raises the same errors as `wait`."""
        self._release.detach()
        self._resources.close()

    def abort(self) -> None:
        """Abort pending work after a failure and free all memory. The devices are unusable afterwards."""
        self._release.detach()
        self._resources.abort()


class GpuSteps:
    """Runs steps of one entry function on GPUs."""

    def __init__(self, parts: Sequence[Loaded], inputs: Sequence[Mapping[int, Sequence[GpuShard]]], api: Api) -> None:
        programs = [
            Program(
                part.manifest, part.constants, code_of(part.manifest.kernels, part.member, api), _addresses(part_inputs)
            )
            for part, part_inputs in zip(parts, inputs, strict=True)
        ]
        self.executor = Executor(programs, api, warm_up=api.machine is None, time_out=time_out_of(os.environ))
        self._inputs = [dict(part_inputs) for part_inputs in inputs]
        self._issue: Callable[[], None] | None = None
        self._is_under_way = False
        self.outputs = self._outputs()

    def _outputs(self) -> list[list[list[GpuShard]]]:
        return [
            [
                [GpuShard(rank, tensor_type, address) for rank, address in sorted(addresses.items())]
                for buffer in part.frame.plan.outputs
                for tensor_type in [part.frame.plan.buffers[buffer].type]
                for addresses in [part.kept.get(buffer) or part.frame.addresses(buffer)]
            ]
            for part in self.executor.parts
        ]

    def run(self) -> None:
        """Run a step. If a step is a single CUDA graph, it is launched by one driver call without waiting for its end."""
        if self._issue is not None:
            self._issue()
            self._is_under_way = True
            return
        self.executor.step()
        self._issue = self.executor.step_launcher()

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
