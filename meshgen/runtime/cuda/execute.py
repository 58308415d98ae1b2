"""Execution of a program on GPUs, real or emulated: one process runs all ranks of all meshes, or a single rank."""

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
from meshgen.runtime.cuda.api import Api, preserves_context
from meshgen.runtime.cuda.code import CodeOf, Launcher
from meshgen.runtime.cuda.communicators import Communicators
from meshgen.runtime.cuda.device import Device
from meshgen.runtime.cuda.frames import Addresses, Frame, FrameMaker, arena_begin, axes_of
from meshgen.runtime.cuda.mesh_steps import Part, Waits
from meshgen.runtime.cuda.nccl_watchdog import Guard
from meshgen.runtime.cuda.regions import streams_of
from meshgen.runtime.cuda.remote_ranks import RemoteRanks
from meshgen.runtime.module_file.manifest import Binding, Manifest
from meshgen.runtime.plan import NETWORK
from meshgen.runtime.processes.bootstrap import TIME_OUT
from meshgen.runtime.processes.ranks import assembled, gathered
from meshgen.runtime.processes.watchdog import Watchdog
from meshgen.runtime.simulate import shard_array

Array = np.ndarray[Any, Any]
# seconds between two checks for lost ranks (chosen: short compared to any time-out, and rare enough to cost no time)
LOOK_SECONDS = 0.01


@dataclass(frozen=True)
class Program:
    """A single-mesh module with the data that an executor needs to run it.

    Attributes:
        constants: buffer index -> value of the constant.
        code_of: returns the code of a kernel.
        inputs_at: input buffer -> its address on each global rank, for inputs that are kept outside of the arena
            between steps. After a step, the donated buffers among them hold their next values.
    """

    manifest: Manifest
    constants: Mapping[int, Array]
    code_of: CodeOf
    inputs_at: Mapping[int, Addresses] = field(default_factory=dict[int, Addresses])


