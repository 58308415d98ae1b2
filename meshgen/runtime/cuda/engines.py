"""The engines `emulate` and `cuda`: each runs one step of a loaded module with the CUDA executor."""

from __future__ import annotations

import os
import threading
import weakref

from meshgen.runtime.cuda import api
from meshgen.runtime.cuda.code import code_of
from meshgen.runtime.cuda.deferred_free import retire
from meshgen.runtime.cuda.execute import Executor, Program
from meshgen.runtime.emulation_options import DEFAULT_ARCH, first_arch
from meshgen.runtime.engine_interfaces import Results, Run
from meshgen.runtime.processes.bootstrap import time_out_of


def on_emulated_gpus(run: Run) -> Results:
    """Run a step on emulated GPUs, with a new executor for each step.

    Raises RuntimeFailure MG0608 for faults that the emulator finds.
    """
    options = run.emulation
    arch = options.arch or next(filter(None, (first_arch(part.manifest.kernels) for part in run.parts)), DEFAULT_ARCH)
    gpus = api.emulated(
        1 if run.world else _ranks(run),
        arch,
        seed=options.order,
        races=options.races,
        issues=options.instructions,
        world=run.world,
    )
    executor = _executor(run, gpus)
    results = executor.run(run.args)
    executor.close()
    return results


_STEP_LOCK = threading.RLock()


def on_gpus(run: Run) -> Results:
    """Run a step on the GPUs of this machine.

    The first step prepares them, and they are freed with the loaded module. Steps of several threads run one at a time.
    """
    with _STEP_LOCK:
        return _step_on_gpus(run)


def _step_on_gpus(run: Run) -> Results:
    prepared = run.prepared
    if (executor := prepared.executor) is None:
        executor = prepared.executor = _executor(run, api.real_of(run.world) if run.world else api.real(_ranks(run)))
        prepared.release = weakref.finalize(prepared, retire, executor)
    try:
        return executor.run(run.args)
    except BaseException:  # A device is unusable after a failure or an interrupt, so the next step prepares it again.
        if prepared.release:
            prepared.release.detach()
        prepared.executor = prepared.release = None
        executor.abort()
        raise


def _executor(run: Run, gpus: api.Api) -> Executor:
    programs = [Program(p.manifest, p.constants, code_of(p.manifest.kernels, p.member, gpus)) for p in run.parts]
    ordinal = (run.world.local_rank or 0) if run.world and gpus.machine is None else 0
    limit = time_out_of(os.environ)
    return Executor(programs, gpus, warm_up=gpus.machine is None, world=run.world, ordinal=ordinal, time_out=limit)


def _ranks(run: Run) -> int:
    return sum(part.manifest.mesh.size for part in run.parts)
