"""The HTML page about a compiled program: one file, no network, no weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

from meshgen.errors import place_text
from meshgen.ir.regions import program_nodes
from meshgen.reports.comms import comms_table
from meshgen.reports.cost import cost_table
from meshgen.reports.cost_model import COLUMNS, cost_model_rows
from meshgen.reports.explain import annotation_record
from meshgen.reports.interface import Compiled
from meshgen.reports.link_classes import link_tables, machine_names
from meshgen.reports.overlap import overlap_table
from meshgen.reports.passes import COLUMNS as PASS_COLUMNS
from meshgen.reports.passes import pass_rows
from meshgen.reports.tables import bytes_text, render, seconds_text
from meshgen.runtime.module_file.container import path_of
from meshgen.runtime.module_file.files import write_text
from meshgen.runtime.plan import STREAMS, Item
from meshgen.runtime.sizes import sizes_text

WIDTH, LANE = 1100, 34  # of the timeline, in CSS pixels
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{ name }}</title><style>
:root { color-scheme: light dark } body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem; max-width: 75rem }
table { border-collapse: collapse; margin: 0 0 2rem } th, td { text-align: left; padding: .2rem .8rem .2rem 0; vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums } th { border-bottom: 1px solid #8888 } svg { max-width: 100% }
.kernel { fill: #4a86c5 } .collective { fill: #d98032 } text { fill: currentColor; font-size: 11px } tr:target { background: #fd06 } code { white-space: pre-wrap }
</style></head><body>
<h1>{{ name }}</h1>
{% for page in pages %}{% if page.sizes %}<h2>Open sizes: {{ page.sizes }}</h2>
{% endif %}<p>{{ page.mesh }}, {{ page.target }}. Predicted step {{ page.step }}, of which {{ page.exposed }} is communication that nothing hides.
Peak memory {{ page.peak }} per device, {{ page.moved }} over the links.</p>
<h2>Predicted step of every rank</h2>
<svg viewBox="0 0 {{ page.width }} {{ page.height }}" role="img" aria-label="timeline">
{% for b in page.bars %}<a href="#{{ page.id }}{{ b.row }}"><rect class="{{ b.kind }}" x="{{ b.x }}" y="{{ b.y }}" width="{{ b.w }}" height="24"><title>{{ b.label }}: {{ b.takes }}, from {{ b.start }}</title></rect></a>
{% endfor %}{% for lane in page.lanes %}<text x="0" y="{{ lane.y }}">{{ lane.name }}</text>
{% endfor %}</svg>
{% for t in page.tables %}<h2>{{ t.title }}</h2>
<table><tr>{% for c in t.columns %}<th>{{ c }}</th>{% endfor %}</tr>
{% for row in t.rows %}<tr{% if t.ids %} id="{{ page.id }}{{ t.ids[loop.index0] }}"{% endif %}>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table>
{% endfor %}{% endfor %}<details><summary>Cost model</summary>
<table><tr>{% for c in model.columns %}<th>{{ c }}</th>{% endfor %}</tr>
{% for row in model.rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table></details></body></html>
"""


def write_report(executable: Compiled, path: str | Path) -> None:
    """Write the page. Raises UsageError MG0003 where the file cannot be written."""
    write_reports(_title(executable), [executable], path_of(path))


def notebook_html(executable: Compiled) -> str:
    """What notebooks show of a program: the cost of a step and the collectives."""
    return render(repr(executable), cost_table(executable.cost), comms_table(executable.comms), html=True)


def _title(executable: Compiled) -> str:
    """The program's name, and the file that most of its operations are from: `jit__lambda` alone says nothing."""
    module = next(iter(executable.stages.values()))
    files = Counter(PurePath(node.loc.file).name for node in program_nodes(module.graph) if node.loc)
    return f"{executable.name} from {files.most_common(1)[0][0]}" if files else executable.name


def write_reports(name: str, executables: Sequence[Compiled], path: Path) -> None:
    """Write one page for several: a program at several sizes. Raises UsageError MG0003 where the file cannot be written."""
    from jinja2 import Environment

    pages = [content(each) | {"id": f"{number}-"} for number, each in enumerate(executables)]
    model = {"columns": COLUMNS, "rows": cost_model_rows()}
    page = Environment(autoescape=True).from_string(PAGE).render(name=name, pages=pages, model=model)
    write_text(path, page)


def content(executable: Compiled) -> dict[str, Any]:
    """What the page shows, by name."""
    cost, machine = executable.cost, machine_names(part.mesh for part in executable.parts)
    return {
        "sizes": sizes_text(executable.specialised) if executable.specialised else "",
        "mesh": executable.place + (f" on {machine}" if machine else ""),
        "target": executable.target,
        "step": seconds_text(cost.step_seconds),
        "exposed": seconds_text(cost.exposed_seconds),
        "peak": bytes_text(executable.memory.peak_bytes),
        "moved": bytes_text(cost.ring_bytes),
        "width": WIDTH,
        "height": LANE * STREAMS * len(executable.parts),
        "bars": bars(executable),
        "lanes": [{"name": name, "y": LANE * i + 32} for i, name in enumerate(_lanes(executable))],
        "tables": [
            _comms(executable),
            *({"title": t.title, "columns": t.columns, "rows": t.rows} for t in link_tables(executable)),
            *_warnings(executable),
            *_annotations(executable),
            *_overlap(executable),
            _kernels(executable),
            _memory(executable),
            _inputs(executable),
            {"title": "Passes", "columns": PASS_COLUMNS, "rows": pass_rows(executable.passes)},
        ],
    }