class Executor:
    """A program on devices. It creates memory, kernels and communicators in advance, so a step allocates nothing."""

    def __init__(
        self, programs: Sequence[Program], api: Api, *, use_graphs: bool = True, warm_up: bool = False,
        world: World | None = None, ordinal: int = 0, time_out: float = TIME_OUT_SECONDS,
    ) -> None:  # fmt: skip
        """Prepare one program per mesh.

        Global ranks number the devices of the first mesh, then those of the second, and so on.

        Args:
            use_graphs: capture a step in CUDA graphs at its first run, and launch the graphs from then on.
            warm_up: capture the second run instead, because first uses of kernels and connections allocate memory.
            world: the ranks if this process runs only one of them, or None if it runs all ranks.
            ordinal: the device of this process's rank if `world` is not None. Otherwise rank r runs on device r.
            time_out: seconds without progress of any device after which communicating ranks are considered hung. Used
                only if this process runs all ranks; otherwise the time-out of `world` applies.
        Raises:
            MissingError: MG0602, a kernel or a reduction has no code for the device, or NCCL is missing.
            RuntimeFailure: MG0604, a call fails, also for lack of memory; MG0609, a rank is lost.
        """
        self.api, self._programs, self._world, self._time_out = api, programs, world, time_out
        self._guard: Watchdog | None = None
        sizes = [program.manifest.mesh.size for program in programs]
        self._firsts = list(accumulate(sizes, initial=0))
        ordinals = {world.rank: ordinal} if world else {rank: rank for rank in range(sum(sizes))}
        self._by_rank: dict[int, Device] = {}
        self._weights: dict[tuple[Part, int], Array] = {}  # uploaded arguments that the module stores
        with api.preserved_context(), ExitStack() as cleanup:
            self._prepare(ordinals, cleanup, use_graphs=use_graphs, warm_up=warm_up)
            cleanup.pop_all()

    def _prepare(self, ordinals: Mapping[int, int], cleanup: ExitStack, **options: bool) -> None:
        """Create all resources that a step needs.

        `ordinals` maps ranks to device ordinals. `cleanup` collects callbacks that free the resources if a later one fails.
        """
        api, programs, world = self.api, self._programs, self._world
        for rank, ordinal in ordinals.items():
            self._by_rank[rank] = Device(api, ordinal)
            cleanup.callback(self._by_rank[rank].abandon)
        if any(NETWORK in streams_of(program.manifest.plan) for program in programs):
            api.order_collectives()
        frames = [self._frame(program, first) for program, first in zip(programs, self._firsts, strict=False)]
        with self._guarded("the initialization of NCCL's communicators"):
            self._comms = Communicators(api, self._by_rank, self._calls(), world)
        cleanup.callback(self._comms.abort)
        local = next(n for n, frame in enumerate(frames) if frame.ranks)
        mesh, first = programs[local].manifest.mesh, self._firsts[local]
        self._remote_ranks = RemoteRanks(world, mesh, first, self._by_rank[world.rank]) if world else None
        self.parts = [
            Part(
                api,
                frame,
                {rank: self._by_rank[rank] for rank in frame.ranks},
                self._comms,
                remote_ranks=self._remote_ranks,
                kept=_results_in_arguments(program.manifest, frame),
                **options,
            )
            for program, frame in zip(programs, frames, strict=True)
        ]
        for program, part in zip(programs, self.parts, strict=True):
            for buffer, value in program.constants.items():
                self._upload(part.frame, buffer, dict.fromkeys(part.frame.ranks, value))

    @preserves_context
    def run(self, args: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Run a step with the global arguments of each mesh and return the global results of each mesh.

        Raises RuntimeFailure MG0604.
        """
        for program, part, arrays in zip(self._programs, self.parts, args, strict=True):
            for binding, value in zip(program.manifest.inputs, arrays, strict=True):
                is_constant = binding.stored and binding.buffer not in part.frame.plan.overwritten_inputs
                if not (is_constant and self._weights.get((part, binding.buffer)) is value):
                    self._upload(part.frame, binding.buffer, self._shards(program.manifest, part.frame, binding, value))
                if is_constant:
                    self._weights[part, binding.buffer] = value
        self.step()
        results = [self._results(program, part.frame) for program, part in zip(self._programs, self.parts, strict=True)]
        manifests = [program.manifest for program in self._programs]
        if self._world:
            return gathered(
                self._world, manifests, next(shards for mesh_results in results for shards in mesh_results.values())
            )
        return [assembled(manifest, [*shards.values()]) for manifest, shards in zip(manifests, results, strict=True)]

    @property
    def devices(self) -> list[Device]:
        """Return the devices of the ranks that this process runs, by rank."""
        return list(self._by_rank.values())

    def _look(self, waited: float) -> None:
        """Check for lost or hung ranks.

        The host calls it periodically while it waits. `waited` is the time in seconds without progress of any device.
        Raises RuntimeFailure MG0609 if a rank is lost or hangs; pending work is then aborted.
        """
        if self._guard:
            self._guard.beat()
        fault = self._comms.fault()
        if self._remote_ranks:
            self._remote_ranks.look(fault)
        elif fault:
            raise RuntimeFailure(Diagnostic("MG0609", fault))
        elif self._comms.world and waited > self._time_out:
            text = f"no device finished its work within {self._time_out:g} s: a device hangs, or a step takes longer"
            raise RuntimeFailure(
                Diagnostic("MG0609", text, hint=f"set {TIME_OUT} to more seconds if steps are that long")
            )

    @preserves_context
    def step(self) -> None:
        """Run a step on the input buffers, synchronously. Raises RuntimeFailure MG0604 or MG0609."""
        steps = [part.step() for part in self.parts if part.frame.ranks]
        if not (self._remote_ranks and self._world):
            together(self.api, steps, self._look)
            return
        self._remote_ranks.begin()
        with (
            self._world.doing(lambda: self._remote_ranks.label if self._remote_ranks else ""),
            self._guarded("a step") as guard,
        ):
            self._guard = guard
            together(self.api, steps, self._look)

    def _guarded(self, doing: str) -> AbstractContextManager[Watchdog | None]:
        """Return a watchdog context for NCCL calls that may wait for other processes, else a context without effect."""
        return Guard(self._world, doing) if self._world and self.api.machine is None else nullcontext()

    def step_launcher(self) -> Callable[[], None] | None:
        """Return a function that launches a step asynchronously (see `wait`), or None if that takes several driver calls."""
        graph = self.parts[0].only_graph if len(self.parts) == 1 and not self._world else None
        if graph is None:
            return None
        driver, arguments, context = self.api.driver, graph.launch_arguments, self.parts[0].context
        current_context, make_current, launch = driver.cuCtxGetCurrent, driver.cuCtxSetCurrent, driver.cuGraphLaunch

        def issue() -> None:
            _, before = current_context()
            if before == context:  # the usual case if CuPy or PyTorch runs in the same thread
                (result,) = launch(*arguments)
            else:
                make_current(context)
                (result,) = launch(*arguments)
                make_current(before)
            if result:
                raise self.api.failure("cuGraphLaunch", result)

        return issue

    @preserves_context
    def wait(self) -> None:
        """Wait until the issued work has finished. Raises the same errors as `step`."""
        streams = [iter([part.origin]) for part in self.parts if part.frame.ranks]
        # Any number of steps may be pending, so no time-out applies.
        together(self.api, streams, lambda _: self._look(0.0))

    @preserves_context
    def rebind(self, part_index: int, inputs_at: Mapping[int, Addresses]) -> None:
        """Change the addresses of the inputs of one mesh, from the next step on. No work may be pending."""
        program, part = self._programs[part_index], self.parts[part_index]
        part.rebind(self._frame_maker(program).frame(program.manifest.plan, part.frame.arenas, inputs_at))

    @property
    def graph_nodes(self) -> int:
        """Return the number of nodes in all captured graphs."""
        return sum(graph.nodes for part in self.parts for graph in part.graphs.values())

    @preserves_context
    def close(self) -> None:
        """Free graphs, communicators, memory and streams."""
        for part in self.parts:
            part.close()
        self._comms.close()
        if self._remote_ranks:
            self._remote_ranks.close()
        for device in self.devices:
            device.close()

    @preserves_context
    def abort(self) -> None:
        """Abort pending work after a failure and free the devices. The executor is unusable afterwards.

        Graphs are destroyed first: NCCL's abort waits until no graph has calls of the communicator.
        """
        with self._guarded("the abort of NCCL's communicators"):
            for part in self.parts:
                with suppress(RuntimeFailure):  # Every further call to a failed device fails.
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
        frame = self._frame_maker(program).frame(plan, arenas, program.inputs_at)
        self._name_buffers(frame)
        return frame

    @property
    def _first_ranks(self) -> dict[str, int]:
        """Return the global rank of each mesh's first device, by mesh name."""
        return {program.manifest.mesh.name: n for program, n in zip(self._programs, self._firsts, strict=False)}

    def _calls(self) -> list[tuple[Mesh, int, tuple[str, ...]]]:
        """Return (mesh, global rank of its first device, axes) of each NCCL call. All ranks return the same list."""
        manifests = [program.manifest for program in self._programs]
        return [
            (manifest.mesh, first, axes)
            for manifest, first in zip(manifests, self._firsts, strict=False)
            for axes in sorted(axes_of(manifest.plan, manifest.mesh, self._first_ranks))
        ]

    def _frame_maker(self, program: Program) -> FrameMaker:
        manifest = program.manifest
        launcher = Launcher(self.api, manifest.mesh, manifest.kernels, manifest.plan.kernels, program.code_of)
        return FrameMaker(manifest.mesh, self._first_ranks, self._by_rank, launcher)

    def _name_buffers(self, frame: Frame) -> None:
        for index, buffer in enumerate(frame.plan.buffers):
            for rank in frame.ranks if buffer.type.nbytes and buffer.kind != "given" else ():
                self.api.name_memory(frame.address(index, rank), buffer.type.nbytes, buffer.name)

    def _upload(self, frame: Frame, buffer: int, values: Mapping[int, Array]) -> None:
        """Upload a value per rank to the buffer `buffer` of the frame."""
        for rank, value in values.items():
            self._by_rank[rank].upload(frame.address(buffer, rank), value)

    def _shards(self, manifest: Manifest, frame: Frame, binding: Binding, value: Array) -> dict[int, Array]:
        """Return the shards of an argument on the ranks of this process."""
        if manifest.arguments == "global":
            return dict.fromkeys(frame.ranks, value)
        first = self._first_ranks[manifest.mesh.name]
        return {rank: shard_array(value, binding.sharding, manifest.mesh, rank - first) for rank in frame.ranks}

    def _results(self, program: Program, frame: Frame) -> dict[int, list[Array]]:
        """Download the local results of each rank of this process."""
        local_results: dict[int, list[Array]] = {rank: [] for rank in frame.ranks}
        for binding in program.manifest.outputs:
            tensor_type = frame.plan.buffers[binding.buffer].type
            for rank, shards in local_results.items():
                shard = np.empty(tensor_type.sizes, tensor_type.numpy_dtype)
                shards.append(self._by_rank[rank].download(frame.address(binding.buffer, rank), shard))
        return local_results


def _results_in_arguments(manifest: Manifest, frame: Frame) -> list[int]:
    """Return the output buffers that lie in the persistent memory of an argument, except its next value."""
    next_values = {binding.donated_to for binding in manifest.inputs}
    read = dict.fromkeys(b.buffer for index, b in enumerate(manifest.outputs) if index not in next_values)
    return [index for index in read if frame.plan.buffers[index].storage in frame.external]


def together(api: Api, parts: Sequence[Waits], look: Callable[[float], None]) -> None:
    """Run the steps of several meshes concurrently. No step may block the host while another one has work to issue.

    Args:
        look: called periodically with the seconds since the last progress. Raises an error if a rank is lost.
    Raises:
        RuntimeFailure: MG0604, the driver or NCCL fails; MG0608, emulated devices deadlock.
    """
    waiting: dict[Iterator[int], int] = {}
    for part in parts:
        _resume(part, waiting)
    last_progress = time.monotonic()
    next_look = last_progress + LOOK_SECONDS
    while waiting:
        idle_parts = [part for part, stream in waiting.items() if api.is_idle(stream)]
        for part in idle_parts:
            _resume(part, waiting)
            last_progress = time.monotonic()
        if not idle_parts and api.is_stuck:
            api.cuda("cuStreamSynchronize", next(iter(waiting.values())))  # raises an error that describes the deadlock
        if not idle_parts and time.monotonic() > next_look:
            look(time.monotonic() - last_progress)
            next_look = time.monotonic() + LOOK_SECONDS


def _resume(part: Iterator[int], waiting: dict[Iterator[int], int]) -> None:
    """Advance a step until it waits for a stream or ends, and record in `waiting` the stream for which it waits."""
    stream = next(part, None)
    if stream is None:
        waiting.pop(part, None)
    else:
        waiting[part] = stream
