"""Quality of plans: bytes sent per device, launches, and the predicted step, compared with the partitioners of XLA and
upstream MLIR.

The programs are GPT layers that JAX lowers, programs of `transformers.py`, and `.mlir` files. XLA and `mlir-opt` are
used if installed.
No GPU is needed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from meshgen import api
from meshgen.benchmarks.records import Record
from meshgen.benchmarks.stack import stack
from meshgen.benchmarks.suite import Suite, Take, no_options
from meshgen.benchmarks.transformers import selected_programs
from meshgen.benchmarks.xla import compiled_text, figures
from meshgen.compiled.executable import Executable
from meshgen.errors import MeshgenError
from meshgen.mesh import Mesh

TARGET = "cuda:sm_90"
TITLES = {
    "program": "program", "ranks": "ranks", "by": "by", "collectives": "collectives", "ring_bytes": "sent per device (B)",
    "communication_seconds": "communication (s)", "launches": "launches", "device_bytes": "memory traffic (B)", "peak_bytes": "peak (B)",
    "step_seconds": "step (s)", "refused": "refused",
}  # fmt: skip
STACK = "gpt-2-layers"
# Passes of the shard dialect in upstream MLIR.
_PIPELINE = "builtin.module(func.func(sharding-propagation{traversal=forward-backward},shard-partition),shard-simplify)"


def run(options: argparse.Namespace, take: Take) -> Mapping[str, Any]:
    """Plan each program, with meshgen and with the installed peers. Raises UsageError MG0001, MissingError MG0602;
    MeshgenError for invalid programs.
    """
    for name, text, mesh in _programs(options.names or [STACK]):
        for record in records(name, text, mesh):
            take(record)
    return {"peers": ", ".join(name for name, is_there in _PEERS.items() if is_there()) or "none is installed"}


def _programs(names: list[str]) -> Iterator[tuple[str, str, Mesh | None]]:
    for name in names:
        if name == STACK:
            yield name, stack(2), None
        else:
            yield from selected_programs([name])


def records(name: str, program: str, mesh: Mesh | None = None) -> Iterator[Record]:
    """Yield the record of meshgen's plan, and a record for each installed peer (XLA, mlir-opt). `program` is a text or
    a path.
    """
    executable = api.plan(program, mesh, target=TARGET)
    head = {"suite": "quality", "program": name, "ranks": executable.mesh.size}
    yield head | {"by": "meshgen"} | _figures(executable) | {"launches": executable.cost.kernels, "device_bytes": executable.cost.device_bytes,
                  "peak_bytes": executable.memory.peak_bytes, "step_seconds": executable.cost.step_seconds}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(program) if program.endswith(".mlir") else Path(folder, "program.mlir")
        if not program.endswith(".mlir"):
            path.write_text(program)
        if _PEERS["XLA"]():
            yield {
                **head,
                "by": "XLA",
                **_figures_or_refusal(lambda: figures(compiled_text(path, executable.mesh.size), executable.mesh)),
            }
        if _PEERS["mlir-opt"]():
            yield {**head, "by": "mlir-opt", **_figures_or_refusal(lambda: _upstream(path))}


_PEERS: Mapping[str, Callable[[], bool]] = {
    "XLA": lambda: find_spec("jaxlib") is not None,
    "mlir-opt": lambda: shutil.which("mlir-opt") is not None,
}


def _figures(executable: Executable) -> dict[str, Any]:
    counts = {kind: count for kind, count in executable.comms.counts.items() if count}
    cost = executable.cost
    return {
        "collectives": counts,
        "ring_bytes": cost.ring_bytes,
        "communication_seconds": cost.communication_seconds,
    }


def _figures_or_refusal(call: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the figures of a peer (XLA or mlir-opt), or the reason why it rejects the program."""
    try:
        return call()
    except (OSError, MeshgenError) as error:
        return {"refused": str(error).splitlines()[0][:200]}


def _upstream(path: Path) -> Mapping[str, Any]:
    """Return the figures of the program that `mlir-opt` partitions, counted like meshgen's. Raises OSError,
    MeshgenError.
    """
    command = ["mlir-opt", str(path), f"--pass-pipeline={_PIPELINE}"]
    outcome = subprocess.run(command, capture_output=True, text=True)
    if outcome.returncode:
        raise OSError((outcome.stderr.strip().splitlines() or ["it gives no reason"])[0])
    return _figures(api.plan(outcome.stdout, target=TARGET))


SUITE = Suite(
    "bytes sent per device, launches and the predicted step, compared with XLA's partitioner and mlir-opt",
    TITLES,
    no_options,
    run,
)
