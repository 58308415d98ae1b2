"""`python -m bench.compile`: what compiling costs, one JSON record per line. No GPU is needed.

A stack of GPT layers that JAX lowers, from its text to the end of partition, and to the schedule: 8 and 32 layers on 8 devices, then
8 layers on 16,384. Times are CPU seconds of the fastest of `REPEATS` runs, in one process; those of the whole command `meshgen compile`, to a module
for sm_90 on disk, are of a process each, when the kernels are built already.
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.stack import LAYERS, stack
from meshgen.errors import MeshgenError
from meshgen.mlir.text import parse_text, print_text
from meshgen.pipeline import Options, Timing, run_stages

REPEATS = 2


@dataclass(frozen=True)
class Cost:
    """CPU seconds from text to the end of partition and to the schedule, and the size of the schedule's text."""

    to_partition: float
    seconds: float
    schedule_bytes: int


def measured(text: str) -> Cost:
    """One run."""
    options = Options("cpu", "local")
    gc.collect()
    begin = time.process_time()
    run_stages(parse_text(text), options, Timing(), "partition")
    middle = time.process_time()
    last = run_stages(parse_text(text), options, Timing(), "schedule")["schedule"]
    end = time.process_time()
    return Cost(middle - begin, end - middle, len(print_text(last)))


def command_seconds(text: str) -> float:
    """CPU seconds of the whole command, the fastest of `REPEATS` runs behind one that builds the kernels."""
    with tempfile.TemporaryDirectory() as place:
        program, module = Path(place, "program.mlir"), Path(place, "module.mgx")
        program.write_text(text)
        words = [sys.executable, "-m", "meshgen", "compile", str(program), "-o", str(module)]
        return min([_child_seconds(words) for _ in range(1 + REPEATS)][1:])


def _child_seconds(words: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def records() -> Iterator[dict[str, object]]:
    for layers, sizes in ((LAYERS, (2, 4)), (4 * LAYERS, (2, 4)), (LAYERS, (128, 128))):
        text = stack(layers, *sizes)
        best = min((measured(text) for _ in range(REPEATS)), key=lambda cost: cost.to_partition)
        command = command_seconds(text)
        yield {
            "program": "gpt_stack",
            "layers": layers,
            "devices": sizes[0] * sizes[1],
            **asdict(best),
            "command": command,
        }


def main() -> int:
    try:
        for record in records():
            sys.stdout.write(json.dumps(record) + "\n")
            sys.stdout.flush()
    except MeshgenError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
