"""`python -m bench models [NAMES] [--small] [--xla] [--by-hand]`: plans of real models, and the cost of planning. No
GPU is needed.

NAMES are programs or families of `bench/models`. Families with missing packages are listed as such. Plans are for
`cuda:sm_90`. Predictions do not depend on the machine; seconds and memory do. `--xla` also compiles each program with
XLA, for as many CPU devices as the mesh has. `--by-hand` plans each program a second time with the outputs of all flax
modules annotated (`by_hand.py`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import Any

from bench.models.catalog import FAMILIES, FAMILY_OF
from bench.models.measure import MOST_SECONDS
from meshgen.errors import Diagnostic, MissingError, UsageError

PACKAGES = ("jax", "numpy", "xdsl", "flax", "optax", "torch", "transformers", "dm-haiku", "equinox", "jraph", "jax-cfd")
SHORT = {
    "all_gather": "AG",
    "all_reduce": "AR",
    "reduce_scatter": "RS",
    "all_to_all": "A2A",
    "permute": "P",
    "fetch_rows": "fetch",
}


def measured(name: str, tools: Sequence[str], small: bool) -> dict[str, Any]:
    """Return the records of program `name`, by tool."""
    return {"program": name, **{tool: _record(tool, name, small) for tool in tools}}


def _record(tool: str, name: str, small: bool) -> dict[str, Any]:
    flags = "--xla_force_host_platform_device_count=8" if tool == "xla" else ""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    words = [sys.executable, "-m", "bench.models.measure", tool, name, *["--small"] * small]
    completed = subprocess.run(words, env=environment, capture_output=True, text=True)
    if completed.returncode == -signal.SIGXCPU:
        return {"refused": f"more than {MOST_SECONDS} CPU s"}
    if completed.returncode:
        return {"refused": f"exit {completed.returncode}: {completed.stderr[-500:]}"}
    return json.loads(completed.stdout.splitlines()[-1])


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a Markdown table. With XLA's figures, a line below it has the geometric mean of meshgen's planning time
    divided by XLA's compile time, over the training steps.
    """
    with_xla, with_hand = (any(tool in row for row in rows) for tool in ("xla", "by-hand"))
    titles = [
        "program",
        "collectives",
        "moved",
        "redundant",
        "step",
        *["annotated by hand"] * with_hand,
        "launches / kernels",
        "device memory",
        "planning CPU",
        "peak RSS",
    ]
    titles += ["XLA CPU", "XLA RSS", "ratio"] if with_xla else []
    lines = [f"| {' | '.join(titles)} |", f"| {' | '.join('---' for _ in titles)} |"]
    for row in rows:
        figures = row["meshgen"]
        cells = [row["program"], *([figures["refused"][:60], *[""] * 7] if "refused" in figures else _plan(figures))]
        cells[5:5] = [_step(row["by-hand"])] if with_hand else []
        cells += _xla(figures, row["xla"]) if with_xla else []
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, *_means(rows)]) if with_xla else "\n".join(lines)


def _plan(figures: Mapping[str, Any]) -> list[str]:
    counts = " ".join(f"{count} {SHORT.get(kind, kind)}" for kind, count in figures["collectives"].items())
    share = (figures["redundant_flops"] or 0) / max(figures["flops"], 1)
    return [counts or "none", f"{figures['moved_bytes'] / 1e6:.1f} MB", f"{share:.1%}", _step(figures), f"{figures['launches']} / {figures['kernels']}",
            f"{figures['device_bytes'] / 1e6:.0f} MB", *_costs(figures)]  # fmt: skip


def _step(figures: Mapping[str, Any]) -> str:
    return "" if "refused" in figures else f"{figures['step_seconds'] * 1e3:.2f} ms"


def _costs(figures: Mapping[str, Any]) -> list[str]:
    return [f"{figures['cpu_seconds']:.1f} s", f"{figures['peak_bytes'] / 1e6:.0f} MB"]


