"""`meshgen simulate OUT.mgx`: predict a step of all ranks on a machine, including slow devices and links."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from meshgen.api import load, simulate
from meshgen.codegen.targets import machine_title
from meshgen.commands.output import Output
from meshgen.commands.sizes import add_sizes, closing, meshes_option
from meshgen.identity_dict import IdentityDict
from meshgen.machine.profiles import DEFAULT_MACHINE, MACHINES
from meshgen.machine.reading import machine_record
from meshgen.numbers import natural, not_negative
from meshgen.reports.tables import Table, bytes_text, seconds_text, table_of
from meshgen.runtime.module_file.files import write_text
from meshgen.simulator.network import moved_bytes
from meshgen.simulator.simulation import PartTimes, Simulation
from meshgen.simulator.timeline import Conditions, Span
from meshgen.simulator.trace import memory_over_time, peak_of, trace_of

_MOST_ROWS = 12  # chosen: number of rows shown of a table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("module", metavar="OUT.mgx")
    add_sizes(parser)
    parser.add_argument(
        "--machine",
        help=f"{', '.join(MACHINES)}, or the path of a profile.json (default: the machine that the module was compiled for, else {DEFAULT_MACHINE} of the target's devices)",
    )
    for name, affected in (("slow-device", "the kernels of this rank"), ("slow-link", "the collectives of this rank")):
        parser.add_argument(
            f"--{name}",
            metavar="RANK=FACTOR",
            action="append",
            default=[],
            type=_factor,
            help=f"{affected} take FACTOR times as long",
        )
    parser.add_argument(
        "--jitter",
        type=not_negative,
        default=0.0,
        help="spread of a kernel's time over devices, such as 0.05 (default: none)",
    )
    parser.add_argument("--seed", type=natural, default=0, help="seed of the jitter (default: %(default)s)")
    parser.add_argument(
        "--rank",
        metavar="RANK",
        type=natural,
        action="append",
        help="a rank to show in tables and trace (default: the first rank of each mesh)",
    )
    parser.add_argument("--trace", metavar="FILE.json", help="write the step as a trace for ui.perfetto.dev")


def _factor(text: str) -> tuple[int, float]:
    rank, equals, factor = text.partition("=")
    try:
        rank_factor = natural(rank), float(factor)
    except ValueError:
        rank_factor = 0, math.nan
    if not equals or not 0 < rank_factor[1] < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not RANK=FACTOR, such as 3=1.5")
    return rank_factor


def run(options: argparse.Namespace, output: Output) -> int:
    module = load(options.module, meshes_option(options.mesh), entry=options.entry)
    module.require_entry()
    module = module.at(args=closing(options))
    conditions = Conditions(dict(options.slow_device), dict(options.slow_link), options.jitter, options.seed)
    simulation = simulate(module, options.machine, conditions, watch=options.rank)
    if options.trace:
        write_text(Path(options.trace), json.dumps(trace_of(simulation)))
    output.tables(*(table for part in simulation.parts for table in _tables(module.name, simulation, part)))
    if options.trace:
        output.text(options.trace)
    output.document({"name": module.name} | simulation_record(simulation))
    return 0


def _tables(name: str, simulation: Simulation, part: PartTimes) -> Iterator[Table]:
    record = _part_record(part)
    seconds, slowest = record["seconds"], record["slowest_rank"]
    rows = [
        ("step", seconds_text(simulation.step_seconds), ""),
        ("last rank done", seconds_text(seconds["last"]), f"rank {slowest}"),
        ("first rank done", seconds_text(seconds["first"]), f"rank {int(part.end.argmin())}"),
        ("kernels", seconds_text(record["computing_seconds"]), f"on rank {slowest}"),
        ("no kernel runs", seconds_text(record["exposed_seconds"]), f"on rank {slowest}"),
    ]
    if part.watched:
        peak_time, peak_bytes = peak_of(record["memory"])
        rows.append(("most bytes in use", bytes_text(peak_bytes), f"after {seconds_text(peak_time)}"))
    title = f"{name}: {part.mesh.size} ranks of {part.mesh} on {machine_title(simulation.machine)}"
    yield table_of(title, ("", "", ""), rows)
    if part.watched:
        collectives = sorted(record["collectives"], key=lambda row: -row["seconds"] * row["times"])
        cells = [
            (row["name"], row["times"], bytes_text(row["bytes"]), seconds_text(row["seconds"]), seconds_text(row["waited_seconds"]), row["source"])
            for row in collectives[:_MOST_ROWS]
        ]  # fmt: skip
        title = f"Collectives of rank {part.watched[0]}, longest first" + _omitted_text(len(collectives))
        yield table_of(title, ("", "times", "bytes", "takes", "waits", "from"), cells, left=("from",))


def _omitted_text(count: int) -> str:
    return f" (the first {_MOST_ROWS} of {count})" if count > _MOST_ROWS else ""


def collective_rows(part: PartTimes) -> list[dict[str, Any]]:
    """Return a record for each collective on the first watched rank.

    A record has the number of executions, bytes per device, mean seconds, and the mean seconds that the rank waits for
    other ranks.
    """
    spans = IdentityDict[Any, list[Span]]()
    for span in part.spans:
        if span.item.is_collective:
            spans.setdefault(span.item, []).append(span)
    return [_collective_row(part, spans_of_item) for spans_of_item in spans.values()]


def _collective_row(part: PartTimes, spans: Sequence[Span]) -> dict[str, Any]:
    first = spans[0]
    return {
        "name": first.item.label,
        "times": len(spans),
        "bytes": moved_bytes(first.item, first.plan, part.mesh),
        "seconds": sum(float(span.end[0] - span.start[0]) for span in spans) / len(spans),
        "waited_seconds": sum(float(span.start[0] - span.ready[0]) for span in spans) / len(spans),
        "source": first.item.source,
    }


def simulation_record(simulation: Simulation) -> dict[str, Any]:
    """Return the document of `--json`."""
    return {
        "machine": machine_record(simulation.machine),
        "step_seconds": simulation.step_seconds,
        "parts": [_part_record(part) for part in simulation.parts],
    }


def _part_record(part: PartTimes) -> dict[str, Any]:
    slowest = int(part.end.argmax())
    record: dict[str, Any] = {
        "mesh": part.mesh.by_name,
        "ranks": part.mesh.size,
        "slowest_rank": slowest,
        "seconds": {"first": float(part.end.min()), "mean": float(part.end.mean()), "last": float(part.end.max())},
        "computing_seconds": float(part.computing[slowest]),
        "exposed_seconds": float(part.exposed[slowest]),
    }
    if part.watched:
        curve = memory_over_time(part)
        record |= {"watched": list(part.watched), "memory": [list(point) for point in curve]}
        record |= {"peak_bytes_in_use": peak_of(curve)[1], "collectives": collective_rows(part)}
    return record
