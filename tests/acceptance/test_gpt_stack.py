"""A stack of GPT layers: repeated layers share kernels, and the compile work per op does not grow with the number of
layers.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from meshgen import api
from meshgen.benchmarks.stack import stack
from meshgen.cli import main
from meshgen.compiled.executable import Executable
from meshgen.runtime.loading import load
from tests.counting import calls

pytest.importorskip("jax")
FEW, MANY = 2, 6  # layers
MAX_KERNELS = 15
MAX_GROWTH = 1.05


def planned(layers: int, sizes: tuple[int, int] = (2, 4)) -> Executable:
    return api.plan(stack(layers, *sizes), target="cpu")


@pytest.fixture(scope="module")
def of_few() -> tuple[int, Executable]:
    """Return the number of function calls that planning a stack of `FEW` layers takes, and its plan."""
    planned(FEW)  # the first plan fills the caches of shapes and shardings
    return calls(lambda: planned(FEW))


def unnumbered_sources(executable: Executable) -> list[str]:
    """Return the kernel sources with all numbers removed from the names of arguments and values. The numbers depend on
    the layer count.
    """
    return sorted(re.sub(r"\b(arg|v)\d+", r"\1", source.text) for source in executable.sources.values())


def test_repeated_layers_share_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, module = tmp_path / "stack.mlir", tmp_path / "stack.mgx"
    program.write_text(stack(FEW, 2, 4))
    assert main(["compile", str(program), "--target", "cpu", "-o", str(module)]) == 0
    kernels = load(module).manifest.kernels
    assert 0 < len(kernels) <= MAX_KERNELS, list(kernels)
    assert all(load(module).source(name) for name in kernels)
    assert f"{len(kernels)} distinct" in capsys.readouterr().out


def test_compile_work_per_op_and_kernels_do_not_grow_with_layers(of_few: tuple[int, Executable]) -> None:
    few, small = of_few
    many, big = calls(lambda: planned(MANY))
    nodes = [len(e.stages["import"].graph.nodes) for e in (small, big)]
    assert nodes[1] > 2.5 * nodes[0]  # the number of layers triples; the embedding and the head are constant
    assert 0 < len(big.fused.kernels) == len(small.fused.kernels) <= MAX_KERNELS
    assert unnumbered_sources(big) == unnumbered_sources(small)
    assert big.comms.counts["all_reduce"] - small.comms.counts["all_reduce"] == 2 * (MANY - FEW)
    assert many / nodes[1] <= MAX_GROWTH * few / nodes[0]


def test_compile_work_and_schedule_do_not_grow_with_devices(of_few: tuple[int, Executable]) -> None:
    """Compare plans for 8 and for 16,384 devices by the work of all stages up to the schedule, and by the length of the
    schedule's text.
    """
    few, small = of_few
    many, big = calls(lambda: planned(FEW, (128, 128)))
    assert many <= 1.2 * few
    assert len(big.as_text("schedule")) <= 1.1 * len(small.as_text("schedule"))
