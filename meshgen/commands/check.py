"""`meshgen check IN`: law 1 on a program: unpartitioned against all ranks simulated."""

from __future__ import annotations

import argparse
from typing import Any

from meshgen import api
from meshgen.commands.common import Output, add_program, add_target, program_options
from meshgen.errors import NumbersDiffer
from meshgen.executable import Executable
from meshgen.tables import comms_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    add_target(parser)
    parser.add_argument("--seed", type=int, default=0, help="of the random arguments (default: %(default)s)")


def run(options: argparse.Namespace, output: Output) -> int:
    with output.progress() as progress:
        executable = api.plan(**program_options(options), target=options.target, progress=progress)
    outcome = law_one(executable, options.seed)
    output.tables(comms_table(executable.comms))
    verdict = "ok" if outcome["ok"] else "NUMBERS DIFFER"
    output.text(
        f"{verdict}: max error {outcome['max_abs_error']:.3g}, tolerance {outcome['tolerance']:.3g}, {executable.mesh.size} ranks"
    )
    output.document(executable.record() | {"check": outcome})
    return 0 if outcome["ok"] else NumbersDiffer.exit_code


def law_one(executable: Executable, seed: int) -> dict[str, Any]:
    """The oracle's verdict on the fused program, as a record."""
    raise AssertionError("the oracle is not there")
