"""The table `ENGINES` of functions that run a loaded module, by device name.

GPU engines are imported when they run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from meshgen.ccl.mesh_transfers import Post
from meshgen.ccl.process_transport import Processes
from meshgen.ccl.world import World
from meshgen.runtime.engine_interfaces import Loaded, Results, Run
from meshgen.runtime.execute import Rank, run_alone
from meshgen.runtime.launch import Launch, evaluated, interpreted
from meshgen.runtime.processes.ranks import gathered
from meshgen.runtime.reference import place_arguments, plan_steps
from meshgen.runtime.simulate import together

Array = np.ndarray[Any, Any]


def on_host(launch_of: Callable[[Loaded], Launch], run: Run) -> Results:
    """Run a step on NumPy: all ranks in lock-step, or only this process's rank if a launcher started several processes.

    Args:
        launch_of: returns the function that runs the kernels of a part.
    """
    if run.world:
        return _one_on_host(launch_of, run, run.world)
    post = Post()
    steps = [
        plan_steps(part.manifest, part.constants, args, launch_of(part), post)
        for part, args in zip(run.parts, run.args, strict=True)
    ]
    return together(steps, post)


def _one_on_host(launch_of: Callable[[Loaded], Launch], run: Run, world: World) -> Results:
    """Run the step of this process's rank, and gather the results of all ranks."""
    network = Processes(world, [part.manifest.mesh for part in run.parts])
    index = [part.manifest.mesh.name for part in run.parts].index(network.mesh.name)
    part = run.parts[index]
    rank = Rank(part.manifest.plan, network.mesh, network.rank, launch_of(part), network.first_rank)
    place_arguments(part.manifest, part.constants, run.args[index], rank.frame, network.rank)
    run_alone(rank, network)
    outputs = [rank.frame.view(binding.buffer) for binding in part.manifest.outputs]
    return gathered(world, [part.manifest for part in run.parts], outputs)


def _evaluated(part: Loaded) -> Launch:
    return evaluated(part.manifest)


def _interpreted(part: Loaded) -> Launch:
    """Return the launch function of Triton's interpreter.

    This engine alone executes code of the module as Python, so the user must choose it by name.
    """
    kernels = part.manifest.kernels.items()
    return interpreted(part.manifest, {n: part.member(k.source).decode() if k.source else "" for n, k in kernels})


def _on_emulated_gpus(run: Run) -> Results:
    from meshgen.runtime.cuda.engines import on_emulated_gpus

    return on_emulated_gpus(run)


def _on_gpus(run: Run) -> Results:
    from meshgen.runtime.cuda.engines import on_gpus

    return on_gpus(run)


LAUNCHES: Mapping[str, Callable[[Loaded], Launch]] = {"reference": _evaluated, "interpret": _interpreted}  # on the host
ENGINES: Mapping[str, Callable[[Run], Results]] = {
    **{name: partial(on_host, launch_of) for name, launch_of in LAUNCHES.items()},
    "emulate": _on_emulated_gpus,
    "cuda": _on_gpus,
}
