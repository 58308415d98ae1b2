"""How good plans are: what a device sends, how often it launches, the predicted step; beside them XLA's partitioner and upstream MLIR's, where installed.

GPT layers that JAX lowers, programs of `transformers.py`, and `.mlir` files. No GPU is needed.
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
from meshgen.benchmarks.transformers import chosen
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
# passes of upstream's shard dialect
_PIPELINE = "builtin.module(func.func(sharding-propagation{traversal=forward-backward},shard-partition),shard-simplify)"


def run(options: argparse.Namespace, take: Take) -> Mapping[str, Any]:
    """Raises UsageError MG0001, MissingError MG0602; MeshgenError of a program that is refused."""
    for name, text, mesh in _programs(options.names or [STACK]):
        for record in records(name, text, mesh):
            take(record)
    return {"peers": ", ".join(name for name, is_there in _PEERS.items() if is_there()) or "none is installed"}


def _programs(names: list[str]) -> Iterator[tuple[str, str, Mesh | None]]:
    for name in names:
        if name == STACK:
            yield name, stack(2), None
        else:
            yield from chosen([name])


def records(name: str, program: str, mesh: Mesh | None = None) -> Iterator[Record]:
    """Ours, and one per peer that is installed. `program`: text or path."""
    ours = api.plan(program, mesh, target=TARGET)
    head = {"suite": "quality", "program": name, "ranks": ours.mesh.size}
    yield head | {"by": "meshgen"} | _figures(ours) | {"launches": ours.cost.kernels, "device_bytes": ours.cost.device_bytes,
                  "peak_bytes": ours.memory.peak_bytes, "step_seconds": ours.cost.step_seconds}  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        path = Path(program) if program.endswith(".mlir") else Path(place, "program.mlir")
        if not program.endswith(".mlir"):
            path.write_text(program)
        if _PEERS["XLA"]():
            yield {**head, "by": "XLA", **_told(lambda: figures(compiled_text(path, ours.mesh.size), ours.mesh))}
        if _PEERS["mlir-opt"]():
            yield {**head, "by": "mlir-opt", **_told(lambda: _upstream(path))}


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


def _told(call: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """What a peer makes of a program, or why it refuses it."""
    try:
        return call()
    except (OSError, MeshgenError) as error:
        return {"refused": str(error).splitlines()[0][:200]}


def _upstream(path: Path) -> Mapping[str, Any]:
    """The partition of `mlir-opt`, in upstream's shard dialect, whose collectives are counted as ours are. Raises OSError, MeshgenError."""
    words = ["mlir-opt", str(path), f"--pass-pipeline={_PIPELINE}"]
    outcome = subprocess.run(words, capture_output=True, text=True)
    if outcome.returncode:
        raise OSError((outcome.stderr.strip().splitlines() or ["it gives no reason"])[0])
    return _figures(api.plan(outcome.stdout, target=TARGET))


SUITE = Suite(
    "what a device sends, launches and the predicted step, beside XLA's partitioner and mlir-opt",
    TITLES,
    no_options,
    run,
)
