"""`meshgen compile IN -o OUT.mgx`: the main job."""

from __future__ import annotations

import argparse
from pathlib import Path

from meshgen import api
from meshgen.commands.common import Output, add_program, add_target, program_options
from meshgen.errors import Diagnostic, UsageError
from meshgen.executable import Executable, kernel_records
from meshgen.tables import comms_table, cost_table, kernel_table, memory_table, seconds_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    add_target(parser)
    parser.add_argument("-o", "--output", metavar="OUT.mgx", required=True, help="where the module is written")
    parser.add_argument("--dump", metavar="DIR", help="write every stage's text and every kernel's source here")
    parser.add_argument("--report", metavar="HTML", help="write the HTML report here")


def run(options: argparse.Namespace, output: Output) -> int:
    with output.progress() as progress:
        executable = api.compile(**program_options(options), target=options.target, progress=progress)
    executable.save(options.output)
    if options.dump:
        dump(executable, Path(options.dump))
    if options.report:
        executable.report(options.report)
    kernels = kernel_records(executable)
    output.tables(
        comms_table(executable.comms), kernel_table(kernels), memory_table(executable.memory),
        cost_table(executable.cost), seconds_table(executable.seconds),
    )  # fmt: skip
    size = Path(options.output).stat().st_size
    output.text(f"{executable.name} for {executable.place}, {executable.target}: {options.output}, {size} bytes")
    output.document(executable.record() | {"output": options.output, "bytes": size, "kernel_list": kernels})
    return 0


def dump(executable: Executable, place: Path) -> None:
    """One numbered file per stage, one per kernel. Raises UsageError MG0003."""
    try:
        (place / "kernels").mkdir(parents=True, exist_ok=True)
        for number, stage in enumerate((*executable.stages, "schedule")):
            (place / f"{number:02}_{stage}.mlir").write_text(executable.as_text(stage))
        for name, source in executable.sources.items():
            (place / "kernels" / f"{name}.py").write_text(source.text)
    except OSError as error:
        raise UsageError(Diagnostic("MG0003", f"'{place}' cannot be written: {error.strerror}")) from error
