"""What is measured: each distinct kernel of a module on one GPU, and NCCL's collectives over all GPUs of the machine.

Times are medians over `REPEATS` runs after `WARM_UP`; the spread is (largest - smallest) / median.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.collectives import measure_collectives
from bench.device import cuda
from bench.kernels import measure_kernels
from meshgen.errors import Diagnostic, UsageError

SUITES: dict[str, Callable[[Any], list[dict[str, Any]]]] = {
    "kernels": measure_kernels,
    "collectives": measure_collectives,
}


def measure(names: Sequence[str]) -> list[dict[str, Any]]:
    """One record per measurement of the named suites. Raises UsageError, MissingError."""
    if unknown := [name for name in names if name not in SUITES]:
        raise UsageError(
            Diagnostic(
                "MG0001", f"there is no benchmark '{unknown[0]}'", hint=f"the benchmarks are {', '.join(SUITES)}"
            )
        )
    cupy = cuda()
    return [row for name in names for row in SUITES[name](cupy)]
