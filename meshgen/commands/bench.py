"""`meshgen bench SUITE`: measure kernels, collectives, launches, modules, compiling and plans; `bench compare A B`: two such runs."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from meshgen.benchmarks.comparing import Difference, compared, limit_of, limits_exceeded, only_in
from meshgen.benchmarks.environment import environment
from meshgen.benchmarks.records import FORMATS, Record, Run, cell, identity, read, tables, text_of, write
from meshgen.benchmarks.suites import SUITES
from meshgen.commands.output import Output
from meshgen.errors import Diagnostic, NumbersDiffer, UsageError
from meshgen.numbers import positive
from meshgen.reports.tables import table_of
from meshgen.runtime.module_file.container import refuse_place

COMPARE = "compare"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "suites:\n" + "\n".join(f"  {name:<12}  {suite.purpose}" for name, suite in SUITES.items())
    parser.add_argument("what", metavar="SUITE", choices=[*SUITES, COMPARE],
                        help="one of the suites below, or compare: two runs")  # fmt: skip
    parser.add_argument(
        "names", metavar="NAME", nargs="*", help="what of the suite (default: all of it); of compare: A.json B.json"
    )
    parser.add_argument(
        "--output", metavar="FILE", help="write the records to a file: JSON, or by its suffix .csv or .md"
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="", help="of --output, or else of the standard output (default: a table)"
    )
    parser.add_argument("--fail-on", metavar="FIGURE:+LIMIT", action="append", default=[],
                        help="compare: exit with code 3 where a figure grew more, and more than its noise: time:+5%%, launches:+0")  # fmt: skip
    parser.add_argument(
        "--runs", metavar="N", type=positive, default=3, help="samples of the suites compile and module (default: 3)"
    )
    for name, suite in SUITES.items():
        suite.add_options(parser.add_argument_group(name))


def run(options: argparse.Namespace, output: Output) -> int:
    if options.what == COMPARE:
        return _compare_runs(options, output)
    if options.output:
        refuse_place(Path(options.output))
    suite, found = SUITES[options.what], list[Record]()
    facts = suite.run(options, found.append)
    if facts is None:  # another process writes
        return 0
    done = Run(environment(options.words) | dict(facts), found)
    if options.output:
        write(done, Path(options.output), options.format, suite.titles)
        output.text(options.output)
    elif options.format:
        output.text(text_of(done, options.format, suite.titles))
    else:
        _show(done, suite.titles, output)
    output.document({"environment": done.environment, "records": found})
    return 0


def _show(done: Run, titles: Mapping[str, str], output: Output) -> None:
    """The facts that decide about figures, and a table."""
    told = ("processor", "gpus", "machine", "mpi", "nccl", "driver", "clocks", "ceilings")
    output.text("".join(f"# {key}: {cell(done.environment[key])}\n" for key in told if done.environment.get(key)))
    output.tables(tables(done.records, titles))


def _compare_runs(options: argparse.Namespace, output: Output) -> int:
    if len(options.names) != 2:
        raise UsageError(Diagnostic("MG0001", "compare takes two runs", hint="meshgen bench compare A.json B.json"))
    limits = [limit_of(text) for text in options.fail_on]
    before, after = (read(Path(name)) for name in options.names)
    found = list(compared(before, after))
    if not found:
        text = "the two runs have measured nothing in common"
        raise UsageError(Diagnostic("MG0001", text, hint="run the same suite with the same sizes and names"))
    exceeded, changed = limits_exceeded(found, limits), [each for each in found if each.verdict != "same"]
    missing = [only_in(run_, other) for run_, other in ((before, after), (after, before))]
    _show_comparison(options.names, found, changed, missing, output)
    for each in exceeded:
        output.note(
            f"error: {_what(each.record)}: {each.figure} {cell(each.before)} -> {cell(each.after)} ({_percent(each)})"
        )
    output.document({
        "compared": len(found), "changed": [_told(each) for each in changed], "exceeded": [_told(each) for each in exceeded],
        "only_before": [dict(identity(each)) for each in missing[0]], "only_after": [dict(identity(each)) for each in missing[1]],
        "environments": [_differing(a.environment, b.environment) for a, b in ((before, after), (after, before))],
    })  # fmt: skip
    return NumbersDiffer.exit_code if exceeded else 0


def _show_comparison(
    names: Sequence[str],
    found: Sequence[Difference],
    changed: Sequence[Difference],
    missing: Sequence[Sequence[Record]],
    output: Output,
) -> None:
    columns = ("what", "figure", "before", "after", "change", "verdict")
    rows = [
        (_what(each.record), each.figure, cell(each.before), cell(each.after), _percent(each), each.verdict)
        for each in changed
    ]
    title = f"{names[0]} -> {names[1]}: {len(found)} figures compared, {len(changed)} differ by more than their noise"
    output.tables(table_of(title, columns, rows, left=("figure", "verdict")) if rows else table_of(title, (), ()))
    for name, records in zip(names, missing, strict=True):
        if records:
            output.text(f"only in {name}: {len(records)} records, such as {_what(records[0])}")


def _what(record: Record) -> str:
    """What a record measures, in words."""
    return " ".join(str(value) for key, value in identity(record) if value not in ("none", -1) and key != "per_host")


def _percent(each: Difference) -> str:
    return f"{100 * each.growth:+.1f} %" if math.isfinite(each.growth) else "from 0"


def _told(each: Difference) -> dict[str, Any]:
    return {
        "record": dict(identity(each.record)), "figure": each.figure, "before": each.before, "after": each.after,
        "verdict": each.verdict,
    }  # fmt: skip


def _differing(own: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of a run that the other does not share: what else may explain a difference."""
    return {key: value for key, value in own.items() if key not in ("date", "command") and other.get(key) != value}
