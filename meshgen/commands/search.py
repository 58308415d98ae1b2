"""`meshgen search IN`: find the shardings of a program's arguments with the shortest step that fits into device memory."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from meshgen import api
from meshgen.commands.common import add_program, add_target, program
from meshgen.commands.output import Output
from meshgen.numbers import not_negative
from meshgen.runtime.module_file.container import require_writable
from meshgen.runtime.module_file.files import write_text
from meshgen.search.result import Found
from meshgen.search.search_loop import SECONDS, search


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    add_target(parser)
    text = f"time limit of the search (default: {SECONDS:g}); planning the first solution may exceed it"
    parser.add_argument("--seconds", type=not_negative, default=SECONDS, metavar="N", help=text)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the program with the annotations of the solution to this path"
    )


def run(options: argparse.Namespace, output: Output) -> int:
    if options.output:
        require_writable(Path(options.output))
    module, choice, _ = program(options)
    began = time.perf_counter()
    with output.progress() as progress:
        solution = search(module, choice, api.plan_module, seconds=options.seconds, progress=progress)
    record = _record(solution) | {"seconds": time.perf_counter() - began}
    output.text(str(solution))
    if options.output:
        from meshgen.mlir.text import print_text

        write_text(Path(options.output), print_text(solution.module))
        output.text(f"written to {options.output}")
    output.document(record)
    return 0


def _record(solution: Found) -> dict[str, Any]:
    return {
        "specs": solution.specs,
        "sentences": solution.sentences,
        "step_seconds": solution.step_seconds,
        "peak_memory_bytes": solution.planned.plan.arena_bytes,
        "estimated_seconds": solution.estimated_seconds,
        "gap": solution.gap,
        "is_given": solution.is_given,
    }
