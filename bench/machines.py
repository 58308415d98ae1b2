"""`python -m bench.machines`: plans of the same programs for different machines. No GPU is needed.

Transformer and expert programs (`meshgen/benchmarks/transformers.py`, two layers of hidden size 4096) on 2 and on 16 hosts of 8 GPUs, for each built-in
machine: one JSON record per line, then a Markdown table. `tp` is inside a host and `dp` between hosts, or `dp` is over both (`zero3`,
`ep`). All figures are predictions, so they do not depend on the machine that runs this:

    step        of the schedule, and communication in it that nothing hides
    one host    the step on that machine (`meshgen simulate`) of the plan for one host of any size, and of the plan for the machine
    links       per class of links the axes, collectives, bytes and seconds of collectives that reach it and none further out
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
    """One program on one machine. Seconds; `unaware` and `aware` are simulated, of the plan for one host and of this plan."""

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
    """Training steps, and the forward pass of experts, per number of ranks."""
    return [program for program in programs([HIDDEN], RANKS) if program.kind in KINDS]


def rows() -> Iterator[Row]:
    for program in chosen():
        text = program.text()
        for machine in MACHINES:
            if machine != DEFAULT_MACHINE:  # the others are hosts of some size
                yield measured(program, text, machine)


def measured(program: Program, text: str, machine: str) -> Row:
    """The figures of a program on a machine."""
    found = api.plan(text, machine=machine)
    plain = api.plan(text, machine=one_host(MACHINES[machine]))
    return Row(
        program=program.name,
        ranks=program.ranks,
        machine=machine,
        step=found.cost.step_seconds,
        exposed=found.cost.exposed_seconds,
        unaware=api.simulate(plain, machine).step_seconds,
        aware=api.simulate(found, machine).step_seconds,
        counts=found.comms.counts,
        links=[each.record() for each in link_classes(found)],
        peak_bytes=found.memory.peak_bytes,
    )


def one_host(machine: Machine) -> Machine:
    """The machine as if all its devices were in one host."""
    return replace(machine, name=f"{machine.name}, one host", links=(replace(machine.links[0], devices=None),))


def table(found: Sequence[Row]) -> str:
    lines = [
        "| program | machine | step | exposed | planned for one host | planned for it | collectives | links |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in found:
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
    found: list[Row] = []
    try:
        for row in rows():
            found.append(row)
            sys.stdout.write(json.dumps(asdict(row)) + "\n")
            sys.stdout.flush()
    except MeshgenError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(table(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
