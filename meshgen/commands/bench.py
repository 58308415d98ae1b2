"""`meshgen bench`: microbenchmarks, on GPUs and of the host, from `bench/` of a checkout."""

from __future__ import annotations

import argparse

from meshgen.commands.output import Output
from meshgen.errors import Diagnostic, MissingError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        nargs="*",
        default=["kernels", "collectives"],
        help="kernels, collectives (default: both), host: what a step costs without any GPU",
    )


def run(options: argparse.Namespace, output: Output) -> int:
    try:
        from bench.harness import measure
    except ModuleNotFoundError as error:
        raise MissingError(
            Diagnostic(
                "MG0602",
                "the benchmarks are not part of the installed package",
                hint="run this in a checkout of meshgen",
            )
        ) from error
    rows = measure(options.what)
    for row in rows:
        output.text("  ".join(f"{key} {value}" for key, value in row.items()))
    output.document({"measurements": rows})
    return 0
