"""`python -m bench.models.measure meshgen|by-hand|xla NAME [--small]`: plan or compile one program with one tool, and
print a JSON record.

Each tool runs in its own process, so that CPU seconds and memory are its own. The seconds exclude the lowering by the
framework. The memory includes it; `bytes_before` is the memory after the lowering.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.models.catalog import FAMILIES, FAMILY_OF, program

TARGET = "cuda:sm_90"
MOST_SECONDS = 900  # limit, chosen: CPU seconds for lowering a program and planning or compiling it


def planned(entered: Any) -> dict[str, Any]:
    """Plan a lowered JAX program or an exported PyTorch program up to the schedule, and return the figures of the plan."""
    from meshgen import api

    lowered = entered.lowered()
    executable, seconds = timed(lambda: api.plan(lowered, target=TARGET, **entered.options))
    cost = executable.cost
    return seconds | {
        "collectives": {kind: count for kind, count in sorted(executable.comms.counts.items()) if count},
        "moved_bytes": cost.ring_bytes,
        "flops": cost.flops,
        "redundant_flops": cost.redundant_flops,
        "step_seconds": cost.step_seconds,
        "exposed_seconds": cost.exposed_seconds,
        "launches": cost.kernels,
        "kernels": cost.distinct_kernels,
        "device_bytes": executable.memory.peak_bytes,
        "stages": executable.seconds,
    }


def compiled(entered: Any) -> dict[str, Any]:
    """Compile a program with XLA for simulated CPU devices, one per device of the mesh. Return seconds and memory."""
    return timed(entered.lowered(devices=True).compile)[1]


def annotated(entered: Any) -> dict[str, Any]:
    """Plan a JAX program with annotated activations, and return the same figures as `planned`."""
    from bench.models.by_hand import by_hand

    return planned(by_hand(entered))


TOOLS = {"meshgen": planned, "by-hand": annotated, "xla": compiled}


def timed(call: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    """Return the result of a call, its CPU seconds over all threads, and the peak memory before and after."""
    before, begin = _peak_bytes(), time.process_time()
    result = call()
    return result, {"cpu_seconds": time.process_time() - begin, "bytes_before": before, "peak_bytes": _peak_bytes()}


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(tool: str, name: str, *options: str) -> None:
    # at the limit, the signal SIGXCPU ends the process
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS + 1))
    try:
        if tool != "meshgen" and FAMILIES[FAMILY_OF[name]].framework != "jax":
            raise ValueError("for programs of JAX only")
        record = TOOLS[tool](program(name, "--small" in options))
    except Exception as error:  # a refused program has a row in the table too
        record = {"refused": f"{type(error).__name__}: {error}"[:1000]}
    sys.stdout.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
