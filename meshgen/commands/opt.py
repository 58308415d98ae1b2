"""`meshgen opt IN --passes a,b,c`: IR in, IR out. The first pass is the one after the stage that the text is at."""

from __future__ import annotations

import argparse
from pathlib import Path

from meshgen import api
from meshgen.commands.common import add_program, program_options
from meshgen.commands.output import Output
from meshgen.pipeline import STAGES, Options, Timing, run_stage
from meshgen.runtime.module_file.files import write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    parser.add_argument(
        "--passes",
        default="",
        metavar="A,B,...",
        help=f"of {', '.join(STAGES)}; without any the program is printed unchanged",
    )
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="default: stdout")


def run(options: argparse.Namespace, output: Output) -> int:
    from meshgen.mlir.text import print_text

    chosen, timing = program_options(options), Timing()
    arguments = Options("cpu", chosen.pop("arguments"))
    with timing.of("import"):
        module, _ = api.read(**chosen)
    for name in filter(None, options.passes.split(",")):
        with timing.of(name):
            module = run_stage(name, module, arguments)
    text = print_text(module)
    if options.output != "-":
        write_text(Path(options.output), text)
    else:
        output.text(text)
    output.document({"stage": module.stage, "text": text, "seconds": timing.seconds})
    return 0
