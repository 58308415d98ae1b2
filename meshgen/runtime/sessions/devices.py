"""The devices of a session: memory that persists between steps, and execution of steps on this memory.

This module has the interface and the host implementation. `cuda/devices.py` has the implementation for GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from meshgen.ccl.mesh_transfers import Post
from meshgen.ir.graph import TensorType
from meshgen.runtime.engine_interfaces import Loaded
from meshgen.runtime.execute import Frame
from meshgen.runtime.launch import Launch
from meshgen.runtime.reference import rank_steps
from meshgen.runtime.simulate import together

Array = np.ndarray[Any, Any]


class Shard(Protocol):
    """The interface of a tensor's shard in the memory of one rank."""

    @property
    def rank(self) -> int: ...
    @property
    def type(self) -> TensorType: ...


Shards = Sequence[Any]  # one shard per rank of a mesh; each implementation of `Devices` has its own class of shards
Bound = Mapping[int, Shards]  # input buffer -> its shards


class Steps(Protocol):
    """Interface to run steps of one entry function on devices, always on the same memory."""

    @property
    def outputs(self) -> Sequence[Sequence[Shards]]:
        """Return the shards of each result of each mesh. The next step overwrites them."""
        ...

    def run(self) -> None:
        """Run a step on the inputs. It may return before the step has finished.

        After the step, donated inputs hold their next values.
        """
        ...

    def rebind(self, part: int, buffer: int, shards: Shards) -> None:
        """Let input `buffer` of mesh `part` be read from the memory of `shards` from now on."""
        ...


class Devices(Protocol):
    """The interface to the devices of all ranks of a program."""

    def allocate(self, tensor_type: TensorType, ranks: Sequence[int], name: str) -> Shards: ...
    def write(self, shards: Shards, value_of: Callable[[int], Array]) -> None: ...
    def read(self, shard: Any) -> Array: ...
    def copy(self, target: Any, source: Any) -> None: ...
    def bind(self, tensor_type: TensorType, rank: int, array: Any) -> Any:
        """Return a shard that uses the memory of `array` without a copy.

        Returns None if the array's type, memory order, alignment or device makes this impossible.
        """
        ...

    def steps(self, parts: Sequence[Loaded], inputs: Sequence[Bound]) -> Steps: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class HostShard:
    """A shard in a host array, in place of device memory."""

    def __init__(self, rank: int, array: Array, tensor_type: TensorType) -> None:
        self.rank, self.array, self.type = rank, array, tensor_type


class HostDevices:
    """The host as the devices of all ranks, with NumPy arrays as memory. `launch_of` chooses how kernels run."""

    def __init__(self, launch_of: Callable[[Loaded], Launch]) -> None:
        self._launch_of = launch_of

    def allocate(self, tensor_type: TensorType, ranks: Sequence[int], name: str) -> list[HostShard]:
        return [HostShard(rank, np.empty(tensor_type.sizes, tensor_type.numpy_dtype), tensor_type) for rank in ranks]

    def write(self, shards: Sequence[HostShard], value_of: Callable[[int], Array]) -> None:
        for shard in shards:
            shard.array[...] = value_of(shard.rank)

    def read(self, shard: HostShard) -> Array:
        return shard.array.copy()

    def copy(self, target: HostShard, source: HostShard) -> None:
        target.array[...] = source.array

    def bind(self, tensor_type: TensorType, rank: int, array: Any) -> HostShard | None:
        if not isinstance(array, np.ndarray) or not array.flags.c_contiguous or not array.flags.writeable:
            return None
        return (
            HostShard(rank, array, tensor_type)
            if (array.shape, array.dtype) == (tensor_type.sizes, tensor_type.numpy_dtype)
            else None
        )

    def steps(self, parts: Sequence[Loaded], inputs: Sequence[Bound]) -> HostSteps:
        return HostSteps(parts, [dict(buffers) for buffers in inputs], [self._launch_of(part) for part in parts], self)

    def close(self) -> None:
        """Do nothing: there is nothing to free."""

    def abort(self) -> None:
        """Do nothing: no work is pending."""


class HostSteps:
    """Runs steps of one entry function on the host, with NumPy arrays as memory."""

    def __init__(self, parts: Sequence[Loaded], inputs: list[dict[int, Shards]], launches: Sequence[Launch],
                 devices: HostDevices) -> None:  # fmt: skip
        self._parts, self._inputs, self._launches = parts, inputs, launches
        self._firsts = _firsts(parts)
        self.outputs: list[list[Shards]] = [
            [devices.allocate(_local_type(part, b.buffer), self._ranks(n), b.name) for b in part.manifest.outputs]
            for n, part in enumerate(parts)
        ]

    def run(self) -> None:
        post = Post()
        steps = [
            rank_steps(part.manifest, self._placing(part_index), self._launches[part_index], post)
            for part_index, part in enumerate(self._parts)
        ]
        for part_index, frames in enumerate(together(steps, post)):
            self._keep(part_index, frames)

    def rebind(self, part: int, buffer: int, shards: Shards) -> None:
        self._inputs[part][buffer] = shards

    def _placing(self, part_index: int) -> Callable[[Frame, int], None]:
        part, inputs = self._parts[part_index], self._inputs[part_index]

        def place(frame: Frame, rank: int) -> None:
            for buffer, value in part.constants.items():
                frame.view(buffer)[...] = value
            for buffer, shards in inputs.items():
                frame.view(buffer)[...] = shards[rank].array

        return place

    def _keep(self, part_index: int, frames: Sequence[Frame]) -> None:
        """Copy the results of a step to the output arrays, and the next values of donated inputs to the input arrays."""
        manifest = self._parts[part_index].manifest
        for rank, frame in enumerate(frames):
            for binding, shards in zip(manifest.outputs, self.outputs[part_index], strict=True):
                shards[rank].array[...] = frame.view(binding.buffer)
            for argument, result in manifest.plan.donated.items():
                self._inputs[part_index][argument][rank].array[...] = frame.view(result)

    def _ranks(self, part_index: int) -> range:
        first = self._firsts[part_index]
        return range(first, first + self._parts[part_index].manifest.mesh.size)


def _firsts(parts: Sequence[Loaded]) -> list[int]:
    """Return the global rank of each mesh's first device."""
    sizes = [part.manifest.mesh.size for part in parts]
    return [sum(sizes[:index]) for index in range(len(sizes))]


def _local_type(part: Loaded, buffer: int) -> TensorType:
    return part.manifest.plan.buffers[buffer].type
