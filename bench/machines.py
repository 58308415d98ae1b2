"""`python -m bench.machines`: plans of the same programs for different machines. No GPU is needed.

Transformer and expert programs (`meshgen/benchmarks/transformers.py`, two layers of hidden size 4096) are planned for 2
and for 16 hosts of 8 GPUs, on each built-in machine. The output is one JSON record per line, then a Markdown table.
`tp` is inside a host and `dp` between hosts, or `dp` is over both (`zero3`, `ep`). All figures are predictions, so they
do not depend on the machine that runs this:

    step        step of the schedule, and its exposed communication
    one host    simulated step on the machine (`meshgen simulate`) of the plan for one host of any size, and of the plan
    for the machine
    links       per class of links: axes, collectives, bytes and seconds of the collectives whose outermost link is of
    this class
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from meshgen import api
from meshgen.benchmarks.transformers import Program, programs
from meshgen.errors import MeshgenError
from meshgen.machine.profiles import DEFAULT_MACHINE, MACHINES, Machine
from meshgen.reports.link_classes import link_classes
from meshgen.reports.tables import bytes_text

HIDDEN, RANKS = 4096, (16, 128)
KINDS = ("dp_tp", "dp_tp_sp", "fsdp_tp", "zero3", "ep")


@dataclass(frozen=True)
class Row:
    """Figures of a program on a machine.

    `unaware` is the simulated step of a plan that ignores hosts (it assumes that all devices are in one host), in
    seconds. `aware` is that of the plan for the machine.
    """

    program: str
    ranks: int
    machine: str
    step: float
    exposed: float
    unaware: float
    aware: float
    counts: dict[str, int]
    links: list[dict[str, Any]]
    peak_bytes: int


def chosen() -> list[Program]:
    """Return the benchmarked programs for each number of ranks: training steps, and the forward pass of experts."""
    return [program for program in programs([HIDDEN], RANKS) if program.kind in KINDS]


def rows() -> Iterator[Row]:
    for program in chosen():
        text = program.text()
        for machine in MACHINES:
            if machine != DEFAULT_MACHINE:  # all other machines have hosts with a limited number of devices
                yield measured(program, text, machine)


def measured(program: Program, text: str, machine: str) -> Row:
    """Return the figures of a program on a machine."""
    executable = api.plan(text, machine=machine)
    one_host_plan = api.plan(text, machine=one_host(MACHINES[machine]))
    return Row(
        program=program.name,
        ranks=program.ranks,
        machine=machine,
        step=executable.cost.step_seconds,
        exposed=executable.cost.exposed_seconds,
        unaware=api.simulate(one_host_plan, machine).step_seconds,
        aware=api.simulate(executable, machine).step_seconds,
        counts=executable.comms.counts,
        links=[link.record() for link in link_classes(executable)],
        peak_bytes=executable.memory.peak_bytes,
    )


def one_host(machine: Machine) -> Machine:
    """Return `machine` with all its devices in a single host."""
    return replace(machine, name=f"{machine.name}, one host", links=(replace(machine.links[0], devices=None),))


def table(measured_rows: Sequence[Row]) -> str:
    lines = [
        "| program | machine | step | exposed | planned for one host | planned for it | collectives | links |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in measured_rows:
        cells = [
            row.program,
            row.machine,
            *(f"{s * 1e3:.2f} ms" for s in (row.step, row.exposed, row.unaware, row.aware)),
        ]
        cells += [
            ", ".join(f"{count} {kind}" for kind, count in row.counts.items()),
            "; ".join(map(_link_text, row.links)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _link_text(link: dict[str, Any]) -> str:
    return f"{link['name']} ({','.join(link['axes'])}): {link['times']}, {bytes_text(link['ring_bytes'])}, {link['seconds'] * 1e3:.2f} ms"


def main() -> int:
    measured_rows: list[Row] = []
    try:
        for row in rows():
            measured_rows.append(row)
            sys.stdout.write(json.dumps(asdict(row)) + "\n")
            sys.stdout.flush()
    except MeshgenError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(table(measured_rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
