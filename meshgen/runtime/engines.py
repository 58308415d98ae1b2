"""The engines that run a loaded module, by device name in `ENGINES`."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from meshgen.calls.signature import Signature
from meshgen.ccl.between import Post
from meshgen.ccl.processes import Processes
from meshgen.ccl.world import World
from meshgen.records import dataclass
from meshgen.runtime.cuda import api
from meshgen.runtime.cuda.code import code_of
from meshgen.runtime.cuda.execute import Executor, Program
from meshgen.runtime.emulate import Emulation, first_arch
from meshgen.runtime.execute import Rank, run_alone
from meshgen.runtime.launch import Launch, evaluated, interpreted
from meshgen.runtime.module_file.manifest import Binding, Manifest
from meshgen.runtime.processes.bootstrap import time_out_of
from meshgen.runtime.processes.ranks import gathered
from meshgen.runtime.reference import place_arguments, plan_steps
from meshgen.runtime.simulate import together

Array = np.ndarray[Any, Any]
DEFAULT_ARCH = "sm_80"  # of emulated GPUs, for a module without code for any


@dataclass(frozen=True)
class Loaded:
    """A module of one mesh: its manifest, its constants by buffer, and its files."""

    manifest: Manifest
    constants: Mapping[int, Array]
    member: Callable[[str], bytes]


class LoadedPart(Protocol):
    """The module of one mesh, as `LoadedModule` is one."""

    @property
    def manifest(self) -> Manifest: ...
    @property
    def loaded(self) -> Loaded: ...


class LoadedEntry(Protocol):
    """The interface of a loaded module to sessions."""

    @property
    def parts(self) -> Sequence[LoadedPart]: ...
    @property
    def bindings(self) -> Sequence[Binding]: ...
    @property
    def outputs(self) -> Sequence[Binding]: ...
    @property
    def ranks(self) -> int: ...
    @property
    def call(self) -> Signature | None: ...
    def weight(self, name: str) -> Array: ...
    def require_sizes(self) -> None: ...
    def require_memory(self) -> None: ...


@dataclass(frozen=True)
class Run:
    """One step of a program.

    Attributes:
        owner: the owner of the program; engines that cache devices keep them for its lifetime.
        parts, args: of each mesh its module, and the arguments of its plan.
        emulation: options of emulated GPUs.
        world: the ranks, one of which is this process's; None: all are.
    """

    owner: object
    parts: Sequence[Loaded]
    args: Sequence[Sequence[Array]]
    emulation: Emulation
    world: World | None = None


Results = list[list[Array]]  # of each mesh


def on_host(launch_of: Callable[[Loaded], Launch], run: Run) -> Results:
    """All ranks in lock-step on NumPy, or this process's; kernels as the launcher runs them."""
    if run.world:
        return _one_on_host(launch_of, run, run.world)
    post = Post()
    steps = [
        plan_steps(part.manifest, part.constants, args, launch_of(part), post)
        for part, args in zip(run.parts, run.args, strict=True)
    ]
    return together(steps, post)


def _one_on_host(launch_of: Callable[[Loaded], Launch], run: Run, world: World) -> Results:
    """This process's rank."""
    network = Processes(world, [part.manifest.mesh for part in run.parts])
    number = [part.manifest.mesh.name for part in run.parts].index(network.mesh.name)
    part = run.parts[number]
    rank = Rank(part.manifest.plan, network.mesh, network.rank, launch_of(part), network.first_rank)
    place_arguments(part.manifest, part.constants, run.args[number], rank.frame, network.rank)
    run_alone(rank, network)
    own = [rank.frame.view(binding.buffer) for binding in part.manifest.outputs]
    return gathered(world, [part.manifest for part in run.parts], own)


def _evaluated(part: Loaded) -> Launch:
    return evaluated(part.manifest)


def _interpreted(part: Loaded) -> Launch:
    """The only engine that executes code of the module as Python, if the user chooses it by name."""
    kernels = part.manifest.kernels.items()
    return interpreted(part.manifest, {n: part.member(k.source).decode() if k.source else "" for n, k in kernels})


def on_emulated_gpus(run: Run) -> Results:
    """The CUDA executor on emulated GPUs, new for each step. Raises RuntimeFailure MG0608 for their faults."""
    how = run.emulation
    arch = how.arch or next(filter(None, (first_arch(part.manifest.kernels) for part in run.parts)), DEFAULT_ARCH)
    gpus = api.emulated(1 if run.world else _ranks(run), arch, seed=how.order, races=how.races, world=run.world)
    executor = _executor(run, gpus)
    results = executor.run(run.args)
    executor.close()
    return results


_EXECUTORS: weakref.WeakKeyDictionary[object, tuple[Executor, weakref.finalize[..., Any]]] = weakref.WeakKeyDictionary()


def on_gpus(run: Run) -> Results:
    """GPUs of this machine, prepared by the first step and freed with the owner."""
    if run.owner not in _EXECUTORS:
        executor = _executor(run, api.real_of(run.world) if run.world else api.real(_ranks(run)))
        _EXECUTORS[run.owner] = executor, weakref.finalize(run.owner, executor.close)
    executor, release = _EXECUTORS[run.owner]
    try:
        return executor.run(run.args)
    except BaseException:  # after a failure or an interrupt a device is unusable: the next step prepares it again
        release.detach()
        del _EXECUTORS[run.owner]
        executor.abort()
        raise


def _executor(run: Run, gpus: api.Api) -> Executor:
    programs = [Program(p.manifest, p.constants, code_of(p.manifest.kernels, p.member, gpus)) for p in run.parts]
    ordinal = (run.world.local_rank or 0) if run.world and gpus.machine is None else 0
    limit = time_out_of(os.environ)
    return Executor(programs, gpus, warm_up=gpus.machine is None, world=run.world, ordinal=ordinal, time_out=limit)


def _ranks(run: Run) -> int:
    return sum(part.manifest.mesh.size for part in run.parts)


LAUNCHES: Mapping[str, Callable[[Loaded], Launch]] = {"reference": _evaluated, "interpret": _interpreted}  # on the host
ENGINES: Mapping[str, Callable[[Run], Results]] = {
    **{name: partial(on_host, launch_of) for name, launch_of in LAUNCHES.items()},
    "emulate": on_emulated_gpus,
    "cuda": on_gpus,
}
