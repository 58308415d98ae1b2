"""`meshgen check IN`: compare the unpartitioned program with a simulation of all ranks, run from a module file.

Mesh axes and tensor dims of unknown size are tried with several sizes, and the program must pass with all of them.
`--random` checks meshgen itself on generated programs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meshgen import api
from meshgen.commands.combinations import at_combinations
from meshgen.commands.common import add_program, add_target, program
from meshgen.commands.memory import memory_limit, refuse_too_big
from meshgen.commands.output import Output
from meshgen.compiled.executable import Executable
from meshgen.errors import Diagnostic, MeshgenError, NumbersDiffer, UsageError
from meshgen.ir.graph import Module
from meshgen.numbers import natural, positive
from meshgen.pipeline import verify_program
from meshgen.reports.comms import comms_table
from meshgen.reports.tables import counted
from meshgen.sharding.unknown_axes import trial_meshes, trial_shapes
from meshgen.sizes.program import at_mesh, has_open_results, require_known_dims, with_shapes
from meshgen.testing.oracle import CheckResult, check
from meshgen.testing.random_programs import check_random, runner_from_file


@dataclass(frozen=True)
class Trial:
    """The program as planned for one mesh and one combination of sizes, with the result of checking it."""

    executable: Executable
    result: CheckResult

    @property
    def verdict(self) -> str:
        result, meshes = self.result, [part.mesh for part in self.executable.parts]
        start = "ok" if result.ok else "NUMBERS DIFFER"
        error = f"largest error {result.max_abs_error:.3g}, allowed {result.tolerance:.3g}"
        return f"{start}: {error}; {counted(sum(mesh.size for mesh in meshes), 'rank')} of {self.executable.place}"

    def record(self) -> dict[str, Any]:
        comms = self.executable.comms
        return {
            "mesh": self.executable.mesh.by_name,
            "counts": comms.counts,
            "ring_bytes": comms.ring_bytes,
            "check": self.result.record(),
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser, needed=False)
    add_target(parser)
    parser.add_argument(
        "--random", type=positive, metavar="N", help="check N random programs instead of IN; the first has seed --seed"
    )
    parser.add_argument(
        "--keep", metavar="DIR", help="with --random: folder for the reduced programs of failures (default: .)"
    )
    parser.add_argument("--seed", type=natural, default=0, help="seed of the random arguments (default: %(default)s)")
    parser.add_argument(
        "--memory", metavar="SIZE", help="memory that the check may use, such as 64GB (default: the free memory)"
    )


def run(options: argparse.Namespace, output: Output) -> int:
    if options.random is not None and options.program is None:
        return _run_random(options, output)
    if options.random is not None or options.keep is not None:
        text = "--random makes programs up and takes no IN" if options.random else "--keep is for --random"
        raise UsageError(Diagnostic("MG0001", text, hint="leave out one of the two"))
    if options.program is None:
        raise UsageError(
            Diagnostic("MG0001", "a program is missing", hint="name one, or check random ones with --random N")
        )
    trials = _trials(options, output)
    if len(trials) > 1:
        output.note(f"note: sizes are open: tried {len(trials)} combinations; --mesh and --shape name others")
    output.warnings(trials[0].executable.warnings)
    for trial in trials:
        output.tables(comms_table(trial.executable.comms))
        output.text(trial.verdict)
        for fault in trial.result.faults:
            output.note(str(fault))
    shown = next((trial for trial in trials if not trial.result.ok), trials[len(trials) // 2])
    document = shown.executable.record() | {"check": shown.result.record()}
    output.document(document | ({"trials": [trial.record() for trial in trials]} if len(trials) > 1 else {}))
    return 0 if all(trial.result.ok for trial in trials) else NumbersDiffer.exit_code


def _run_random(options: argparse.Namespace, output: Output) -> int:
    with output.progress() as progress:
        failures = check_random(options.random, options.seed, Path(options.keep or "."), progress)
    for failure in failures:
        output.text(str(failure))
    output.text(f"{options.random} random programs from seed {options.seed} on: {len(failures)} failures")
    output.document({"programs": options.random, "failures": [failure.record() for failure in failures]})
    return NumbersDiffer.exit_code if failures else 0


def _trials(options: argparse.Namespace, output: Output) -> Sequence[Trial]:
    limit = memory_limit(options.memory)
    module, choice, timing = program(options)
    trials: list[Trial] = []
    refused: list[MeshgenError] = []
    with output.progress() as progress:
        requested = at_combinations(module, choice, options, output)
        default_trials = {} if requested else _at_trial_sizes(module)
        for sizes, candidate in [*requested.items(), *default_trials.items()]:
            try:
                executable = api.plan_module(candidate, choice, timing, progress=progress)
            except MeshgenError as error:
                if sizes in requested or len(default_trials) == 1:
                    raise
                refused.append(error)
                output.note(f"note: {sizes} is skipped: {error.diagnostics[0].message}")
                continue
            refuse_too_big(candidate, executable, limit)
            fused = executable.fused
            runs = [runner_from_file([part.plan for part in executable.parts])]
            result = check(candidate, pipeline=lambda _, fused=fused: fused, seed=options.seed, runs=runs)
            trials.append(Trial(executable, result))
    if not trials:
        raise refused[0]
    if len(trials) == len(default_trials) == 1 and any(None in value.type.shape for value in module.graph.inputs):
        output.note(f"note: sizes are open: tried {next(iter(default_trials))}; --shape names others")
    return trials


def _at_trial_sizes(module: Module) -> dict[str, Module]:
    """Map texts of trial sizes to the program with these sizes.

    The first trial mesh is tried with several shapes per input, every other mesh with one shape. Sizes that contradict
    the program are skipped.

    Raises:
        MeshgenError: all sizes contradict the program.
    """
    valid_programs: dict[str, Module] = {}
    refused: list[MeshgenError] = []
    for index, mesh in enumerate(trial_meshes(module)):
        placed = at_mesh(module, mesh)
        for shapes in trial_shapes(placed)[: 1 if index else None] or [{}]:
            try:
                candidate = with_shapes(placed, shapes) if shapes or has_open_results(placed) else placed
                verify_program(candidate)
            except MeshgenError as error:
                refused.append(error)
                continue
            shape_texts = (f"{name}={'x'.join(map(str, shape))}" for name, shape in shapes.items())
            valid_programs[" ".join([str(mesh), *shape_texts])] = candidate
    if not valid_programs:
        require_known_dims(module)
        raise refused[-1]
    return valid_programs
