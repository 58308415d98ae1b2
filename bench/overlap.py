"""`python -m bench.overlap [FOLDER]`: how much of a step's communication hides, by the cost model. No GPU is needed.

Transformer and expert programs at realistic sizes (`bench/transformers.py`), and every `*.mlir` in FOLDER: one JSON record per line,
then a Markdown table. All figures are predictions for `cuda:sm_90` and the links of the mesh, so they do not depend on the
machine that runs this. Per program, without chunks and with:

    sequential   seconds of all launches, one after the other
    step         of the schedule that was chosen
    exposed      communication during which nothing computes
    peak         bytes of the arena; `cap` is what the program's own order takes without chunks
    bound        the larger of all computing and all communication without chunks: no order of either program is known to beat it,
                 and one that reads all weights before it starts, or sums all gradients at its end, cannot reach it
    floor        below which no order of the launches that were chosen can be: work of one stream between the least time before
                 and the least time after it (a one-machine bound with heads and tails), where what must come before and after
                 takes its longest path or all of its work on one stream
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.transformers import programs
from meshgen import api
from meshgen.codegen.costs import default_costs
from meshgen.codegen.orders import longest_paths
from meshgen.codegen.schedule import Steps, sequential_bytes
from meshgen.codegen.timeline import Task
from meshgen.compiled.executable import Executable
from meshgen.errors import MeshgenError
from meshgen.runtime.plan import STREAMS

TARGET = "cuda:sm_90"


@dataclass(frozen=True)
class Row:
    """One program. Times in seconds, `whole` without chunks and `step` with them where they pay."""

    program: str
    ranks: int
    sequential: float
    whole: float
    step: float
    bound: float
    floor: float
    exposed_whole: float
    exposed: float
    peak_whole: int
    peak: int
    cap: int
    in_chunks: bool


def measured(name: str, program: str, mesh: object = None) -> Row:
    """The figures of a program, text or path. Raises MeshgenError where it is refused."""
    whole = api.plan(program, mesh, target=TARGET, skip=["chunks"])  # pyright: ignore[reportArgumentType]
    found = api.plan(program, mesh, target=TARGET)  # pyright: ignore[reportArgumentType]
    tasks = _tasks(whole)
    return Row(
        program=name,
        ranks=whole.mesh.size,
        sequential=whole.cost.serial_seconds,
        whole=whole.plan.step_seconds,
        step=found.plan.step_seconds,
        bound=max(sum(task.seconds for task in tasks if task.stream == stream) for stream in range(STREAMS)),
        floor=floor(_tasks(found)),
        exposed_whole=whole.plan.exposed_seconds,
        exposed=found.plan.exposed_seconds,
        peak_whole=whole.plan.arena_bytes,
        peak=found.plan.arena_bytes,
        cap=sequential_bytes(whole.fused, TARGET),
        in_chunks=any(each.is_applied for each in found.overlap),
    )


def _tasks(executable: Executable) -> Sequence[Task]:
    return Steps(executable.fused, default_costs(TARGET)).program.tasks


def floor(tasks: Sequence[Task]) -> float:
    """Seconds below which no order can be: for each stream the work that cannot start before some time, between head and tail.

    The head of a launch is what must be over before it: the longest path to it, or all that a stream does of what it needs, whichever
    is longer; its tail so of what needs it.
    """
    before, after = _needed(tasks)
    heads = _ends(tasks, before, longest_paths(_reversed(tasks))[::-1])
    tails = _ends(tasks, after, longest_paths(tasks))
    found = max((head + task.seconds + tail for head, task, tail in zip(heads, tasks, tails, strict=True)), default=0.0)
    for stream in range(STREAMS):
        mine = sorted((n for n, task in enumerate(tasks) if task.stream == stream), key=lambda n: -heads[n])
        work, tail = 0.0, math.inf
        for (
            number
        ) in mine:  # those that start latest first: of each such set the first to start and the last to end count
            work += tasks[number].seconds
            tail = min(tail, tails[number])
            found = max(found, heads[number] + work + tail)
    return found


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


def _reversed(tasks: Sequence[Task]) -> list[Task]:
    """The same tasks with time running backwards."""
    users: list[list[int]] = [[] for _ in tasks]
    for number, task in enumerate(tasks):
        for need in task.needs:
            users[need].append(len(tasks) - 1 - number)
    return [replace(task, needs=tuple(own)) for task, own in zip(reversed(tasks), reversed(users), strict=True)]


def _ends(tasks: Sequence[Task], sets: Sequence[int], paths: Sequence[float]) -> list[float]:
    """For each task the least seconds that one side of it takes: a path without the task, or the work of a stream."""
    found = [path - task.seconds for path, task in zip(paths, tasks, strict=True)]
    for stream in range(STREAMS):
        own = [(1 << number, task.seconds) for number, task in enumerate(tasks) if task.stream == stream]
        found = [max(end, sum(s for bit, s in own if bits & bit)) for end, bits in zip(found, sets, strict=True)]
    return found


def rows(folder: Path | None) -> Iterator[Row]:
    for program in programs():
        yield measured(program.name, program.text(), program.mesh)
    for path in sorted(folder.glob("*.mlir")) if folder else ():
        try:
            yield measured(path.name.partition(".")[0], str(path))
        except MeshgenError as error:
            sys.stderr.write(f"{path.name}: {error}\n")


def table(found: Sequence[Row]) -> str:
    """A Markdown table, and the geometric mean of step over bound and over floor of training programs."""
    lines = [
        "| program | sequential | step whole | step | bound | step / bound | step / floor | exposed whole | exposed | peak whole | peak |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in found:
        times = (row.sequential, row.whole, row.step, row.bound)
        cells = [row.program, *(f"{seconds * 1e3:.2f} ms" for seconds in times)]
        cells += [f"{row.step / row.bound:.3f}", f"{row.step / row.floor:.3f}"]
        cells += [f"{seconds * 1e3:.2f} ms" for seconds in (row.exposed_whole, row.exposed)]
        cells += [f"{nbytes / 1e6:.0f} MB" for nbytes in (row.peak_whole, row.peak)]
        lines.append(f"| {' | '.join(cells)} |")
    training = [row for row in found if "train" in row.program]
    for name, bounds in (("bound", [r.bound for r in training]), ("floor", [r.floor for r in training])):
        ratios = [row.step / bound for row, bound in zip(training, bounds, strict=True)]
        lines.append(
            f"\nTraining, geometric mean of step / {name}: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}"
        )
    return "\n".join(lines)


def main(folder: str = "") -> int:
    found: list[Row] = []
    try:
        for row in rows(Path(folder) if folder else None):
            found.append(row)
            sys.stdout.write(json.dumps(asdict(row)) + "\n")
            sys.stdout.flush()
    except MeshgenError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(table(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
