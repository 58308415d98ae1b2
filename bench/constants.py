"""`python -m bench.constants [MB]`: what large constants cost, as one JSON record. No GPU is needed.

A chain of products with constant weights (512 MB of them, unless given) on 8 devices is planned and saved, in this process.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import meshgen as mg

SIDE = 4096  # rows and columns of a weight of f32: 64 MiB
KIB, MIB = 1 << 10, 1 << 20


def record(megabytes: int) -> dict[str, float]:
    """CPU seconds of planning and of saving, bytes of weights and of the file, and the peak of resident memory in bytes."""
    random = np.random.default_rng(0)
    count = max(1, megabytes * MIB // (SIDE * SIDE * 4))
    weights = [random.standard_normal((SIDE, SIDE), np.float32) for _ in range(count)]

    def program(x: mg.Tensor) -> mg.Tensor:
        for weight in weights:
            x = mg.tanh(x @ weight)
        return x

    begin = time.process_time()
    executable = mg.compile(
        program, {"dp": 2, "tp": 4}, args=[mg.spec(f"f32[64,{SIDE}]")], in_specs=[mg.P("dp")], target="cpu"
    )
    planned = time.process_time()
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "m.mgx")
        executable.save(path)
        size = path.stat().st_size
    return {
        "weight_bytes": sum(weight.nbytes for weight in weights),
        "file_bytes": size,
        "plan_seconds": planned - begin,
        "save_seconds": time.process_time() - planned,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(record(int(sys.argv[1]) if len(sys.argv) > 1 else 512)) + "\n")