def _xla(figures: Mapping[str, Any], xla_figures: Mapping[str, Any]) -> list[str]:
    if "refused" in xla_figures:
        return [xla_figures["refused"][:60], "", ""]
    ratio = "" if "refused" in figures else f"{figures['cpu_seconds'] / xla_figures['cpu_seconds']:.2f}"
    return [*_costs(xla_figures), ratio]


def _means(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    trained = [row for row in rows if row["program"].endswith("-train")]
    ratios = {row["program"]: row["meshgen"]["cpu_seconds"] / row["xla"]["cpu_seconds"] for row in trained
              if "refused" not in row["meshgen"] and "refused" not in row["xla"]}  # fmt: skip
    if not ratios:
        return []
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    worst = max(ratios, key=lambda name: ratios[name])
    return [
        "",
        f"{len(ratios)} training steps: geometric mean of planning over XLA's compiling, CPU seconds: {mean:.2f}; largest {ratios[worst]:.2f} ({worst}).",
    ]


def environment() -> dict[str, Any]:
    """Return a description of the machine, and the versions of installed packages."""
    versions: dict[str, str] = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    processor = platform.processor()
    if (described := Path("/proc/cpuinfo")).exists():
        processor = next(
            (line.split(":")[1].strip() for line in described.read_text().splitlines() if "model name" in line),
            processor,
        )
    machine = {"processor": processor, "cores": os.cpu_count(), "system": platform.platform()}
    return {"machine": machine, "versions": {"python": platform.python_version(), **versions}}


def _named(names: Sequence[str]) -> list[str]:
    """Return the programs to measure. Raises MissingError if none is installed, and UsageError for an unknown name."""
    if unknown := [name for name in names if name not in {*FAMILIES, *FAMILY_OF}]:
        hint = f"the families are {', '.join(FAMILIES)}"
        raise UsageError(Diagnostic("MG0001", f"there is no program or family '{unknown[0]}'", hint=hint))
    selected = [name for name, family in FAMILY_OF.items() if not names or {name, family} & {*names}]
    for family in dict.fromkeys(FAMILY_OF[name] for name in selected):
        if missing_packages := FAMILIES[family].missing:
            sys.stderr.write(f"{family}: not installed: {', '.join(missing_packages)}\n")
    installed = [name for name in selected if not FAMILIES[FAMILY_OF[name]].missing]
    if not installed:
        raise MissingError(Diagnostic("MG0602", "no such program is installed", hint="pip install '.[jax,models]'"))
    return installed


def main(words: Sequence[str]) -> int:
    """Measure the named programs and print the table. Raises MeshgenError for unknown names, or if no program is
    installed.
    """
    parser = argparse.ArgumentParser(prog="python -m bench models", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAMES")
    parser.add_argument("--small", action="store_true", help="the sizes of the tests")
    parser.add_argument("--xla", action="store_true", help="compile with XLA as well")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument(
        "--output", type=Path, help="the raw figures: one JSON record per line, behind one of the machine"
    )
    parser.add_argument("--table", type=Path, metavar="FILE", help="only the table, of raw figures that were written")
    parser.add_argument("--by-hand", action="store_true", help="plan with activations annotated as well")
    options = parser.parse_args(words)
    if options.table:
        rows = [row for line in options.table.read_text().splitlines() if "program" in (row := json.loads(line))]
        sys.stdout.write(table(rows) + "\n")
        return 0
    tools = ["meshgen", *["xla"] * options.xla, *["by-hand"] * options.by_hand]
    names = _named(options.names)
    head = {"command": " ".join(["python -m bench models", *words]), **environment()}
    rows = []
    with (
        ThreadPoolExecutor(options.jobs) as pool,
        options.output.open("w") if options.output else nullcontext() as output,
    ):
        for row in chain([head], pool.map(lambda name: measured(name, tools, options.small), names)):
            rows += [row] if "program" in row else []
            if output:
                print(json.dumps(row), file=output, flush=True)
    sys.stdout.write(table(rows) + "\n")
    return 0
