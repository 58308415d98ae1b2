"""Write the page on performance over time and its chart, from `bench/results/trend.jsonl`. `docs/generate.py` calls
this.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).resolve().parents[1] / "bench" / "results" / "trend.jsonl"
Record = dict[str, Any]  # a line of `trend.jsonl`


class Figure(NamedTuple):
    """A figure of a plan: its key in `trend.jsonl`, its title, and the format of its sum over all programs."""

    key: str
    title: str
    scale: float
    form: str

    def total(self, record: Record) -> float:
        return sum(program[self.key] for program in record["programs"].values())

    def text(self, value: float) -> str:
        return self.form.format(value / self.scale)


FIGURES = (
    Figure("instructions", "Instructions of planning", 1e9, "{:.2f}e9"),
    Figure("launches", "Launches", 1, "{:.0f}"),
    Figure("bytes_sent", "Bytes sent by a device", 1e3, "{:.0f} kB"),
    Figure("step_us", "Predicted step", 1, "{:.1f} us"),
)
WIDTH, HEIGHT, MARGIN, TITLE = 400, 150, 30, 22  # pixels of one panel
COLUMNS = 2


def records() -> list[Record]:
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def trend_chart(measured: Sequence[Record]) -> str:
    """Return an SVG with a panel for each figure. A panel shows the sums over the programs, with one point for each
    commit, oldest first.
    """
    rows = -(-len(FIGURES) // COLUMNS)
    panels = [
        f'<g transform="translate({panel_index % COLUMNS * WIDTH} {panel_index // COLUMNS * HEIGHT})">{_panel(figure, measured)}</g>'
        for panel_index, figure in enumerate(FIGURES)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {COLUMNS * WIDTH} {rows * HEIGHT}" font-family="sans-serif" font-size="12" '
            'fill="#808080">',
            "<title>Sums over the programs, one point for each measured commit</title>",
            *panels,
            "</svg>\n",
        ]
    )


def _panel(figure: Figure, measured: Sequence[Record]) -> str:
    """Return the panel of one figure. Its axis starts at 0, so that the height of a point shows the value."""
    totals = [figure.total(record) for record in measured]
    bottom, top, most = HEIGHT - MARGIN, MARGIN + TITLE, max(totals) or 1
    step = (WIDTH - 2 * MARGIN) / max(1, len(totals) - 1)
    points = [(MARGIN + number * step, bottom - (bottom - top) * total / most) for number, total in enumerate(totals)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#3578d4"><title>{record["commit"]} {record["date"]}: {figure.text(total)}</title></circle>'
                   for (x, y), record, total in zip(points, measured, totals, strict=True))  # fmt: skip
    # The label of an end point is above the line. The line also passes through the next point, so both points limit the
    # height of the label.
    ends = (points[:2], points[0][0], totals[0], "start"), (points[-2:], points[-1][0], totals[-1], "end")
    values = "".join(f'<text x="{x:.1f}" y="{min(y for _, y in nearest) - 8:.1f}" text-anchor="{anchor}">{figure.text(total)}</text>'
                     for nearest, x, total, anchor in ends[len(totals) == 1:])  # fmt: skip
    dates = "".join(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="{anchor}">{record["date"][:10]}</text>'
                    for x, anchor, record in ((MARGIN, "start", measured[0]), (WIDTH - MARGIN, "end", measured[-1])))  # fmt: skip
    return (
        f'<text x="{MARGIN}" y="{TITLE}" font-size="14" font-weight="bold">{figure.title}</text>'
        f'<path d="M{MARGIN} {bottom}H{WIDTH - MARGIN}" stroke="#808080"/>'
        f'<polyline points="{line}" fill="none" stroke="#3578d4" stroke-width="2"/>{dots}{values}{dates}'
    )


def trend_page(note: str) -> str:
    """Return the text of the page."""
    measured = records()
    newest = measured[-1]
    rows = [
        f"| {name} | {row['instructions'] / 1e6:,.0f} | {row['launches']} | {row['bytes_sent']:,} | {row['step_us']:.1f} |"
        for name, row in newest["programs"].items()
    ]
    commits = [
        f"| `{record['commit']}` | {record['date'][:10]} | {' | '.join(figure.text(figure.total(record)) for figure in FIGURES)} |"
        for record in measured
    ]
    return "\n".join(
        [
            f"{note}# Performance over time",
            "",
            f"`make bench-trend` plans {len(newest['programs'])} small programs for `cuda:sm_90` and records what the compiler takes and what its plans cost. The chart shows sums over",
            "the programs, one point for each measured commit. All of it is counted or predicted: no GPU takes part, and the load of the machine does not matter.",
            "",
            "![Instructions, launches, bytes and predicted step over time](images/trend.svg)",
            "",
            "## What is counted",
            "",
            "- **Instructions of planning** are those that the processor executes in user mode between the text of the program and its plan, with modules imported and another program",
            "  planned before. They are counted by valgrind's cachegrind without a simulation of caches. A module that only some programs need counts for each of them. Kernels are not built. Two runs of a commit differ by less than 0.5 %. The",
            "  number depends on the version and build of Python, so compare lines with the same `python` only.",
            "- **Launches** are the kernels that a device launches in a step.",
            "- **Bytes sent** are those that a device sends in a step, in the ring model (`ring_bytes` of [explain.md](explain.md)).",
            "- **Predicted step** is the time of a step by the cost model ([cost-model.md](cost-model.md)). A changed constant changes it for unchanged plans.",
            "",
            "The programs are in `tests/data/bf16` and `examples`. Each line of `bench/results/trend.jsonl` is a commit; add one with `make bench-trend` (1 minute of CPU time), then run",
            "`make docs`. `python -m bench.trend --tree FOLDER` measures another checkout with the same programs.",
            "",
            "## The newest commit",
            "",
            f"Commit `{newest['commit']}` of {newest['date'][:10]}, Python {newest['python']}.",
            "",
            "| program | instructions (millions) | launches | bytes sent | predicted step (us) |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
            "## All measured commits",
            "",
            f"| commit | date | {' | '.join(figure.title.lower() for figure in FIGURES)} |",
            "| --- | --- | --- | --- | --- | --- |",
            *commits,
            "",
        ]
    )
