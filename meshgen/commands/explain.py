"""`meshgen explain IN [VALUE|LINE]`: why each collective and sharding is as it is, and what the step costs."""

from __future__ import annotations

import argparse

from meshgen.commands.common import Output, add_program, add_target, planned
from meshgen.explain import explanations
from meshgen.tables import cost_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    add_target(parser)
    parser.add_argument("what", nargs="?", metavar="VALUE|LINE", help="a value's name, or a line of the program")


def run(options: argparse.Namespace, output: Output) -> int:
    executable = planned(options, output)
    what = int(options.what) if options.what and options.what.isdigit() else options.what
    if what is None:
        output.tables(cost_table(executable.cost))
    output.text(executable.explain(what))
    output.document(executable.record() | {"explanations": explanations(executable, what)})
    return 0
