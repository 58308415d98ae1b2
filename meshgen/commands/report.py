"""`meshgen report IN -o OUT.html`: one offline page about a program."""

from __future__ import annotations

import argparse

from meshgen.commands.common import add_program, add_target, planned
from meshgen.commands.output import Output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    add_target(parser)
    parser.add_argument("-o", "--output", default="report.html", help="default: %(default)s")


def run(options: argparse.Namespace, output: Output) -> int:
    executable = planned(options, output)
    executable.report(options.output)
    output.text(options.output)
    output.document(executable.record() | {"output": options.output})
    return 0
