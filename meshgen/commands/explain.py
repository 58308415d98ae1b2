"""`meshgen explain IN [VALUE|LINE]`: show the verdict about a step, the reasons for its collectives and shardings, and
what-if plans.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from meshgen import api
from meshgen.commands.common import add_program, add_target, planned
from meshgen.commands.options import line_or_name, specs_option
from meshgen.commands.output import Output
from meshgen.compiled.executable import Executable
from meshgen.errors import Diagnostic, UsageError
from meshgen.numbers import natural, positive
from meshgen.pipeline import Timing
from meshgen.reports.advice import advice_table, advise
from meshgen.reports.collectives import collective_text
from meshgen.reports.comms import comms_table
from meshgen.reports.comms_tree import comms_tree, tree_text
from meshgen.reports.cost import cost_table
from meshgen.reports.donations import donation_tables
from meshgen.reports.explain import (
    explain_collective,
    explanations,
    formula_record,
    shown,
    work_records,
)
from meshgen.reports.filters import Filter, refuse_unknown
from meshgen.reports.fusion import fusion_records
from meshgen.reports.gathers import gather_records
from meshgen.reports.ignored import annotation_record
from meshgen.reports.link_classes import link_tables
from meshgen.reports.memory import memory_table, peak_memory_table
from meshgen.reports.overlap import overlap_records, overlap_table
from meshgen.reports.summary import TOP, summary_of
from meshgen.reports.tables import Table, work_table
from meshgen.reports.what_if import (
    annotated_with,
    changed_collectives,
    changed_record,
    changes_text,
    comparison,
    comparison_table,
)
from meshgen.runtime.module_file.files import write_text
from meshgen.simulator.trace import trace_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    add_target(parser)
    parser.add_argument(
        "--what-if",
        metavar="VALUE=SPEC",
        action="append",
        default=[],
        help="compare with the program in which this value has this required sharding, such as %%h=dp,_",
    )
    parser.add_argument(
        "--collective", metavar="N", type=natural, help="explain one collective, by its number # in the table"
    )
    parser.add_argument(
        "--advise",
        action="store_true",
        help="plan the program without each annotation that causes collectives (or --collective N), and with annotations that split redundant work and sums; report changes that improve the step",
    )
    text = "with --json: also the record of every value and the work of every operation, tens of MB for a large program"
    parser.add_argument("--all", action="store_true", help=text)
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="all tables and collectives, in the notation of shardings, with formulas",
    )
    parser.add_argument("--top", metavar="N", type=positive, help=f"show N causes of collectives (default: {TOP})")
    parser.add_argument("--kind", metavar="KIND", default="", help="only collectives of this kind, such as all_gather")
    parser.add_argument("--axis", metavar="AXIS", default="", help="only collectives along this mesh axis")
    parser.add_argument(
        "--layer",
        metavar="SCOPE",
        default="",
        help="only collectives of this part of the program, such as layer_3 or 'layer_*/mlp'",
    )
    parser.add_argument(
        "--memory",
        action="store_true",
        help="list the buffers in device memory at the peak, by layer group",
    )
    parser.add_argument("--tree", action="store_true", help="list collectives under the operations that need them")
    parser.add_argument(
        "--trace", metavar="FILE.json", help="also write the predicted step as a trace for ui.perfetto.dev"
    )
    parser.add_argument(
        "--show",
        action="store_true",
        help="draw the timeline of the step; with VALUE or LINE, the value's tiles",
    )
    parser.add_argument("what", nargs="?", metavar="VALUE|LINE", help="a value's name, or a line of the program")


def run(options: argparse.Namespace, output: Output) -> int:
    _refuse_conflicts(options)
    executable = planned(options, output)
    output.warnings(executable.warnings)
    if options.trace:
        write_text(Path(options.trace), json.dumps(trace_of(api.simulate(executable))))
    if options.what_if:
        return what_if(executable, options.what_if, output)
    if options.collective is not None:
        records = explain_collective(executable, options.collective)
        output.text("\n".join(map(collective_text, records)))
        document = executable.record() | {"explained": records}
        output.document(document | (_print_advice(executable, [options.collective], output) if options.advise else {}))
        return 0
    if options.memory:
        output.tables(peak_memory_table(executable.memory))
        output.document(executable.record())
        return 0
    if options.tree:
        roots = comms_tree(executable)
        output.text(tree_text(roots, executable.comms))
        output.document(executable.record() | {"tree": [root.record() for root in roots]})
        return 0
    if options.advise:
        output.document(executable.record() | _print_advice(executable, None, output))
        return 0
    what = line_or_name(options.what) if options.what else options.what
    document: dict[str, Any] = {}
    if what is None and not options.verbose:
        selection = Filter(options.kind, options.axis, options.layer)
        refuse_unknown(executable, selection)
        summary = summary_of(executable, selection)
        output.text(summary.text(options.top or TOP, output.width))
        document = summary.record()
    else:
        if what is None:
            output.tables(*_tables(executable))
        output.text(executable.explain(what, verbose=options.verbose))
    if options.show:
        output.text("\n" + shown(executable, what, output.width))
    if output.as_json:
        output.document(_document(executable, what, is_all=options.all) | document)
    return 0


def _tables(executable: Executable) -> list[Table]:
    """Return the tables for `-v`: cost, memory, links, donations, arithmetic and chunks."""
    work = [work_table(executable.analysis)] if executable.analysis else []
    chunks = [table] if (table := overlap_table(executable)) else []
    totals = [cost_table(executable.cost), memory_table(executable.memory)]
    return [*totals, *link_tables(executable), *donation_tables(executable), *work, *chunks]


def _document(executable: Executable, what: str | int | None, *, is_all: bool) -> dict[str, Any]:
    """Return the `--json` document about a value, a line, or the entire program.

    Args:
        is_all: include the records whose size grows with the number of ops.
    """
    document = executable.record() | formula_record(executable)
    if what is None:
        document |= {"gathers": gather_records(executable), "overlap": overlap_records(executable)}
        document |= annotation_record(executable) | {"fusion": fusion_records(executable)}
    if what is not None or is_all:
        document["explanations"] = explanations(executable, what)
    return document | ({"work": work_records(executable)} if is_all else {})


def _refuse_conflicts(options: argparse.Namespace) -> None:
    """Check for combinations in which an option would be ignored.

    Raises:
        UsageError: MG0001 for options that exclude each other.
    """
    modes = {
        "VALUE|LINE": options.what is not None,
        "--what-if": bool(options.what_if),
        "--collective": options.collective is not None,
        "--memory": options.memory,
        "--tree": options.tree,
        "--advise": options.advise and options.collective is None,
    }
    filters = {"--kind": options.kind, "--axis": options.axis, "--layer": options.layer, "--top": options.top}
    if ignored := [name for name, is_set in filters.items() if is_set and (options.verbose or any(modes.values()))]:
        text = f"{ignored[0]} chooses among the causes of collectives"
        raise UsageError(Diagnostic("MG0001", text, hint="leave out the other options, or -v"))
    if len(used_modes := [name for name, is_used in modes.items() if is_used]) > 1:
        text = f"{' and '.join(used_modes)} exclude each other"
        raise UsageError(Diagnostic("MG0001", text, hint="give one at a time; --advise combines with --collective"))


def _print_advice(executable: Executable, numbers: Sequence[int] | None, output: Output) -> dict[str, Any]:
    """Print which annotations to change, and return the records for `--json`."""
    with output.progress() as progress:
        advice_list = advise(executable, api.plan_module, numbers, progress)
    output.tables(advice_table(executable, advice_list))
    return {"advice": [advice.record() for advice in advice_list]}


def what_if(before: Executable, texts: list[str], output: Output) -> int:
    """Plan the program with additional annotations, and compare both plans."""
    specs = specs_option(texts)
    module = annotated_with(next(iter(before.stages.values())), specs)
    after = api.plan_module(module, before.options, Timing())
    rows = comparison(before, after)
    output.tables(comparison_table(rows, specs))
    moved = changed_collectives(before.comms, after.comms)
    output.text("\n".join(changes_text(*moved)) or "the same collectives")
    output.tables(comms_table(after.comms))
    changes = {figure: {"before": old, "after": new} for figure, old, new in rows}
    output.document(
        after.record()
        | {"what_if": {name: str(spec) for name, spec in specs.items()}, "changes": changes}
        | changed_record(*moved)
    )
    return 0
