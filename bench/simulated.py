"""`python -m bench.simulated`: simulated steps compared with explained steps, of twenty programs on every built-in
machine. No GPU is needed.

The programs are transformer and expert programs of hidden size 1024 on 16 ranks, `examples/transformer_block.mlir`, and
random programs with loops and branches. Each program is planned for each machine, and simulated without and with the
slowdown of kernels beside collectives:

    explain     the predicted step, in microseconds
    ideal       simulated step / predicted step without contention: 1 within 1 %
    contended   the same ratio with the machine's slowdown: at least 1
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from meshgen import api
from meshgen.benchmarks.transformers import programs
from meshgen.frontend.arguments import with_machine
from meshgen.ir.graph import Module
from meshgen.machine.profiles import MACHINES
from meshgen.pipeline import Options, Timing
from meshgen.testing.random_programs import program_of

SEEDS = (1, 2, 12, 14, 19, 20, 28, 35, 37, 75)
EXAMPLE = Path(__file__).parent.parent / "examples" / "transformer_block.mlir"
MOST = 20  # programs, chosen


def chosen() -> Iterator[tuple[str, Module]]:
    """Yield the name of each program and the program."""
    yield "transformer_block", api.lower(EXAMPLE, stage="import")
    yield from ((f"random {seed}", program_of(seed)) for seed in SEEDS)
    for program in programs([1024], (16,)):
        yield program.name, api.lower(program.text(), stage="import")


def row(module: Module, machine: str) -> tuple[float, float, float]:
    """Return the predicted step in seconds, and two ratios to it: the simulated step without contention, and with
    contention.
    """
    profile = MACHINES[machine]
    executable = api.plan_module(with_machine(module, profile), Options("cpu"), Timing())
    step = executable.cost.step_seconds
    ideal = api.simulate(executable, replace(profile, overlap_slowdown=0.0)).step_seconds
    return step, ideal / step, api.simulate(executable, profile).step_seconds / step


def main() -> int:
    write, worst = sys.stdout.write, 0.0
    write("| program | machine | explain | ideal | contended |\n| --- | --- | --- | --- | --- |\n")
    for name, module in list(chosen())[:MOST]:
        for machine in MACHINES:
            step, ideal, contended = row(module, machine)
            worst = max(worst, abs(ideal - 1))
            write(f"| {name} | {machine} | {step * 1e6:.4g} us | {ideal:.6f} | {contended:.3f} |\n")
            sys.stdout.flush()
    write(f"\nLargest difference where nothing contends: {worst:.2e}\n")
    return int(worst > 0.01)


if __name__ == "__main__":
    raise SystemExit(main())
