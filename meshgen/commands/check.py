"""`meshgen check IN`: law 1 on a program: unpartitioned against all ranks simulated."""

from __future__ import annotations

import argparse

from meshgen.commands.common import Output, add_program, add_target, planned
from meshgen.errors import NumbersDiffer
from meshgen.sharding.oracle import check
from meshgen.tables import comms_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    add_target(parser)
    parser.add_argument("--seed", type=int, default=0, help="of the random arguments (default: %(default)s)")


def run(options: argparse.Namespace, output: Output) -> int:
    executable = planned(options, output)
    result = check(next(iter(executable.stages.values())), pipeline=lambda _: executable.fused, seed=options.seed)
    output.tables(comms_table(executable.comms))
    verdict = "ok" if result.ok else "NUMBERS DIFFER"
    ranks = executable.mesh.size
    output.text(f"{verdict}: largest error {result.max_abs_error:.3g}, allowed {result.tolerance:.3g}; {ranks} ranks")
    for fault in result.faults:
        output.note(str(fault))
    output.document(executable.record() | {"check": result.record()})
    return 0 if result.ok else NumbersDiffer.exit_code
