"""Seed random faults in plans, lowered collectives, launches and captures.

    python -m tests.runtime.cuda.seed_faults --count 500

A fault must cause an error or change the results. Without a fault, every program must be bitwise equal to the simulated
ranks. A removed wait may also be redundant, if the plan checker proves it. All kinds of faults are equally frequent.
Prints the verdicts by kind of fault.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from meshgen.ccl.steps import Group, Lowered, Messages, Step
from meshgen.errors import MeshgenError, ScheduleError
from meshgen.runtime.cuda import graph
from meshgen.runtime.cuda.collectives import RankWork
from meshgen.runtime.cuda.device import ParameterBlock
from meshgen.runtime.cuda.execute import Executor
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.plan import Schedule
from meshgen.runtime.validation.checker import check
from tests.emulator.programs import programs_in, say
from tests.programs import mlp
from tests.runtime.cuda.steps import arguments, filled, gpus, on_gpus, planned, programs, same_bits

MLIR = Path(__file__).parents[2] / "data" / "mlir"
PROGRAMS = ["a06_mlp_sequence_parallel", "a09_mlp_dp_tp", "b06_k_scatter_cols", "b11_summa", "b12b_uneven_k", "c08_swap",
            "c17_move_both", "c22_uneven_gather", "c30_even_to_offsets", "c37_three_cycle", "h06b_reduce_scatter_order",
            "h15b_update_halo_2d"]  # fmt: skip
OWN = [mlp(y=("x", "y")), *(str(MLIR / f"{name}.mlir") for name in PROGRAMS)]


class FaultDoesNotApply(Exception):
    """The fault does not apply to this program."""


def one_of(rng: random.Random, choices: Sequence[Any]) -> Any:
    if not choices:
        raise FaultDoesNotApply
    return rng.choice(choices)


def works_of(executor: Executor, kind: type) -> list[RankWork]:
    """Return the work of each rank for each collective that has a step of type `kind`."""
    works = [work for by_rank in executor.parts[0].frame.works.values() for work in by_rank.values()]
    return [work for work in works if any(isinstance(step, kind) for step in work.lowered.steps)]


def change_step(rng: random.Random, executor: Executor, kind: type, change: Callable[[Any], Step | None]) -> None:
    """Apply `change` to a random step of type `kind` of a random rank. The step is removed if `change` returns None."""
    work: RankWork = one_of(rng, works_of(executor, kind))
    steps = list(work.lowered.steps)
    index = one_of(rng, [n for n, step in enumerate(steps) if isinstance(step, kind)])
    changed = change(steps[index])
    steps[index : index + 1] = [] if changed is None else [changed]
    work.lowered = Lowered(tuple(steps), work.lowered.scratch_bytes)


def wrong_count(rng: random.Random, executor: Executor) -> None:
    change_step(rng, executor, Group, lambda step: replace(step, count=step.count - 1))


def wrong_type(rng: random.Random, executor: Executor) -> None:
    change_step(rng, executor, Group, lambda step: replace(step, dtype="i8"))


def left_out_call(rng: random.Random, executor: Executor) -> None:
    change_step(rng, executor, Group, lambda step: None)


def changed_messages(rng: random.Random, executor: Executor, change: Callable[[Any], list[Any]]) -> None:
    def messages(step: Messages) -> Messages:
        if not step.sends:
            raise FaultDoesNotApply
        index = rng.randrange(len(step.sends))
        return replace(step, sends=(*step.sends[:index], *change(step.sends[index]), *step.sends[index + 1 :]))

    change_step(rng, executor, Messages, messages)


def wrong_peer(rng: random.Random, executor: Executor) -> None:
    count = len(executor.devices)
    changed_messages(rng, executor, lambda m: [m._replace(peer=(m.peer + rng.randrange(1, count)) % count)])


def left_out_message(rng: random.Random, executor: Executor) -> None:
    changed_messages(rng, executor, lambda message: [])


def short_message(rng: random.Random, executor: Executor) -> None:
    def shortened(message: Any) -> list[Any]:
        if message.box.size < 2:
            raise FaultDoesNotApply
        return [message._replace(box=message.box.flat(0, message.box.size - 1))]

    changed_messages(rng, executor, shortened)


def swapped_collectives(rng: random.Random, executor: Executor) -> None:
    """On one rank, swap two collectives on the same communicator."""
    frame = executor.parts[0].frame
    calls = {n: next((s for s in w[0].lowered.steps if isinstance(s, Group)), None) for n, w in frame.works.items()}
    pairs = [
        (a, b) for a, left in calls.items() for b, right in calls.items()
        if a < b and left and right and left.axes == right.axes and (left.kind, left.count) != (right.kind, right.count)
    ]  # fmt: skip
    first, second = one_of(rng, pairs)
    rank = one_of(rng, frame.ranks)
    frame.works[first][rank], frame.works[second][rank] = frame.works[second][rank], frame.works[first][rank]


def wrong_pointer(rng: random.Random, executor: Executor) -> None:
    """Add 256 bytes to a pointer parameter of one launch."""
    launches = [
        launch for by_rank in executor.parts[0].frame.launches.values() for launch in by_rank.values() if launch
    ]
    block: ParameterBlock = one_of(rng, launches).parameters
    one_of(rng, block._cells).value += 256


LATE = {f.__name__: f for f in (wrong_count, wrong_type, left_out_call, wrong_peer, left_out_message, short_message,
                                swapped_collectives, wrong_pointer)}  # fmt: skip


def left_out_wait(rng: random.Random, plan: Schedule) -> Schedule:
    index = one_of(rng, [n for n, item in enumerate(plan.items) if item.waits])
    items = list(plan.items)
    waits = list(items[index].waits)
    waits.remove(one_of(rng, waits))
    items[index] = replace(items[index], waits=tuple(waits))
    return replace(plan, items=tuple(items))


def short_arena(rng: random.Random, plan: Schedule) -> Schedule:
    """Make the arena one byte too short for its last buffer.

    Ignores scratch, because some ranks may need less of it than planned.
    """
    not_scratch = {n for item in plan.items for n in (*item.inputs, *item.outputs) if plan.buffers[n].type.nbytes}
    return replace(plan, arena_bytes=max(plan.buffers[n].end for n in not_scratch) - 1)


EARLY = {f.__name__: f for f in (left_out_wait, short_arena)}
CAPTURE = ("fork", "join")
KINDS = (*LATE, *EARLY, *CAPTURE)


def verdict(rng: random.Random, module: LoadedModule, fault: str) -> str:
    """Return `seen` or `unseen`, or `needless` for a removed wait that the plan checker proves redundant."""
    inputs = arguments(module)
    plan = EARLY[fault](rng, module.schedule) if fault in EARLY else module.schedule
    original_functions = {name: getattr(graph, name) for name in CAPTURE}
    try:
        executor = Executor(programs(module, lambda _: plan), gpus(module, rng.randrange(99)))
        if fault in LATE:
            LATE[fault](rng, executor)
        if fault in CAPTURE:
            setattr(graph, fault, lambda *args: None)
        results = executor.run(filled(module, inputs))[0]
    except MeshgenError:
        return "seen"
    finally:
        for name, function in original_functions.items():
            setattr(graph, name, function)
    if any(not np.array_equal(result, expected) for result, expected in zip(results, module.run(inputs), strict=True)):
        return "seen"
    return "needless" if fault == "left_out_wait" and is_proven(module, plan) else "unseen"


def is_proven(module: LoadedModule, plan: Schedule) -> bool:
    try:
        check(plan, module.mesh)
    except ScheduleError:
        return False
    return True


def require_right(module: LoadedModule) -> None:
    """Check that the program gives the expected bits without a fault."""
    results = on_gpus(module, inputs := arguments(module))
    assert all(map(same_bits, results, module.run(inputs))), module.name


def verdict_anywhere(rng: random.Random, modules: Sequence[LoadedModule], fault: str) -> str:
    """Return the verdict on `fault` in the first of the shuffled programs to which it applies."""
    for module in rng.sample(modules, len(modules)):
        with contextlib.suppress(FaultDoesNotApply):
            return verdict(rng, module, fault)
    raise FaultDoesNotApply


def run(count: int, seed: int, modules: Sequence[LoadedModule]) -> Counter[tuple[str, str]]:
    """Count the verdicts on `count` random faults for each kind of fault."""
    rng, verdicts = random.Random(seed), Counter[tuple[str, str]]()
    for number in range(count):
        fault = KINDS[number % len(KINDS)]
        verdicts[fault, verdict_anywhere(rng, modules, fault)] += 1
    return verdicts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "programs", type=Path, nargs="*", help="files, or folders of .shardy.mlir files; default: programs of the tests"
    )
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    files = [f for path in options.programs for f in (programs_in(path, 1000) if path.is_dir() else [path])]
    texts = [str(file) for file in files] or OWN
    with tempfile.TemporaryDirectory() as folder:
        modules = [planned(text, Path(folder)) for text in texts]
        for module in modules:
            require_right(module)
        table = run(options.count, options.seed, modules)
    for (fault, outcome), count in sorted(table.items()):
        say(f"{fault:24}{outcome:12}{count}")
    unseen = sum(count for (_, outcome), count in table.items() if outcome == "unseen")
    say(
        f"{table.total()} faults in {len(modules)} programs, seed {options.seed}: {1 - unseen / table.total():.1%} seen or proven needless"
    )
    return int(unseen > 0)


if __name__ == "__main__":
    sys.exit(main())
