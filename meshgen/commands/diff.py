"""`meshgen diff A B`: show what changed between two modules: collectives, bytes, kernels, memory, time."""

from __future__ import annotations

import argparse
import math
from typing import Any

from meshgen.commands.output import Output
from meshgen.errors import NumbersDiffer
from meshgen.reports.comms import Comms, comms_of
from meshgen.reports.cost import launch_bytes
from meshgen.reports.growth_limits import FIGURES, limit_of
from meshgen.reports.tables import figure_text, table_of
from meshgen.reports.what_if import changed_collectives, changed_record, changes_text
from meshgen.runtime.loading import load
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.open_module import OpenModule


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="A.mgx")
    parser.add_argument("after", metavar="B.mgx")
    parser.add_argument(
        "--fail-on",
        metavar="FIGURE:+LIMIT",
        action="append",
        default=[],
        help=f"exit with code 3 if a figure grew by more than this limit, such as bytes:+5%% or memory:+1GB; figures are {', '.join(FIGURES)}",
    )


def run(options: argparse.Namespace, output: Output) -> int:
    limits = [limit_of(text) for text in options.fail_on]
    modules = [load(path, runs=False) for path in (options.before, options.after)]
    before, after = map(figures, modules)
    names = sorted({*before, *after})
    pairs = {name: _pair(before, after, name) for name in names}
    rows = [
        (name, *("" if value is None else figure_text(name, value) for value in pair), _change(*pair))
        for name, pair in pairs.items()
    ]
    output.tables(table_of(f"{options.before} -> {options.after}", ("figure", "before", "after", "change"), rows))
    changed = {name: {"before": old, "after": new} for name, (old, new) in pairs.items() if old != new}
    moved = changed_collectives(*map(_comms, modules))
    output.text("\n".join(changes_text(*moved)))
    exceeded = [line for limit in limits for line in sorted(limit.exceeded(before, after))]
    for line in exceeded:
        output.note(f"error: {line}")
    document = {"before": before, "after": after, "changed": changed, "exceeded": exceeded}
    output.document(document | changed_record(*moved))
    return NumbersDiffer.exit_code if exceeded else 0


def _comms(module: LoadedModule) -> Comms:
    """Return the collectives of all meshes. The result is empty for a module with open sizes, because the
    specializations have different collectives.
    """
    parts = () if isinstance(module, OpenModule) else module.parts
    return Comms(tuple(row for part in parts for row in comms_of(part.schedule, part.mesh)))


def figures(module: LoadedModule) -> dict[str, Any]:
    """Return a module's totals (bytes, memory, seconds, counts) by name. The names of a specialization's totals start
    with its sizes.
    """
    if not isinstance(module, OpenModule):
        return _figures(module)
    totals: dict[str, Any] = {"specialisations": len(module.specializations)}
    for sizes in module.specializations:
        totals |= {f"{sizes}: {name}": value for name, value in _figures(module.held(sizes)).items()}
    return totals


def _figures(module: LoadedModule) -> dict[str, Any]:
    """Return the totals of a module by name. With several meshes, a name starts with the mesh."""
    totals: dict[str, Any] = {}
    for part in module.parts:
        prefix = f"@{part.mesh.name} " if len(module.parts) > 1 else ""
        totals |= {f"{prefix}{name}": value for name, value in _totals(part).items()}
    return totals


def _totals(module: LoadedModule) -> dict[str, Any]:
    plan, comms = module.schedule, comms_of(module.schedule, module.mesh)
    launches = [launch for launch in plan.launches() if launch.item.kernel]
    return {f"collectives: {kind}": count for kind, count in comms.counts.items()} | {
        "devices": math.prod(size or 1 for size in module.mesh.shape),
        "ring bytes": comms.ring_bytes,
        "kernels": sum(launch.times for launch in launches),
        "distinct kernels": len({launch.item.kernel for launch in launches}),
        "device bytes": sum(launch_bytes(launch.item, launch.plan) * launch.times for launch in launches),
        "peak memory bytes": plan.arena_bytes,
        "step seconds": round(plan.step_seconds, 9),
        "exposed seconds": round(plan.exposed_seconds, 9),
    }


def _pair(before: dict[str, Any], after: dict[str, Any], name: str) -> tuple[Any, Any]:
    """Return the figure called `name` of both modules. A missing count of collectives is 0; any other missing figure is
    None.
    """
    default = 0 if "collectives: " in name else None
    return before.get(name, default), after.get(name, default)


def _change(old: float | None, new: float | None) -> str:
    """Return the change as text: in percent of the old figure, or "new" or "gone" if only one module has the figure."""
    if old is None or new is None:
        return "gone" if new is None else "new"
    return "" if old == new else f"{100 * (new - old) / old:+.1f} %" if old else "from none"
