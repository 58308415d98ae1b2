"""The predicted fraction of a step's communication that overlaps with compute, with and without chunks. No GPU is
needed.

The programs are transformers and mixtures of experts at realistic sizes (`transformers.py`), and `.mlir` files. All
figures are predictions for `cuda:sm_90` and the links of the mesh, so they do not depend on the machine that runs this:

    serial       seconds of all launches, one after the other
    step         seconds of the chosen schedule; `whole`: without chunks
    exposed      seconds of communication without concurrent compute; `hidden` is the other fraction of communication
    peak         bytes of the arena; `cap` is the arena of the program's own order without chunks
    bound        seconds of all compute or of all communication without chunks, whichever is more. A step that reads all
    weights
                 before it starts, or sums all gradients at its end, cannot reach it. A step that communicates inside
                 hosts
                 and across the network at the same time can be faster.
    floor        lower bound on the seconds of any order of the chosen launches (a one-machine bound with heads and
    tails):
                 the work of one stream, between the least time before it and the least time after it. Both times are
                 the
                 larger of the longest path and the work of one stream.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from meshgen import api
from meshgen.benchmarks.records import Record
from meshgen.benchmarks.suite import Suite, Take, no_options
from meshgen.benchmarks.transformers import selected_programs
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


def overlap_record(name: str, program: str, mesh: Any = None) -> Record:
    """Return the record of `program`, which is a text or a path. Raises MeshgenError if the program is invalid."""
    unchunked = api.plan(program, mesh, target=TARGET, skip=["chunks"])
    chunked = api.plan(program, mesh, target=TARGET)
    tasks, cost = _tasks(unchunked), chunked.cost
    computing = sum(task.seconds for task in tasks if task.stream == COMPUTE)
    bound = max(computing, sum(task.seconds for task in tasks) - computing)
    floor_seconds, communication = floor(_tasks(chunked)), cost.communication_seconds
    return {
        "suite": "overlap",
        "program": name,
        "target": TARGET,
        "ranks": unchunked.mesh.size,
        "serial_seconds": unchunked.cost.serial_seconds,
        "whole_seconds": unchunked.plan.step_seconds,
        "step_seconds": cost.step_seconds,
        "bound_seconds": bound,
        "floor_seconds": floor_seconds,
        "over_bound": cost.step_seconds / bound if bound else None,
        "over_floor": cost.step_seconds / floor_seconds if floor_seconds else None,
        "exposed_whole_seconds": unchunked.plan.exposed_seconds,
        "exposed_seconds": cost.exposed_seconds,
        "hidden": max(1 - cost.exposed_seconds / communication, 0.0) if communication else None,
        "peak_whole_bytes": unchunked.plan.arena_bytes,
        "peak_bytes": chunked.plan.arena_bytes,
        "cap_bytes": sequential_bytes(unchunked.fused, TARGET),
        "in_chunks": any(overlap.is_applied for overlap in chunked.overlap),
    }


def _tasks(executable: Executable) -> Sequence[Task]:
    return Steps(executable.fused, default_costs(TARGET)).program.tasks


def floor(tasks: Sequence[Task]) -> float:
    """Return a lower bound on the seconds of any order of `tasks`: the largest one-machine bound over the streams.

    The head of a task is the least time before it starts: the longest path to it, or the work of one stream that it
    depends on,
    whichever is longer. The tail of a task is defined in the same way over the tasks that depend on it.
    """
    before, after = _needed(tasks)
    heads = _ends(tasks, before, longest_paths(backwards(tasks))[::-1])
    tails = _ends(tasks, after, longest_paths(tasks))
    return one_machine_bound(tasks, heads, tails)


def _needed(tasks: Sequence[Task]) -> tuple[list[int], list[int]]:
    """Return for each task its transitive predecessors and its transitive successors, as bit sets."""
    before, after = [0] * len(tasks), [0] * len(tasks)
    for index, task in enumerate(tasks):
        for predecessor in task.needs:
            before[index] |= before[predecessor] | 1 << predecessor
    for index in reversed(range(len(tasks))):
        for predecessor in tasks[index].needs:
            after[predecessor] |= after[index] | 1 << index
    return before, after


def _ends(tasks: Sequence[Task], sets: Sequence[int], paths: Sequence[float]) -> list[float]:
    """Return for each task the least seconds before it (or after it). `sets` are the tasks before (after) it, and
    `paths` the longest paths through them including the task. The result is the larger of the path without the task and
    the work of the busiest stream in the set.
    """
    ends = [path - task.seconds for path, task in zip(paths, tasks, strict=True)]
    for stream in range(STREAMS):
        stream_tasks = [(1 << index, task.seconds) for index, task in enumerate(tasks) if task.stream == stream]
        ends = [max(end, sum(s for bit, s in stream_tasks if bits & bit)) for end, bits in zip(ends, sets, strict=True)]
    return ends


def run(options: argparse.Namespace, take: Take) -> Mapping[str, Any]:
    """Plan each program and predict its overlap. Raises UsageError MG0001, MissingError MG0602; MeshgenError for
    invalid programs.
    """
    for name, text, mesh in selected_programs(options.names):
        take(overlap_record(name, text, mesh))
    return {}


SUITE = Suite(
    "predicted steps compared with their bounds, and the fraction of communication that overlaps",
    TITLES,
    no_options,
    run,
)
