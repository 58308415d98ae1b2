"""Executes modules on GPUs, real or emulated, all ranks of all their meshes in one process."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from meshgen.runtime.cuda.api import Api
from meshgen.runtime.cuda.code import CodeOf, Launcher
from meshgen.runtime.cuda.communicators import Communicators
from meshgen.runtime.cuda.device import Device
from meshgen.runtime.cuda.frames import Frame, FrameMaker, axes_of
from meshgen.runtime.cuda.part import Part, Waits
from meshgen.runtime.manifest import Binding, Manifest
from meshgen.runtime.plan import Schedule
from meshgen.runtime.simulate import assemble, shard_array

Array = np.ndarray[Any, Any]
LOOK_SECONDS = 0.01  # how long the host waits before it asks NCCL again whether a peer is lost


@dataclass(frozen=True)
class Program:
    """What an executor needs of a module of one mesh: its manifest, its constants by buffer, and the code of its kernels."""

    manifest: Manifest
    constants: Mapping[int, Array]
    code_of: CodeOf


class Executor:
    """A program on devices. Memory, kernels and communicators are made here; a step allocates nothing."""

    def __init__(
        self, programs: Sequence[Program], api: Api, *, use_graphs: bool = True, warm_up: bool = False
    ) -> None:
        """One program for each mesh; devices are those of the meshes one after the other.

        Args:
            use_graphs: a step is captured in CUDA graphs the first time that it runs, and launched from then on.
            warm_up: not the first time but the second: the first use of kernels and of NCCL's connections allocates memory.
        Raises:
            MissingError: MG0602, a kernel or a reduction has no code for the device, or NCCL is missing.
            RuntimeFailure: MG0604, a call fails, also for lack of memory.
        """
        self._api, self._programs = api, programs
        sizes = [program.manifest.mesh.size for program in programs]
        self._firsts = list(accumulate(sizes, initial=0))
        self.devices = [Device(api, rank) for rank in range(sum(sizes))]
        frames = [self._frame(program, first) for program, first in zip(programs, self._firsts, strict=False)]
        calls = [
            (program.manifest.mesh, first, axes)
            for program, first, frame in zip(programs, self._firsts, frames, strict=False)
            for axes in sorted(axes_of(frame))
        ]
        comms = self._comms = Communicators(api, self.devices, calls)
        self.parts = [
            Part(
                api,
                frame,
                {rank: self.devices[rank] for rank in frame.ranks},
                comms,
                use_graphs=use_graphs,
                warm_up=warm_up,
            )
            for frame in frames
        ]
        self._weights: dict[tuple[Part, int], Array] = {}  # stored arguments that are on the devices
        for program, part in zip(programs, self.parts, strict=True):
            for number, value in program.constants.items():
                self._upload(part.frame, number, [value] * len(part.frame.ranks))

    def run(self, args: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """One step: for each mesh its global results for its global arguments. Raises RuntimeFailure MG0604."""
        for program, part, arrays in zip(self._programs, self.parts, args, strict=True):
            for binding, value in zip(program.manifest.inputs, arrays, strict=True):
                if not (binding.stored and self._weights.get((part, binding.buffer)) is value):
                    self._upload(part.frame, binding.buffer, shards_of(program.manifest, binding, value))
                if binding.stored:
                    self._weights[part, binding.buffer] = value
        together(self._api, self._comms, [part.step() for part in self.parts])
        return [self._results(program, part.frame) for program, part in zip(self._programs, self.parts, strict=True)]

    @property
    def graph_nodes(self) -> int:
        """Nodes of all graphs that were captured."""
        return sum(graph.nodes for part in self.parts for graph in part.graphs.values())

    def close(self) -> None:
        """Give back graphs, communicators, memory and streams."""
        for part in self.parts:
            part.close()
        self._comms.close()
        for device in self.devices:
            device.close()

    def abort(self) -> None:
        """End what is under way after a failure: nothing of it can be used any more."""
        self._comms.abort()

    def _frame(self, program: Program, first: int) -> Frame:
        manifest, plan = program.manifest, program.manifest.plan
        ranks = range(first, first + manifest.mesh.size)
        arenas = {rank: self.devices[rank].allocate(plan.arena_bytes, f"arena of rank {rank}") for rank in ranks}
        self._name_buffers(plan, arenas)
        launcher = Launcher(self._api, manifest.mesh, manifest.kernels, plan.kernels, program.code_of)
        firsts = {each.manifest.mesh.name: n for each, n in zip(self._programs, self._firsts, strict=False)}
        return FrameMaker(manifest.mesh, firsts, self.devices, launcher).frame(plan, arenas)

    def _name_buffers(self, plan: Schedule, arenas: Mapping[int, int]) -> None:
        for buffer in plan.buffers:
            for start in arenas.values() if buffer.type.nbytes else ():
                self._api.name_memory(start + buffer.offset, buffer.type.nbytes, buffer.name)

    def _upload(self, frame: Frame, number: int, values: Sequence[Array]) -> None:
        """A value for each rank."""
        for rank, value in zip(frame.ranks, values, strict=True):
            self.devices[rank].upload(frame.address(number, rank), value)

    def _results(self, program: Program, frame: Frame) -> list[Array]:
        found: list[Array] = []
        for binding in program.manifest.outputs:
            kind = frame.plan.buffers[binding.buffer].type
            shards = [
                self.devices[rank].download(frame.address(binding.buffer, rank), np.empty(kind.sizes, kind.numpy_dtype))
                for rank in frame.ranks
            ]
            found.append(assemble(shards, binding.sharding, binding.type.sizes, program.manifest.mesh))
        return found


def shards_of(manifest: Manifest, binding: Binding, value: Array) -> list[Array]:
    """What each rank holds of an argument."""
    ranks = range(manifest.mesh.size)
    if manifest.arguments == "global":
        return [value] * len(ranks)
    return [shard_array(value, binding.sharding, manifest.mesh, rank) for rank in ranks]


def together(api: Api, comms: Communicators, parts: Sequence[Waits]) -> None:
    """Run the steps of several meshes, none of which may keep the host while another one has something to issue.

    Raises:
        RuntimeFailure: MG0604, the driver or NCCL fails, or a peer is lost; MG0608, emulated devices wait for ever.
    """
    waiting: dict[Iterator[int], int] = {}
    for part in parts:
        _resume(part, waiting)
    next_look = time.monotonic() + LOOK_SECONDS
    while waiting:
        done = [part for part, stream in waiting.items() if api.is_idle(stream)]
        for part in done:
            _resume(part, waiting)
        if not done and api.is_stuck:
            api.cuda("cuStreamSynchronize", next(iter(waiting.values())))  # says what waits for what
        if not done and time.monotonic() > next_look:
            comms.look()
            next_look = time.monotonic() + LOOK_SECONDS


def _resume(part: Iterator[int], waiting: dict[Iterator[int], int]) -> None:
    """Up to where it waits for a stream again, or its end."""
    stream = next(part, None)
    if stream is None:
        waiting.pop(part, None)
    else:
        waiting[part] = stream
