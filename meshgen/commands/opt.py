"""`meshgen opt IN --passes a,b,c`: run stages or single passes on a program and print the result."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from meshgen import api
from meshgen.commands.common import add_program, source_of
from meshgen.commands.options import OF_PROGRAM, chosen_options
from meshgen.commands.output import Output
from meshgen.errors import UsageError
from meshgen.ir.graph import Module
from meshgen.options import CompileOptions
from meshgen.pipeline import STAGES, Options, Timing, context_of, run_pass, run_stage, unknown_passes
from meshgen.runtime.module_file.files import write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    stages = ", ".join(STAGES)
    parser.add_argument(
        "--passes",
        default="",
        metavar="A,B,...",
        help=f"stages ({stages}) or single passes (--list-passes), in the order in which they run (default: none; the program is printed unchanged)",
    )
    parser.add_argument("--skip", metavar="NAME", action="append", default=[], help="a pass that the stages skip")
    parser.add_argument(
        "--print-after",
        metavar="NAME",
        action="append",
        default=[],
        help="print the program to stderr after this pass or stage if it changed the program; `all` for every pass and stage",
    )
    parser.add_argument(
        "--dialect",
        choices=("meshgen", "upstream"),
        default="meshgen",
        help="dialect in which the program is printed; `upstream` is readable by mlir-opt of LLVM 22, for stages up to partition",
    )
    parser.add_argument("--list-passes", action=_ListPasses, nargs=0, help="list all passes and exit")
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="output path (default: stdout)")


def run(options: argparse.Namespace, output: Output) -> int:
    from meshgen.mlir.text import print_text
    from meshgen.mlir.upstream.module import print_upstream

    chosen, timing = CompileOptions(**chosen_options(options, OF_PROGRAM)), Timing()
    names = [name for name in options.passes.split(",") if name]
    watched = [name for name in options.print_after if name != "all"]
    if faults := unknown_passes(name for name in [*names, *watched] if name not in STAGES):
        raise UsageError(*faults)
    of_stages = Options("cpu", chosen.arguments, skip=tuple(options.skip))
    show = _program_printer(options.print_after)
    context = replace(context_of(of_stages, timing), skip=frozenset(options.skip), show=show)
    with timing.of("import"):
        module, _ = api.read_with(*source_of(options), chosen)
    for name in names:
        with timing.of(name):
            if name in STAGES:
                module = run_stage(name, module, context)
                context.changed(name, module)
            else:
                module = run_pass(name, module, context)
    text = print_upstream(module) if options.dialect == "upstream" else print_text(module)
    if options.output != "-":
        write_text(Path(options.output), text)
    else:
        output.text(text)
    output.document({"stage": module.stage, "text": text, "seconds": timing.seconds})
    return 0


def _program_printer(watched: Sequence[str]) -> Any:
    """Return a function that prints the program after each pass or stage in `watched`, or None if `watched` is empty."""
    if not watched:
        return None

    def show(name: str, module: Module) -> None:
        from meshgen.mlir.text import print_text

        if name in watched or "all" in watched:
            sys.stderr.write(f"// ----- after {name} -----\n{print_text(module)}\n")

    return show


class _ListPasses(argparse.Action):
    """The action of `--list-passes`, which lists the passes and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from meshgen.passes import PASSES

        width = max(map(len, PASSES))
        for entry in PASSES.values():
            sys.stdout.write(f"{entry.name:{width}}  {entry.summary}\n")
        parser.exit()
