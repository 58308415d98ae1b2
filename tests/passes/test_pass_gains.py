"""A program for each pass that costs more without it: bytes that a device sends, the predicted step, kernels to
compile, work in a row, or ops and types that no kernel can be generated for.

The programs are what people write, mostly in JAX. Each says `// GAIN: ring_bytes 2`: without the pass at least twice as much.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import pytest

from meshgen import api
from meshgen.codegen.lacking import lacking_faults
from meshgen.compiled.executable import Executable
from meshgen.passes import PASSES
from meshgen.runtime.simulate import simulate
from meshgen.testing.oracle import check

FILES = {path.stem: path for path in sorted((Path(__file__).parent / "gains").glob("*.mlir"))}
# What gains only in large programs takes NumPy minutes; tests/sharding and tests/codegen/passes compare numbers of small ones.
LARGE = (
    "attention-gradient-sums",
    "attention-recompute",
    "chunks",
    "collective-combine",
    "collective-licm",
    "copy-operands",
    "loop-reduce-hoist",
    "row-sums-to-runs",
    "scan-prefetch",
    "slice-into-dot",
)


@cache
def planned(name: str) -> Executable:
    return api.plan(str(FILES[name]))


@cache
def without(name: str) -> Executable:
    return api.plan(str(FILES[name]), skip=[name])


def promised(name: str) -> tuple[str, float]:
    """What the file says: the figure, and the least ratio of it without the pass to that with it."""
    (line,) = [line for line in FILES[name].read_text().splitlines() if line.startswith("// GAIN: ")]
    figure, least = line.removeprefix("// GAIN: ").split()
    return figure, float(least)


def cost(executable: Executable, figure: str) -> float:
    return {
        "ring_bytes": lambda: executable.cost.ring_bytes,
        "step": lambda: executable.cost.step_seconds,
        "kernels": lambda: len(executable.plan.kernels),
        "lacking": lambda: len(lacking_faults((body, 1) for body in executable.plan.kernels.values())),
        "bytes_per_program": lambda: bytes_per_program(executable),
    }[figure]()


def bytes_per_program(executable: Executable) -> float:
    """The most bytes that one program of a kernel moves: a grid that is too small leaves most of a GPU idle."""
    return max(source.bytes / math.prod(source.grid) for source in executable.sources.values())


@pytest.mark.parametrize("name", FILES)
def test_the_program_costs_more_without_the_pass(name: str) -> None:
    figure, least = promised(name)
    assert least > 1
    assert planned(name).passes[name].kept
    before, after = cost(without(name), figure), cost(planned(name), figure)
    assert (before / after if after else math.inf if before else 1.0) >= least


@pytest.mark.parametrize("name", [name for name in FILES if name not in LARGE])
def test_the_program_computes_the_same(name: str) -> None:
    """With the pass and without it what the program as it was entered computes, which is evaluated once for both."""
    stages, other = planned(name).stages, without(name).stages["fuse"]
    entered = next(iter(stages.values()))
    result = check(entered, pipeline=lambda _: stages["fuse"], runs=[lambda _, args: simulate(other, args)])
    assert result.ok, result.faults


def test_each_pass_has_a_program() -> None:
    assert set(FILES) == set(PASSES)
