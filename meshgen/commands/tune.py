"""`meshgen tune OUT.mgx`: measure candidate variants of a module's kernels on a GPU, and put the fastest into the
module.

`--table` also stores the fastest tiles in a table, which `compile --tuning` reads.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from meshgen.codegen.tuning.module_tuning import on_emulated, on_gpu, tune_file
from meshgen.codegen.tuning.table import merge
from meshgen.codegen.tuning.tuner import Measured
from meshgen.commands.output import Output
from meshgen.commands.time_limit import seconds
from meshgen.errors import Diagnostic, NumbersDiffer, UsageError
from meshgen.numbers import positive
from meshgen.reports.tables import seconds_text, table_of
from meshgen.runtime.module_file.container import Container


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("module", metavar="OUT.mgx", nargs="?", help="a module for this machine's first GPU")
    parser.add_argument("-o", "--output", metavar="FILE.mgx", help="output path (default: the module itself)")
    parser.add_argument(
        "--table", metavar="FILE.json", help="add the results to this table, which compile --tuning reads"
    )
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=300,
        help="seconds after which no further kernel is measured; kernels with the most predicted time come first (default: %(default)s)",
    )
    parser.add_argument(
        "--candidates",
        type=positive,
        default=16,
        help="number of candidates to measure per kernel, the best predicted ones (default: %(default)s)",
    )
    parser.add_argument("--key", metavar="PEM", help="sign the module again with this private key")
    parser.add_argument(
        "--device",
        choices=("cuda", "emulate"),
        default="cuda",
        help="emulate: only check on an emulated GPU that all candidates compute the same; it has no times but the model's, which are "
        "equal for all candidates of a kernel, and nothing is written (default: %(default)s)",
    )
    parser.add_argument(
        "--merge",
        metavar="FILE.json",
        nargs="+",
        help="instead of a module: write the rows of these tables to --table; of rows with equal keys, the row measured in more rounds is kept, then the faster one",
    )


def run(options: argparse.Namespace, output: Output) -> int:
    if options.merge:
        return _merge(options, output)
    if not options.module:
        raise UsageError(Diagnostic("MG0001", "a module is missing", hint="meshgen tune OUT.mgx"))
    members, is_real = Container(Path(options.module)), options.device == "cuda"
    if not is_real and (used_options := [name for name in ("output", "table", "key") if getattr(options, name)]):
        raise UsageError(Diagnostic("MG0001", f"--device emulate writes nothing: leave out --{used_options[0]}"))
    budget = options.seconds, options.candidates
    bench = on_gpu(*budget) if is_real else on_emulated(members, *budget)
    output_path = Path(options.output or options.module) if is_real else None
    table, key = (Path(kernel) if kernel else None for kernel in (options.table, options.key))
    measured_kernels = tune_file(
        members, bench, lambda kernel: _print_warnings(kernel, output), output=output_path, table=table, key=key
    )
    _print_results(measured_kernels, output, output_path)
    if not is_real and any(kernel.warnings for kernel in measured_kernels):
        return NumbersDiffer.exit_code
    return 0


def _merge(options: argparse.Namespace, output: Output) -> int:
    if options.module or not options.table:
        text = "--merge takes tables, no module" if options.module else "--merge writes a table: --table is missing"
        raise UsageError(Diagnostic("MG0001", text, hint="meshgen tune --merge A.json B.json --table OUT.json"))
    merged = merge(map(Path, options.merge))
    merged.write(Path(options.table))
    output.text(f"{options.table}: {len(merged.rows)} rows")
    output.document({"output": options.table, "rows": len(merged.rows)})
    return 0


def _print_warnings(measured: Measured, output: Output) -> None:
    output.warnings(measured.warnings)


def _print_results(measured_kernels: list[Measured], output: Output, path: Path | None) -> None:
    records = [_record(measured) for measured in measured_kernels]
    rows = [
        (r["kernel"], r["compared"], *(seconds_text(r[name]) if r["compared"] else "" for name in ("before", "after")), r["verdict"])
        for r in records
    ]  # fmt: skip
    output.tables(
        table_of(
            "Kernels, those with the most predicted time first", ("kernel", "candidates", "before", "after", ""), rows
        )
    )
    changed = sum(record["is_replaced"] for record in records)
    if path:
        output.text(f"{path}: {changed} of {len(measured_kernels)} kernels replaced")
    output.document({"output": str(path) if path else None, "kernels": records, "replaced": changed})


def _record(measured: Measured) -> dict[str, Any]:
    provenance = measured.change.provenance if measured.change else {}
    is_replaced = measured.change is not None and measured.change.form is not None
    verdict = "replaced" if is_replaced else "stays" if measured.change else "no choice"
    record: dict[str, Any] = {
        "kernel": measured.kernel,
        "compared": measured.others,
        "verdict": verdict,
        "is_replaced": is_replaced,
    }
    if provenance:
        record |= {
            "before": provenance["before"],
            "after": (provenance["warm"] + provenance["cold"]) / 2,
            "measured": dict(provenance),
        }
    return record | {"disagree": len(measured.warnings)}
