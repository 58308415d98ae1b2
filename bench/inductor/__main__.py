"""`python -m bench.inductor FOLDER...`: launches of programs compiled with `torch.compile`, with meshgen and with XLA.
No GPU is needed.

The folders have the format of `bench.launches`: programs `NAME.mlir` or `NAME.shardy.mlir`, and optionally
`peers.json`. `programs.py` has the same computations in PyTorch. A program that the folders lack has no figure for
meshgen. A build of PyTorch without CUDA suffices to write the code for CUDA.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from bench.inductor.count import Launches, launches_of
from bench.inductor.no_device import load, modules
from meshgen import api
from meshgen.errors import MissingError


class Row(NamedTuple):
    """Launches of a program per step on one device: Inductor's, Inductor's with Triton's template for all GEMMs, and
    meshgen's. If the program's case has a mesh, the row also has the launches per device of meshgen and XLA.
    """

    name: str
    inductor: Launches
    templates: Launches
    one_device: int | None = None
    per_device: int | None = None
    xla: int | None = None


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table, with '-' for missing figures."""
    lines = [
        "| program | Triton kernels | library calls | launches | with Triton's products | meshgen | meshgen, sharded | XLA, sharded |",
        "| --- " * 8 + "|",
    ]
    for row in rows:
        calls = ", ".join(f"{count} `{name}`" for name, count in sorted(row.inductor.library.items())) or "0"
        inductor_cells = (row.inductor.kernels, calls, row.inductor.total, row.templates.total)
        cells = (*inductor_cells, row.one_device, row.per_device, row.xla)
        lines.append(f"| {row.name} | {' | '.join('-' if cell is None else str(cell) for cell in cells)} |")
    return "\n".join(lines)


def with_case(row: Row, folders: Sequence[Path]) -> Row:
    """Return `row` with the launches of its case in `folders`. The name of the case is the name of the row up to a
    comma.
    """
    case = row.name.partition(",")[0]
    paths = (folder / f"{case}{suffix}" for folder in folders for suffix in (".mlir", ".shardy.mlir"))
    if (path := next(filter(Path.exists, paths), None)) is None:
        return row
    planned = api.plan(str(path), target="cuda:sm_90")
    if not planned.mesh.names:
        return row._replace(one_device=planned.cost.kernels)
    alone = api.plan(str(path), dict.fromkeys(planned.mesh.names, 1), target="cuda:sm_90")
    xla = _of_xla(path.with_name("peers.json"), case)
    return row._replace(one_device=alone.cost.kernels, per_device=planned.cost.kernels, xla=xla)


def _of_xla(peers: Path, case: str) -> int | None:
    figures_by_case: Any = json.loads(peers.read_text()) if peers.exists() else {}
    return (figures_by_case.get(case, {}).get("xla_gpu") or {}).get("kernels")


def _counted(build: Any, *, triton_products: bool = False) -> Launches:
    return sum(map(launches_of, modules(build, triton_products=triton_products)), Launches())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.inductor", description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    folders = [*parser.parse_args().folders, Path(__file__).parent]
    try:
        load()
    except MissingError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    steps = import_module("bench.inductor.programs").STEPS
    rows = [
        with_case(Row(name, _counted(build), _counted(build, triton_products=True)), folders)
        for name, build in steps.items()
    ]
    sys.stdout.write(table(rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
