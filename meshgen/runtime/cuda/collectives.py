"""Execution of lowered collectives on this process's devices.

Local copies and reductions run as kernels, and NCCL runs all communication. All of a collective's work is issued to its
item's stream. Concurrent NCCL calls of all ranks form one NCCL group, so that one thread can issue them for all ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from meshgen.ccl.nccl_types import DATA_TYPES, REDUCTIONS
from meshgen.ccl.steps import Box, BufferRef, Copy, Fill, Group, Lowered, Messages, Reduce, read_and_written
from meshgen.ccl.transport import launches
from meshgen.ir.graph import DTYPES
from meshgen.kernels.copy_ptx import THREADS, PtxKernel, copy_kernel
from meshgen.kernels.reduce_ptx import reduce_kernel
from meshgen.runtime.cuda.api import Api
from meshgen.runtime.cuda.communicators import Communicators
from meshgen.runtime.cuda.device import Device, Launch, ParameterBlock
from meshgen.runtime.cuda.strided_copies import Run, copies


class RankWork:
    """The lowered steps of a collective on one rank. Kernel launches are prepared once and issued at every step."""

    def __init__(self, device: Device, stream: int, lowered: Lowered, start_of: Callable[[BufferRef], int]) -> None:
        """Prepare the launches. `start_of` returns the address of a buffer of the collective.

        Raises MissingError MG0602 if a reduction has no kernel.
        """
        self._device, self.stream, self.lowered, self._start_of = device, stream, lowered, start_of
        self._parts = {step: list(self._prepare(step)) for step in lowered.steps if isinstance(step, (Copy, Reduce))}

    def address(self, box: Box) -> int:
        """Return the address of the first element of a box."""
        return self._start_of(box.buffer) + box.byte_offset

    def copy(self, step: Copy) -> None:
        self._issue(step)

    def reduce(self, step: Reduce) -> None:
        self._issue(step)

    def fill(self, step: Fill) -> None:
        """Set a contiguous box to zero, the only fill that lowering emits."""
        assert step.target.is_contiguous and step.value == 0
        self._device.clear(self.address(step.target), step.target.nbytes, self.stream)

    def _issue(self, step: Copy | Reduce) -> None:
        for operation in self._parts[step]:
            if isinstance(operation, Run):
                self._device.copy(operation.target, operation.source, operation.nbytes, self.stream)
            else:
                self._device.launch(operation, self.stream)

    def _prepare(self, step: Copy | Reduce) -> Iterator[Run | Launch]:
        if isinstance(step, Reduce):
            kernel = reduce_kernel(step.kind, step.sources[0].dtype, step.target.dtype, len(step.sources))
            values = (self.address(step.target), *map(self.address, step.sources), step.target.size)
            yield self._launch(step, kernel, -(-step.target.size // THREADS), values)
            return
        starts = (self._start_of(box.buffer) for box in (step.target, step.source))
        for operation in copies(step.target, step.source, *starts):
            if isinstance(operation, Run):
                yield operation
            else:
                yield self._launch(step, copy_kernel(operation.itemsize), operation.blocks, operation.values)

    def _launch(self, step: Copy | Reduce, kernel: PtxKernel, blocks: int, values: Sequence[int]) -> Launch:
        function = self._device.function(kernel.text.encode(), kernel.name, 0)
        parameters = ParameterBlock(list(zip(values, kernel.parameters, strict=True)))
        read, written = read_and_written(step)
        sides = [*((box, False) for box in read), *((box, True) for box in written)]
        ranges = [
            (self._start_of(box.buffer) + box.byte_start, box.byte_end - box.byte_start, is_written)
            for box, is_written in sides
        ]
        self._device.api.limit_launch(parameters.address, ranges)
        return Launch(function, (blocks, 1, 1), THREADS, 0, parameters)


def run_lowered(api: Api, comms: Communicators, works: Mapping[int, RankWork]) -> None:
    """Issue a collective on all ranks: local steps rank by rank, communicating steps of all ranks as an NCCL group."""
    remaining_steps = {rank: launches(work.lowered, work) for rank, work in works.items()}
    while True:
        current_steps = {rank: launch for rank, steps in remaining_steps.items() if (launch := next(steps, None))}
        if not current_steps:
            return
        api.comm("ncclGroupStart")
        for rank, launch in current_steps.items():
            if isinstance(launch, Messages):
                _send_and_receive(api, comms, rank, launch, works[rank])
                continue
            for step in launch:
                _call(api, comms, rank, step, works[rank])
        api.comm("ncclGroupEnd")


def _call(api: Api, comms: Communicators, rank: int, step: Group, work: RankWork) -> None:
    source, target = work.address(step.source), work.address(step.target)
    dtype, comm = DATA_TYPES[step.dtype], comms.of(step.axes, rank)
    reduction = REDUCTIONS.get(step.reduction, 0)
    match step.kind:
        case "all_reduce":
            api.comm("ncclAllReduce", source, target, step.count, dtype, reduction, comm, work.stream)
        case "all_gather":
            api.comm("ncclAllGather", source, target, step.count, dtype, comm, work.stream)
        case "reduce_scatter":
            api.comm("ncclReduceScatter", source, target, step.count, dtype, reduction, comm, work.stream)
        case "broadcast":
            api.comm("ncclBroadcast", source, target, step.count, dtype, step.root, comm, work.stream)
        case "reduce":
            api.comm("ncclReduce", source, target, step.count, dtype, reduction, step.root, comm, work.stream)
        # NCCL has an all-to-all call since 2.28, which is implemented with sends and receives as well.
        case "all_to_all":
            shard_bytes = step.count * DTYPES[step.dtype].itemsize
            for peer in range(step.source.nbytes // shard_bytes):
                api.comm("ncclSend", source + peer * shard_bytes, step.count, dtype, peer, comm, work.stream)
                api.comm("ncclRecv", target + peer * shard_bytes, step.count, dtype, peer, comm, work.stream)


def _send_and_receive(api: Api, comms: Communicators, rank: int, step: Messages, work: RankWork) -> None:
    """Issue messages on the communicator of all ranks, because peers are world ranks. Elements are sent as bytes."""
    messages = [*(("ncclSend", m) for m in step.sends), *(("ncclRecv", m) for m in step.receives)]
    byte, world = DATA_TYPES["ui8"], comms.world[rank]
    for call, message in messages:
        api.comm(call, work.address(message.box), message.box.nbytes, byte, message.peer, world, work.stream)
