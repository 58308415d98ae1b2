"""A program for each pass that costs more without it: bytes that a device sends, the predicted step, kernels to
compile, work in a row, bytes of the sectors that kernels touch, or ops and types that no kernel can be generated for.

The programs are what people write, mostly in JAX. Each says `// GAIN: ring_bytes 2`: without the pass at least twice as much.
Where NumPy would take long, `// NUMBERS: 4096=96 8=2` says at which sizes results are compared.
"""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path

import pytest

from meshgen import api
from meshgen.codegen.missing_kernels import lacking_faults
from meshgen.codegen.sectors import kernel_traffic
from meshgen.compiled.executable import Executable
from meshgen.passes import PASSES
from meshgen.runtime.simulate import simulate
from meshgen.testing.oracle import check

FILES = {path.stem: path for path in sorted((Path(__file__).parent / "gains").glob("*.mlir"))}
# What gains only in large programs takes NumPy minutes; tests/sharding and tests/codegen/passes compare numbers of small ones.
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
    """The pass that a file is about; a further file of a pass has a word more: `split-reduction.dot`."""
    return name.partition(".")[0]


def said(name: str, word: str) -> list[str]:
    """What follows `// WORD: ` in the file; empty where it does not say that."""
    lines = FILES[name].read_text().splitlines()
    return [each for line in lines if line.startswith(f"// {word}: ") for each in line.split()[2:]]


def promised(name: str) -> tuple[str, float]:
    """What the file says: the figure, and the least ratio of it without the pass to that with it."""
    figure, least = said(name, "GAIN")
    return figure, float(least)


def both(name: str) -> tuple[Executable, Executable]:
    """The program with the pass and without it, at the sizes for which numbers are compared."""
    if not (sizes := dict(each.split("=") for each in said(name, "NUMBERS"))):
        return planned(name), without(name)
    text = re.sub(r"(?<![\d.fi])\d+(?![\d.])", lambda found: sizes.get(found[0], found[0]), FILES[name].read_text())
    return api.plan(text), api.plan(text, skip=[pass_of(name)])


def cost(executable: Executable, figure: str) -> float:
    return {
        "ring_bytes": lambda: executable.cost.ring_bytes,
        "step": lambda: executable.cost.step_seconds,
        "kernels": lambda: len(executable.plan.kernels),
        "lacking": lambda: len(lacking_faults((body, 1) for body in executable.plan.kernels.values())),
        "sector_bytes": lambda: sector_bytes(executable),
    }[figure]()


def sector_bytes(executable: Executable) -> float:
    """What the kernels of a step move: memory moves in sectors, whatever is used of them."""
    counts = executable.plan.launch_counts()
    traffics = {name: kernel_traffic(executable.sources[name], executable.plan.kernels[name]) for name in counts}
    return sum(each.moved * counts[name] for name, found in traffics.items() for each in found)


@pytest.mark.parametrize("name", FILES)
def test_the_program_costs_more_without_the_pass(name: str) -> None:
    figure, least = promised(name)
    assert least > 1
    assert planned(name).passes[pass_of(name)].kept
    before, after = cost(without(name), figure), cost(planned(name), figure)
    assert (before / after if after else math.inf if before else 1.0) >= least


@pytest.mark.parametrize("name", FILES)
def test_kernels_are_missing_only_without_a_pass_that_enables_them(name: str) -> None:
    assert not cost(planned(name), "lacking")
    assert bool(cost(without(name), "lacking")) == bool(PASSES[pass_of(name)].enables)


@pytest.mark.parametrize("name", [name for name in FILES if name not in LARGE])
def test_the_program_computes_the_same(name: str) -> None:
    """With the pass and without it what the program as it was entered computes, which is evaluated once for both."""
    one, other, each = *both(name), pass_of(name)
    assert one.passes[each].kept and each not in other.passes
    stages, skipped = one.stages, other.stages["fuse"]
    entered = next(iter(stages.values()))
    result = check(entered, pipeline=lambda _: stages["fuse"], runs=[lambda _, args: simulate(skipped, args)])
    assert result.ok, result.faults


def test_each_pass_has_a_program() -> None:
    assert {pass_of(name) for name in FILES} == set(PASSES)
