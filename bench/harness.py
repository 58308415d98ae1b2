"""What is measured: programs of one kernel or a few on one GPU, NCCL's collectives over all GPUs of the machine, and, without any
GPU, what a step costs the host.

Times are medians over `REPEATS` runs after `WARM_UP`; the spread is (largest - smallest) / median.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.collectives import measure_collectives
from bench.device import cuda
from bench.host import measure_host
from meshgen.errors import Diagnostic, UsageError


def _kernels() -> list[dict[str, Any]]:
    device = cuda()
    from bench.kernels.measure import measure_kernels  # needs JAX, which other suites do not

    return measure_kernels(device)


SUITES: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "kernels": _kernels,
    "collectives": lambda: measure_collectives(cuda()),
    "host": measure_host,
}


def measure(names: Sequence[str]) -> list[dict[str, Any]]:
    """One record per measurement of the named suites. Raises UsageError, MissingError."""
    if unknown := [name for name in names if name not in SUITES]:
        raise UsageError(
            Diagnostic(
                "MG0001", f"there is no benchmark '{unknown[0]}'", hint=f"the benchmarks are {', '.join(SUITES)}"
            )
        )
    return [row for name in names for row in SUITES[name]()]
