"""`python -m bench.models.measure meshgen|by-hand|xla NAME [--small]`: one tool plans or compiles one program; a JSON record.

A process each, so that CPU seconds and memory are those of one tool. Lowering is not in the seconds; it is in the memory, as `bytes_before`.
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
MOST_SECONDS = 900  # of CPU, for lowering and planning or compiling one program


def planned(given: Any) -> dict[str, Any]:
    """From what `jax.jit(...).lower(...)` or `torch.export` gives to the schedule."""
    from meshgen import api

    lowered = given.lowered()
    executable, seconds = timed(lambda: api.plan(lowered, target=TARGET, **given.options))
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


def compiled(given: Any) -> dict[str, Any]:
    """By XLA for as many CPU devices."""
    return timed(given.lowered(devices=True).compile)[1]


def annotated(given: Any) -> dict[str, Any]:
    """As `planned`, of a program of JAX with its activations annotated."""
    from bench.models.by_hand import by_hand

    return planned(by_hand(given))


TOOLS = {"meshgen": planned, "by-hand": annotated, "xla": compiled}


def timed(call: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    """What a call gives; its CPU seconds, of all threads, and the peak of memory before and after it."""
    before, begin = _peak_bytes(), time.process_time()
    found = call()
    return found, {"cpu_seconds": time.process_time() - begin, "bytes_before": before, "peak_bytes": _peak_bytes()}


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(tool: str, name: str, *options: str) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS + 1))  # ends the process by SIGXCPU
    try:
        if tool != "meshgen" and FAMILIES[FAMILY_OF[name]].framework != "jax":
            raise ValueError("for programs of JAX only")
        record = TOOLS[tool](program(name, "--small" in options))
    except Exception as error:  # one program that is refused is a row of the table, not the end of it
        record = {"refused": f"{type(error).__name__}: {error}"[:1000]}
    sys.stdout.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
