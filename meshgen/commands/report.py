"""`meshgen report IN -o OUT.html`: write one offline page about a program."""

from __future__ import annotations

import argparse
import shlex

from meshgen.commands.common import add_program, add_target, module_named, planned
from meshgen.commands.output import Output
from meshgen.printable import printable
from meshgen.reports.report import write_report
from meshgen.runtime.open_module import OpenModule


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    add_target(parser)
    parser.add_argument("-o", "--output", default="report.html", help="path of the report (default: %(default)s)")


def run(options: argparse.Namespace, output: Output) -> int:
    executable = planned(options, output)
    loaded = module_named(options)
    command = printable(f"meshgen report {shlex.join(options.words)}")
    write_report(executable, options.output, command, None if isinstance(loaded, OpenModule) else loaded)
    output.text(options.output)
    output.document(executable.record() | {"output": options.output})
    return 0