def bars(executable: Compiled) -> list[dict[str, Any]]:
    """A rectangle per launch, to scale; the lanes of each mesh below those of the one before."""
    step = executable.cost.step_seconds
    scale = WIDTH / step if step else 0.0
    return [
        {
            "kind": "collective" if item.communicates else "kernel",
            "x": round(start * scale, 2),
            "w": round(max(0.5, item.seconds * scale - 0.5), 2),
            "y": LANE * (STREAMS * number + item.stream),
            "label": item.label,
            "row": _row_of(item, part, executable),
            "takes": seconds_text(item.seconds),
            "start": seconds_text(start),
        }
        for number, part in enumerate(executable.parts)
        for start, item in zip(executable.started(number), part.plan.items, strict=True)
    ]


def _row_of(item: Item, part: Compiled, executable: Compiled) -> str:
    """The id of the row about a launch: its kernel's, or that of the collectives."""
    return f"kernel-{_kernel_name(item.kernel, part, executable)}" if item.kernel else "collectives"


def _kernel_name(name: str, part: Compiled, executable: Compiled) -> str:
    return f"{part.mesh.name}/{name}" if len(executable.parts) > 1 else name


def _lanes(executable: Compiled) -> list[str]:
    names = [f"@{part.mesh.name} " if len(executable.parts) > 1 else "" for part in executable.parts]
    return [f"{name}{what}" for name in names for what in ("computes", "communicates")]


def _comms(executable: Compiled) -> dict[str, Any]:
    """Those that are alike in one row; the first row has the id of all."""
    table = comms_table(executable.comms)
    ids = ["collectives", *(f"collectives-{number}" for number in range(1, len(table.rows)))]
    return {"title": table.title, "columns": table.columns, "rows": table.rows, "ids": ids}


def _warnings(executable: Compiled) -> list[dict[str, Any]]:
    rows = [(each.code, place_text(each.loc), each.message, each.hint) for each in executable.warnings]
    return [{"title": "Warnings", "columns": ("number", "at", "what", "way out"), "rows": rows}] if rows else []


def _annotations(executable: Compiled) -> list[dict[str, Any]]:
    """The annotations that the optimised program does not follow; empty if it follows all."""
    found = annotation_record(executable)
    rows = [("required", each) for each in found["not_as_required"]] + [
        ("hint", each) for each in found["hints_that_lost"]
    ]
    cells = [(kind, each["value"], each["location"], each["asked"], each["why"]) for kind, each in rows]
    title = "Annotations that the program does not follow"
    return [{"title": title, "columns": ("annotation", "of", "at", "asks", "why"), "rows": cells}] if cells else []


def _overlap(executable: Compiled) -> list[dict[str, Any]]:
    """What was decided for exposed collectives; empty if none is."""
    table = overlap_table(executable)
    return [{"title": table.title, "columns": table.columns, "rows": table.rows}] if table else []


def _kernels(executable: Compiled) -> dict[str, Any]:
    rows: list[tuple[Any, ...]] = []
    for part in executable.parts:
        launches = [each for each in part.plan.launches() if each.item.kernel]
        for name in dict.fromkeys(each.item.kernel for each in launches):
            mine = [each for each in launches if each.item.kernel == name]
            ops = ", ".join(dict.fromkeys(node.op for node in part.plan.kernels[name].nodes))
            times, seconds = (sum(c) for c in zip(*((e.times, e.item.seconds * e.times) for e in mine), strict=True))
            rows.append((_kernel_name(name, part, executable), times, seconds_text(seconds), ops))
    return {
        "title": "Kernels",
        "columns": ("kernel", "launches", "predicted", "operations"),
        "rows": rows,
        "ids": [f"kernel-{row[0]}" for row in rows],
    }


def _memory(executable: Compiled) -> dict[str, Any]:
    memory = executable.memory
    rows = [(b.name, b.type, b.kind, bytes_text(b.bytes), b.source) for b in memory.live_at_peak[:20]]
    title = f"Largest buffers at the peak: {bytes_text(memory.live_bytes)} alive at {memory.peak_at or 'the start'}"
    return {"title": title, "columns": ("buffer", "type", "kind", "bytes", "from"), "rows": rows}


def _inputs(executable: Compiled) -> dict[str, Any]:
    rows: list[tuple[Any, ...]] = []
    for part in executable.parts:
        module, mesh = part.fused, f" on @{part.mesh.name}" if len(executable.parts) > 1 else ""
        triples = zip(module.graph.inputs, module.in_types, module.in_shardings, strict=True)
        rows += [(value.name, kind, f"{sharding}{mesh}", value.type) for value, kind, sharding in triples]
    return {"title": "Inputs", "columns": ("input", "global type", "sharding", "local type"), "rows": rows}
