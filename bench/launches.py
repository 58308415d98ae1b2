"""`python -m bench.launches FOLDER`: launches and device traffic of planned programs, compared with XLA's GPU pipeline.
No GPU is needed.

FOLDER has programs `NAME.shardy.mlir`, and `peers.json` with XLA's figures for each name: under `xla_gpu`, `kernels` is
the number of kernels launched per device, and `device_bytes` the bytes that they read and write. Programs without XLA's
figures are skipped.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from meshgen import api


class Row(NamedTuple):
    """Launches and bytes per device of a program: meshgen's and XLA's."""

    name: str
    launches: int
    xla_launches: int
    nbytes: int
    xla_bytes: int


def planned(path: str) -> tuple[int, int]:
    """Return the launches per step and the bytes that they read and write per device, for the program at `path`."""
    cost = api.plan(path, target="cuda:sm_90").cost
    return cost.kernels, cost.device_bytes


def rows_of(folder: Path) -> list[Row]:
    """Return a row for each program of `folder`, in the order of its `peers.json`."""
    peers: Mapping[str, Any] = json.loads((folder / "peers.json").read_text())
    xla_figures = {name: peer["xla_gpu"] for name, peer in peers.items() if (peer.get("xla_gpu") or {}).get("kernels")}
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        ours = pool.map(planned, [str(folder / f"{name}.shardy.mlir") for name in xla_figures])
    return [
        Row(name, figures[0], xla["kernels"], figures[1], xla["device_bytes"])
        for (name, xla), figures in zip(xla_figures.items(), ours, strict=True)
    ]


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table of the rows. It marks meshgen's figures that are larger than XLA's."""
    lines = ["| program | launches | XLA | MB | XLA |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        marks = ["**" if above else "" for above in (row.launches > row.xla_launches, row.nbytes > row.xla_bytes)]
        lines.append(
            f"| {row.name} | {marks[0]}{row.launches}{marks[0]} | {row.xla_launches} "
            f"| {marks[1]}{row.nbytes / 1e6:.1f}{marks[1]} | {row.xla_bytes / 1e6:.1f} |"
        )
    launches = geometric_mean([row.launches / row.xla_launches for row in rows])
    nbytes = geometric_mean([row.nbytes / row.xla_bytes for row in rows])
    return "\n".join([*lines, "", f"Geometric means of the ratios: launches {launches:.2f}, bytes {nbytes:.2f}."])


def geometric_mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.launches", description=__doc__)
    parser.add_argument("folder", type=Path)
    sys.stdout.write(table(rows_of(parser.parse_args().folder)) + "\n")


if __name__ == "__main__":
    main()
