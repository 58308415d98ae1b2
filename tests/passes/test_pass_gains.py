"""Tests of each pass by a program that costs more without it.

The cost is bytes sent per device, the predicted step time, the number of kernels, bytes of touched sectors, or
ops and dtypes without kernels. The programs are typical user programs, mostly lowered from JAX.
`// GAIN: ring_bytes 2` promises at least twice the cost without the pass. `// NUMBERS: 4096=96 8=2` replaces
sizes for the comparison of results, where NumPy would take long.
"""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path

import pytest

from meshgen import api
from meshgen.codegen.memory_efficiency import kernel_traffic
from meshgen.codegen.missing_kernels import missing_kernel_faults
from meshgen.compiled.executable import Executable
from meshgen.passes import PASSES
from meshgen.runtime.simulate import simulate
from meshgen.testing.oracle import check

FILES = {path.stem: path for path in sorted((Path(__file__).parent / "gains").glob("*.mlir"))}
# These passes reduce the cost only of large programs, which NumPy takes minutes to evaluate. tests/sharding and
# tests/codegen/passes compare the results of small programs instead.
LARGE = (
    "chunks",
    "collective-combine",
    "collective-licm",
    "copy-operands",
    "fft-to-pencils",
    "row-sums-to-runs",
    "scan-prefetch",
    "slice-into-dot",
)


@cache
def planned(name: str) -> Executable:
    return api.plan(str(FILES[name]))


@cache
def without(name: str) -> Executable:
    return api.plan(str(FILES[name]), skip=[pass_of(name)])


def pass_of(name: str) -> str:
    """Return the pass that a file tests: the part of its name before the first dot, as in `split-reduction.dot`."""
    return name.partition(".")[0]


def directive_values(name: str, word: str) -> list[str]:
    """Return the words after `// WORD: ` in the file, or an empty list if it has no such line."""
    lines = FILES[name].read_text().splitlines()
    return [value for line in lines if line.startswith(f"// {word}: ") for value in line.split()[2:]]


def promised_gain(name: str) -> tuple[str, float]:
    """Return the name of the promised figure, and the minimum of its value without the pass divided by its value with
    it.
    """
    figure, min_ratio = directive_values(name, "GAIN")
    return figure, float(min_ratio)


def both(name: str) -> tuple[Executable, Executable]:
    """Return the program planned with and without the pass, at the sizes for which results are compared."""
    if not (sizes := dict(pair.split("=") for pair in directive_values(name, "NUMBERS"))):
        return planned(name), without(name)
    text = re.sub(r"(?<![\d.fi])\d+(?![\d.])", lambda match: sizes.get(match[0], match[0]), FILES[name].read_text())
    return api.plan(text), api.plan(text, skip=[pass_of(name)])


def cost(executable: Executable, figure: str) -> float:
    return {
        "ring_bytes": lambda: executable.cost.ring_bytes,
        "step": lambda: executable.cost.step_seconds,
        "kernels": lambda: len(executable.plan.kernels),
        "lacking": lambda: len(missing_kernel_faults((body, 1) for body in executable.plan.kernels.values())),
        "sector_bytes": lambda: sector_bytes(executable),
    }[figure]()


def sector_bytes(executable: Executable) -> float:
    """Return the bytes of all memory sectors that the kernels of a step move, including unused bytes."""
    counts = executable.plan.launch_counts()
    traffics = {name: kernel_traffic(executable.sources[name], executable.plan.kernels[name]) for name in counts}
    return sum(
        traffic.moved * counts[name] for name, kernel_traffics in traffics.items() for traffic in kernel_traffics
    )


@pytest.mark.parametrize("name", FILES)
def test_program_costs_more_without_the_pass(name: str) -> None:
    figure, min_ratio = promised_gain(name)
    assert min_ratio > 1
    assert planned(name).passes[pass_of(name)].kept
    before, after = cost(without(name), figure), cost(planned(name), figure)
    assert (before / after if after else math.inf if before else 1.0) >= min_ratio


@pytest.mark.parametrize("name", FILES)
def test_kernels_are_missing_only_without_enabling_passes(name: str) -> None:
    assert not cost(planned(name), "lacking")
    assert bool(cost(without(name), "lacking")) == bool(PASSES[pass_of(name)].enables)


@pytest.mark.parametrize("name", [name for name in FILES if name not in LARGE])
def test_results_do_not_depend_on_the_pass(name: str) -> None:
    """Compare the results with and without the pass to the imported program, which is evaluated once."""
    with_pass, without_pass, pass_name = *both(name), pass_of(name)
    assert with_pass.passes[pass_name].kept and pass_name not in without_pass.passes
    stages, skipped = with_pass.stages, without_pass.stages["fuse"]
    entered = next(iter(stages.values()))
    result = check(entered, pipeline=lambda _: stages["fuse"], runs=[lambda _, args: simulate(skipped, args)])
    assert result.ok, result.faults


def test_every_pass_has_a_gain_program() -> None:
    assert {pass_of(name) for name in FILES} == set(PASSES)
