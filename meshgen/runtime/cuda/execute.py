"""Executes modules on GPUs, real or emulated: all ranks of all their meshes in one process, or one of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np

from meshgen.ccl.world import TIME_OUT_SECONDS, World
from meshgen.errors import Diagnostic, RuntimeFailure
from meshgen.mesh import Mesh
from meshgen.runtime.cuda.api import Api, keeps_context
from meshgen.runtime.cuda.code import CodeOf, Launcher
from meshgen.runtime.cuda.communicators import Communicators
from meshgen.runtime.cuda.device import Device
from meshgen.runtime.cuda.frames import Addresses, Frame, FrameMaker, arena_begin, axes_of
from meshgen.runtime.cuda.guard import Guard
from meshgen.runtime.cuda.others import Others
from meshgen.runtime.cuda.part import Part, Waits
from meshgen.runtime.cuda.regions import streams_of
from meshgen.runtime.module_file.manifest import Binding, Manifest
from meshgen.runtime.plan import NETWORK
from meshgen.runtime.processes.bootstrap import TIME_OUT
from meshgen.runtime.processes.ranks import assembled, gathered
from meshgen.runtime.processes.watchdog import Watchdog
from meshgen.runtime.simulate import shard_array

Array = np.ndarray[Any, Any]
LOOK_SECONDS = 0.01  # seconds between two queries of NCCL for lost peers


@dataclass(frozen=True)
class Program:
    """A module of one mesh, as an executor needs it.

    Attributes:
        constants: by buffer.
        code_of: the code of its kernels.
        inputs_at: addresses by rank, in the world of all meshes, of input buffers that their owner keeps between steps. Donated
            ones hold their next values after a step.
    """

    manifest: Manifest
    constants: Mapping[int, Array]
    code_of: CodeOf
    inputs_at: Mapping[int, Addresses] = field(default_factory=dict[int, Addresses])


class Executor:
    """A program on devices. Memory, kernels and communicators are created here; a step allocates nothing."""

    def __init__(
        self, programs: Sequence[Program], api: Api, *, use_graphs: bool = True, warm_up: bool = False,
        world: World | None = None, ordinal: int = 0, time_out: float = TIME_OUT_SECONDS,
    ) -> None:  # fmt: skip
        """One program for each mesh; ranks are those of the meshes one after the other.

        Args:
            use_graphs: capture a step in CUDA graphs at its first run, and launch them from then on.
            warm_up: capture the second run instead: the first use of kernels and of NCCL's connections allocates memory.
            world: the ranks, one of which is this process's, on the device `ordinal`; None: all are, on as many devices.
            time_out: seconds; for communicating ranks that are all in this process: none of them finishes its work
                for so long. Ranks of several processes have the time-out of their world.
        Raises:
            MissingError: MG0602, a kernel or a reduction has no code for the device, or NCCL is missing.
            RuntimeFailure: MG0604, a call fails, also for lack of memory; MG0609, a rank is lost.
        """
        self.api, self._programs, self._world, self._time_out = api, programs, world, time_out
        self._guard: Watchdog | None = None
        sizes = [program.manifest.mesh.size for program in programs]
        self._firsts = list(accumulate(sizes, initial=0))
        places = {world.rank: ordinal} if world else {rank: rank for rank in range(sum(sizes))}
        self._by_rank: dict[int, Device] = {}
        self._weights: dict[tuple[Part, int], Array] = {}  # stored arguments that are on the devices
        with api.kept_context(), ExitStack() as made:
            self._prepare(places, made, use_graphs=use_graphs, warm_up=warm_up)
            made.pop_all()

    def _prepare(self, places: Mapping[int, int], made: ExitStack, **options: bool) -> None:
        """All before the first step. `places`: ordinals of devices by rank; `made` frees what is there if the rest fails."""
        api, programs, world = self.api, self._programs, self._world
        for rank, place in places.items():
            self._by_rank[rank] = Device(api, place)
            made.callback(self._by_rank[rank].abandon)
        if any(NETWORK in streams_of(program.manifest.plan) for program in programs):
            api.order_collectives()
        frames = [self._frame(program, first) for program, first in zip(programs, self._firsts, strict=False)]
        with self._guarded("the initialisation of NCCL's communicators"):
            self._comms = Communicators(api, self._by_rank, self._calls(), world)
        made.callback(self._comms.abort)
        own = next(n for n, frame in enumerate(frames) if frame.ranks)
        self._others = (
            Others(world, programs[own].manifest.mesh, self._firsts[own], self._by_rank[world.rank]) if world else None
        )
        self.parts = [
            Part(
                api,
                frame,
                {rank: self._by_rank[rank] for rank in frame.ranks},
                self._comms,
                others=self._others,
                kept=_results_in_arguments(program.manifest, frame),
                **options,
            )
            for program, frame in zip(programs, frames, strict=True)
        ]
        for program, part in zip(programs, self.parts, strict=True):
            for number, value in program.constants.items():
                self._upload(part.frame, number, dict.fromkeys(part.frame.ranks, value))

    @keeps_context
    def run(self, args: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """One step: for each mesh its global results for its global arguments. Raises RuntimeFailure MG0604."""
        for program, part, arrays in zip(self._programs, self.parts, args, strict=True):
            for binding, value in zip(program.manifest.inputs, arrays, strict=True):
                stays = binding.stored and binding.buffer not in part.frame.plan.given_up
                if not (stays and self._weights.get((part, binding.buffer)) is value):
                    self._upload(part.frame, binding.buffer, self._shards(program.manifest, part.frame, binding, value))
                if stays:
                    self._weights[part, binding.buffer] = value
        self.step()
        found = [self._results(program, part.frame) for program, part in zip(self._programs, self.parts, strict=True)]
        manifests = [program.manifest for program in self._programs]
        if self._world:
            return gathered(self._world, manifests, next(shards for each in found for shards in each.values()))
        return [assembled(manifest, [*shards.values()]) for manifest, shards in zip(manifests, found, strict=True)]

    @property
    def devices(self) -> list[Device]:
        """Those of this process."""
        return list(self._by_rank.values())

    def _look(self, waited: float) -> None:
        """Called while the host waits: no device finished anything for so many seconds.

        Raises RuntimeFailure MG0609: a rank is lost, or hangs; pending work is aborted then.
        """
        if self._guard:
            self._guard.beat()
        fault = self._comms.fault()
        if self._others:
            self._others.look(fault)
        elif fault:
            raise RuntimeFailure(Diagnostic("MG0609", fault))
        elif self._comms.world and waited > self._time_out:
            text = f"no device finished its work within {self._time_out:g} s: one hangs, or a step takes longer"
            raise RuntimeFailure(
                Diagnostic("MG0609", text, hint=f"set {TIME_OUT} to more seconds if steps are that long")
            )

    @keeps_context
    def step(self) -> None:
        """One step on the input buffers, synchronously. Raises RuntimeFailure MG0604, MG0609."""
        steps = [part.step() for part in self.parts if part.frame.ranks]
        if not (self._others and self._world):
            together(self.api, steps, self._look)
            return
        self._others.begin()
        with self._world.doing(lambda: self._others.label if self._others else ""), self._guarded("a step") as guard:
            self._guard = guard
            together(self.api, steps, self._look)

    def _guarded(self, doing: str) -> AbstractContextManager[Watchdog | None]:
        """A guard where NCCL may wait for ranks of other processes; the emulated one has a time-out."""
        return Guard(self._world, doing) if self._world and self.api.machine is None else nullcontext()

    def issue_of_step(self) -> Callable[[], None] | None:
        """A function that launches a whole step by one call, asynchronously (see `wait`); None if a step needs more."""
        graph = self.parts[0].only_graph if len(self.parts) == 1 and not self._world else None
        if graph is None:
            return None
        driver, arguments, context = self.api.driver, graph.launched, self.parts[0].context
        current_context, make_current, launch = driver.cuCtxGetCurrent, driver.cuCtxSetCurrent, driver.cuGraphLaunch

        def issue() -> None:
            _, before = current_context()
            if before == context:  # as beside CuPy or PyTorch
                (result,) = launch(*arguments)
            else:
                make_current(context)
                (result,) = launch(*arguments)
                make_current(before)
            if result:
                raise self.api.failure("cuGraphLaunch", result)

        return issue

    @keeps_context
    def wait(self) -> None:
        """Wait until the issued work is done. Raises as `step`."""
        streams = [iter([part.origin]) for part in self.parts if part.frame.ranks]
        together(self.api, streams, lambda _: self._look(0.0))  # any number of steps may be under way

    @keeps_context
    def rebind(self, number: int, inputs_at: Mapping[int, Addresses]) -> None:
        """Change the addresses of inputs of a mesh from the next step on; no work may be pending."""
        program, part = self._programs[number], self.parts[number]
        part.rebind(self._maker(program).frame(program.manifest.plan, part.frame.arenas, inputs_at))

    @property
    def graph_nodes(self) -> int:
        """Nodes of all graphs that were captured."""
        return sum(graph.nodes for part in self.parts for graph in part.graphs.values())

    @keeps_context
    def close(self) -> None:
        """Free graphs, communicators, memory and streams."""
        for part in self.parts:
            part.close()
        self._comms.close()
        if self._others:
            self._others.close()
        for device in self.devices:
            device.close()

    @keeps_context
    def abort(self) -> None:
        """End what is under way after a failure, and free the devices: nothing of it can be used any more.

        Graphs go first: NCCL's abort waits until none is left with calls of the communicator.
        """
        with self._guarded("the abort of NCCL's communicators"):
            for part in self.parts:
                with suppress(RuntimeFailure):  # on a device that has failed every call fails
                    part.close()
            self._comms.abort()
        for device in self.devices:
            device.abandon()

    def _frame(self, program: Program, first: int) -> Frame:
        manifest, plan = program.manifest, program.manifest.plan
        ranks = [rank for rank in self._by_rank if first <= rank < first + manifest.mesh.size]
        begin = arena_begin(plan, program.inputs_at)
        sizes = dict.fromkeys(ranks, plan.arena_bytes - begin)
        arenas = {rank: self._by_rank[rank].allocate(n, f"arena of rank {rank}") - begin for rank, n in sizes.items()}
        frame = self._maker(program).frame(plan, arenas, program.inputs_at)
        self._name_buffers(frame)
        return frame

    @property
    def _first_ranks(self) -> dict[str, int]:
        """Of each mesh, by name."""
        return {each.manifest.mesh.name: n for each, n in zip(self._programs, self._firsts, strict=False)}

    def _calls(self) -> list[tuple[Mesh, int, tuple[str, ...]]]:
        """Of all calls of NCCL the mesh, the rank of its first device, and the axes: the same on all ranks."""
        manifests = [program.manifest for program in self._programs]
        return [
            (manifest.mesh, first, axes)
            for manifest, first in zip(manifests, self._firsts, strict=False)
            for axes in sorted(axes_of(manifest.plan, manifest.mesh, self._first_ranks))
        ]

    def _maker(self, program: Program) -> FrameMaker:
        manifest = program.manifest
        launcher = Launcher(self.api, manifest.mesh, manifest.kernels, manifest.plan.kernels, program.code_of)
        return FrameMaker(manifest.mesh, self._first_ranks, self._by_rank, launcher)

    def _name_buffers(self, frame: Frame) -> None:
        for number, buffer in enumerate(frame.plan.buffers):
            for rank in frame.ranks if buffer.type.nbytes and buffer.kind != "given" else ():
                self.api.name_memory(frame.address(number, rank), buffer.type.nbytes, buffer.name)

    def _upload(self, frame: Frame, number: int, values: Mapping[int, Array]) -> None:
        """A value for each rank."""
        for rank, value in values.items():
            self._by_rank[rank].upload(frame.address(number, rank), value)

    def _shards(self, manifest: Manifest, frame: Frame, binding: Binding, value: Array) -> dict[int, Array]:
        """The shards of an argument on the ranks of this process."""
        if manifest.arguments == "global":
            return dict.fromkeys(frame.ranks, value)
        first = self._first_ranks[manifest.mesh.name]
        return {rank: shard_array(value, binding.sharding, manifest.mesh, rank - first) for rank in frame.ranks}

    def _results(self, program: Program, frame: Frame) -> dict[int, list[Array]]:
        """The local results of each rank of this process."""
        found: dict[int, list[Array]] = {rank: [] for rank in frame.ranks}
        for binding in program.manifest.outputs:
            kind = frame.plan.buffers[binding.buffer].type
            for rank, shards in found.items():
                shard = np.empty(kind.sizes, kind.numpy_dtype)
                shards.append(self._by_rank[rank].download(frame.address(binding.buffer, rank), shard))
        return found


def _results_in_arguments(manifest: Manifest, frame: Frame) -> list[int]:
    """The results, by buffer, that lie in memory of arguments that stays between steps, without the next values of these."""
    next_values = {binding.donated_to for binding in manifest.inputs}
    read = dict.fromkeys(b.buffer for number, b in enumerate(manifest.outputs) if number not in next_values)
    return [number for number in read if frame.plan.buffers[number].storage in frame.external]


def together(api: Api, parts: Sequence[Waits], look: Callable[[float], None]) -> None:
    """Run the steps of several meshes concurrently: none may block the host while another one has work to issue.

    Args:
        look: called from time to time to check for lost ranks; raises as `Executor.run`; its argument is the seconds since
            the last progress.
    Raises:
        RuntimeFailure: MG0604, the driver or NCCL fails; MG0608, emulated devices deadlock.
    """
    waiting: dict[Iterator[int], int] = {}
    for part in parts:
        _resume(part, waiting)
    last = time.monotonic()
    next_look = last + LOOK_SECONDS
    while waiting:
        done = [part for part, stream in waiting.items() if api.is_idle(stream)]
        for part in done:
            _resume(part, waiting)
            last = time.monotonic()
        if not done and api.is_stuck:
            api.cuda("cuStreamSynchronize", next(iter(waiting.values())))  # raises the cycle of waits
        if not done and time.monotonic() > next_look:
            look(time.monotonic() - last)
            next_look = time.monotonic() + LOOK_SECONDS


def _resume(part: Iterator[int], waiting: dict[Iterator[int], int]) -> None:
    """Run it up to its next wait for a stream, or its end."""
    stream = next(part, None)
    if stream is None:
        waiting.pop(part, None)
    else:
        waiting[part] = stream
