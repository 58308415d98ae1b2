"""`meshgen bench SUITE`: measure kernels, collectives, launches, modules, compile time or plans.

`meshgen bench compare A B` compares two such runs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from meshgen.benchmarks.comparing import Difference, compare_runs, limit_of, limits_exceeded, only_in
from meshgen.benchmarks.environment import environment
from meshgen.benchmarks.records import FORMATS, Record, Run, cell, identity, read, tables, text_of, write
from meshgen.benchmarks.suites import SUITES
from meshgen.commands.output import Output
from meshgen.errors import Diagnostic, NumbersDiffer, UsageError
from meshgen.numbers import positive
from meshgen.reports.tables import table_of
from meshgen.runtime.module_file.container import require_writable

COMPARE = "compare"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "suites:\n" + "\n".join(f"  {name:<12}  {suite.purpose}" for name, suite in SUITES.items())
    parser.add_argument("what", metavar="SUITE", choices=[*SUITES, COMPARE],
                        help="one of the suites listed below, or `compare` to compare two runs")  # fmt: skip
    parser.add_argument(
        "names",
        metavar="NAME",
        nargs="*",
        help="names of benchmarks in SUITE to measure (default: all); for compare: A.json B.json",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="write the records to this file: as CSV or Markdown if its suffix is .csv or .md, else as JSON",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="",
        help="format of the file of --output or, without --output, of stdout (default: a table)",
    )
    parser.add_argument("--fail-on", metavar="FIGURE:+LIMIT", action="append", default=[],
                        help="with compare: exit with code 3 if a figure grew by more than this limit and by more than its noise, such as time:+5%% or launches:+0")  # fmt: skip
    parser.add_argument(
        "--runs",
        metavar="N",
        type=positive,
        default=3,
        help="number of samples in the suites compile and module (default: 3)",
    )
    for name, suite in SUITES.items():
        suite.add_options(parser.add_argument_group(name))


def run(options: argparse.Namespace, output: Output) -> int:
    if options.what == COMPARE:
        return _compare_runs(options, output)
    if options.output:
        require_writable(Path(options.output))
    suite, records = SUITES[options.what], list[Record]()
    facts = suite.run(options, records.append)
    if facts is None:  # results are None in a process whose results another process writes
        return 0
    finished_run = Run(environment(options.words) | dict(facts), records)
    if options.output:
        write(finished_run, Path(options.output), options.format, suite.titles)
        output.text(options.output)
    elif options.format:
        output.text(text_of(finished_run, options.format, suite.titles))
    else:
        _show(finished_run, suite.titles, output)
    output.document({"environment": finished_run.environment, "records": records})
    return 0


def _show(done: Run, titles: Mapping[str, str], output: Output) -> None:
    """Print a table of the facts about the environment that affect figures, and a table of the records."""
    shown_facts = ("processor", "gpus", "machine", "mpi", "nccl", "driver", "clocks", "ceilings")
    output.text(
        "".join(f"# {key}: {cell(done.environment[key])}\n" for key in shown_facts if done.environment.get(key))
    )
    output.tables(tables(done.records, titles))


def _compare_runs(options: argparse.Namespace, output: Output) -> int:
    if len(options.names) != 2:
        raise UsageError(Diagnostic("MG0001", "compare takes two runs", hint="meshgen bench compare A.json B.json"))
    limits = [limit_of(text) for text in options.fail_on]
    before, after = (read(Path(name)) for name in options.names)
    differences = list(compare_runs(before, after))
    if not differences:
        text = "the two runs have measured nothing in common"
        raise UsageError(Diagnostic("MG0001", text, hint="run the same suite with the same sizes and names"))
    exceeded, changed = (
        limits_exceeded(differences, limits),
        [difference for difference in differences if difference.verdict != "same"],
    )
    missing = [only_in(run_, other) for run_, other in ((before, after), (after, before))]
    _show_comparison(options.names, differences, changed, missing, output)
    for difference in exceeded:
        output.note(
            f"error: {_subject(difference.record)}: {difference.figure} {cell(difference.before)} -> {cell(difference.after)} ({_percent(difference)})"
        )
    output.document({
        "compared": len(differences), "changed": [_difference_record(difference) for difference in changed], "exceeded": [_difference_record(difference) for difference in exceeded],
        "only_before": [dict(identity(difference)) for difference in missing[0]], "only_after": [dict(identity(difference)) for difference in missing[1]],
        "environments": [_differing_facts(a.environment, b.environment) for a, b in ((before, after), (after, before))],
    })  # fmt: skip
    return NumbersDiffer.exit_code if exceeded else 0


def _show_comparison(
    names: Sequence[str],
    differences: Sequence[Difference],
    changed: Sequence[Difference],
    missing: Sequence[Sequence[Record]],
    output: Output,
) -> None:
    columns = ("what", "figure", "before", "after", "change", "verdict")
    rows = [
        (
            _subject(difference.record),
            difference.figure,
            cell(difference.before),
            cell(difference.after),
            _percent(difference),
            difference.verdict,
        )
        for difference in changed
    ]
    title = (
        f"{names[0]} -> {names[1]}: {len(differences)} figures compared, {len(changed)} differ by more than their noise"
    )
    output.tables(table_of(title, columns, rows, left=("figure", "verdict")) if rows else table_of(title, (), ()))
    for name, records in zip(names, missing, strict=True):
        if records:
            output.text(f"only in {name}: {len(records)} records, such as {_subject(records[0])}")


def _subject(record: Record) -> str:
    """Return as text what a record measures."""
    return " ".join(str(value) for key, value in identity(record) if value not in ("none", -1) and key != "per_host")


def _percent(difference: Difference) -> str:
    return f"{100 * difference.growth:+.1f} %" if math.isfinite(difference.growth) else "from 0"


def _difference_record(difference: Difference) -> dict[str, Any]:
    return {
        "record": dict(identity(difference.record)), "figure": difference.figure, "before": difference.before, "after": difference.after,
        "verdict": difference.verdict,
    }  # fmt: skip


def _differing_facts(facts: Mapping[str, Any], other_facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts about the environment that are not equal in both runs and may explain different figures."""
    return {
        key: value for key, value in facts.items() if key not in ("date", "command") and other_facts.get(key) != value
    }
