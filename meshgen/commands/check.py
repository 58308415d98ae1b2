"""`meshgen check IN`: law 1 on a program: unpartitioned against all ranks simulated."""

from __future__ import annotations

import argparse

from meshgen import api
from meshgen.commands.common import Output, add_program, add_target, program_options
from meshgen.errors import Diagnostic, NumbersDiffer, UsageError
from meshgen.executable import Executable
from meshgen.ir.graph import Module
from meshgen.sharding.oracle import check
from meshgen.tables import comms_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    add_target(parser)
    parser.add_argument("--seed", type=int, default=0, help="of the random arguments (default: %(default)s)")


def run(options: argparse.Namespace, output: Output) -> int:
    with output.progress() as progress:
        executable = api.plan(**program_options(options), target=options.target, progress=progress)
    result = check(_import_stage(executable), pipeline=lambda _: executable.fused, seed=options.seed)
    output.tables(comms_table(executable.comms))
    verdict = "ok" if result.ok else "NUMBERS DIFFER"
    ranks = executable.mesh.size
    output.text(f"{verdict}: largest error {result.max_abs_error:.3g}, allowed {result.tolerance:.3g}; {ranks} ranks")
    for fault in result.faults:
        output.note(str(fault))
    output.document(executable.record() | {"check": result.record()})
    return 0 if result.ok else NumbersDiffer.exit_code


def _import_stage(executable: Executable) -> Module:
    """The unpartitioned program. Raises UsageError where the text entered after it."""
    if "import" in executable.stages:
        return executable.stages["import"]
    entered = next(iter(executable.stages))
    hint = "give the program as it was before propagation"
    raise UsageError(
        Diagnostic("MG0001", f"the program is at stage '{entered}': its unpartitioned form is not known", hint=hint)
    )
