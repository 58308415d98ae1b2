"""How much of a step's communication hides, by the cost model, with and without chunks. No GPU is needed.

Transformer and expert programs at realistic sizes (`transformers.py`), and `.mlir` files. All figures are predictions for `cuda:sm_90` and the
links of the mesh, so they do not depend on the machine that runs this:

    serial       seconds of all launches, one after the other
    step         of the schedule that was chosen; `whole`: without chunks
    exposed      communication during which nothing computes; `hidden` is the share of communication that is not
    peak         bytes of the arena; `cap` is what the program's own order takes without chunks
    bound        the larger of all computing and all communication, one after the other, without chunks. One that reads all weights
                 before it starts, or sums all gradients at its end, cannot reach it; one may beat it that communicates inside of
                 hosts and across the network at the same time
    floor        below which no order of the launches that were chosen can be: work of one stream between the least time before
                 and the least time after it (a one-machine bound with heads and tails), where what must come before and after
                 takes its longest path or all of its work on one stream
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from meshgen import api
from meshgen.benchmarks.records import Record
from meshgen.benchmarks.suite import Suite, Take, no_options
from meshgen.benchmarks.transformers import chosen
from meshgen.codegen.scheduling.costs import default_costs
from meshgen.codegen.scheduling.schedule import Steps, sequential_bytes
from meshgen.codegen.scheduling.timeline import Task, backwards, longest_paths, one_machine_bound
from meshgen.compiled.executable import Executable
from meshgen.runtime.plan import COMPUTE, STREAMS

TARGET = "cuda:sm_90"
TITLES = {
    "program": "program", "ranks": "ranks", "serial_seconds": "serial (s)", "whole_seconds": "step whole (s)", "step_seconds": "step (s)",
    "bound_seconds": "bound (s)", "over_bound": "step / bound", "over_floor": "step / floor", "exposed_seconds": "exposed (s)",
    "hidden": "hidden", "peak_bytes": "peak (B)", "in_chunks": "in chunks",
}  # fmt: skip


def measured(name: str, program: str, mesh: Any = None) -> Record:
    """The figures of a program, text or path. Raises MeshgenError where it is refused."""
    whole = api.plan(program, mesh, target=TARGET, skip=["chunks"])
    found = api.plan(program, mesh, target=TARGET)
    tasks, cost = _tasks(whole), found.cost
    computing = sum(task.seconds for task in tasks if task.stream == COMPUTE)
    bound = max(computing, sum(task.seconds for task in tasks) - computing)
    least, communication = floor(_tasks(found)), cost.communication_seconds
    return {
        "suite": "overlap",
        "program": name,
        "target": TARGET,
        "ranks": whole.mesh.size,
        "serial_seconds": whole.cost.serial_seconds,
        "whole_seconds": whole.plan.step_seconds,
        "step_seconds": cost.step_seconds,
        "bound_seconds": bound,
        "floor_seconds": least,
        "over_bound": cost.step_seconds / bound if bound else None,
        "over_floor": cost.step_seconds / least if least else None,
        "exposed_whole_seconds": whole.plan.exposed_seconds,
        "exposed_seconds": cost.exposed_seconds,
        "hidden": max(1 - cost.exposed_seconds / communication, 0.0) if communication else None,
        "peak_whole_bytes": whole.plan.arena_bytes,
        "peak_bytes": found.plan.arena_bytes,
        "cap_bytes": sequential_bytes(whole.fused, TARGET),
        "in_chunks": any(each.is_applied for each in found.overlap),
    }


def _tasks(executable: Executable) -> Sequence[Task]:
    return Steps(executable.fused, default_costs(TARGET)).program.tasks


def floor(tasks: Sequence[Task]) -> float:
    """Seconds below which no order can be: for each stream the work that cannot start before some time, between head and tail.

    The head of a launch is what must be over before it: the longest path to it, or all that a stream does of what it needs, whichever
    is longer; its tail so of what needs it.
    """
    before, after = _needed(tasks)
    heads = _ends(tasks, before, longest_paths(backwards(tasks))[::-1])
    tails = _ends(tasks, after, longest_paths(tasks))
    return one_machine_bound(tasks, heads, tails)


def _needed(tasks: Sequence[Task]) -> tuple[list[int], list[int]]:
    """For each task all that it needs, and all that need it, directly or not: a bit per task."""
    before, after = [0] * len(tasks), [0] * len(tasks)
    for number, task in enumerate(tasks):
        for need in task.needs:
            before[number] |= before[need] | 1 << need
    for number in reversed(range(len(tasks))):
        for need in tasks[number].needs:
            after[need] |= after[number] | 1 << number
    return before, after


def _ends(tasks: Sequence[Task], sets: Sequence[int], paths: Sequence[float]) -> list[float]:
    """For each task the least seconds that one side of it takes: a path without the task, or the work of a stream."""
    found = [path - task.seconds for path, task in zip(paths, tasks, strict=True)]
    for stream in range(STREAMS):
        own = [(1 << number, task.seconds) for number, task in enumerate(tasks) if task.stream == stream]
        found = [max(end, sum(s for bit, s in own if bits & bit)) for end, bits in zip(found, sets, strict=True)]
    return found


def run(options: argparse.Namespace, take: Take) -> Mapping[str, Any]:
    """Raises UsageError MG0001, MissingError MG0602; MeshgenError of a program that is refused."""
    for name, text, mesh in chosen(options.names):
        take(measured(name, text, mesh))
    return {}


SUITE = Suite("predicted steps against their bounds, and how much communication hides", TITLES, no_options, run)
