"""`meshgen native OUT.mgx`: add a launch table to a module, so that programs without Python can run it."""

from __future__ import annotations

import argparse

from meshgen.commands.output import Output
from meshgen.commands.time_limit import add_time_limit, time_limit
from meshgen.errors import Diagnostic, UsageError
from meshgen.runtime.native.export import SOURCES, write_native


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("module", metavar="OUT.mgx", nargs="?", help="a module for GPUs with static sizes")
    add_time_limit(parser)
    parser.add_argument("-o", "--output", metavar="FILE.mgx", help="output path (default: the module itself)")
    parser.add_argument(
        "--sources", action="store_true", help="print the folder of the loader's C sources: make -C builds them"
    )


def run(options: argparse.Namespace, output: Output) -> int:
    if options.sources:
        output.text(str(SOURCES))
        output.document({"sources": str(SOURCES)})
        return 0
    if not options.module:
        raise UsageError(Diagnostic("MG0001", "a module is missing", hint="meshgen native OUT.mgx"))
    path = options.output or options.module
    with time_limit(options.time_limit):
        members = {name: len(content) for name, content in write_native(options.module, path).items()}
    output.text(f"{path}: {', '.join(f'{name} of {size} bytes' for name, size in members.items())}")
    output.document({"output": path, "members": members})
    return 0
