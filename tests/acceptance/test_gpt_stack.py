"""A stack of GPT layers: repeated layers share kernels, and time per operation does not grow with the number of layers."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from bench.compile import measured
from bench.stack import LAYERS, on_mesh, stack
from meshgen import api
from meshgen.cli import main
from meshgen.executable import Executable
from meshgen.runtime.loading import load
from tests.acceptance.cases import needs_cases, realistic

pytestmark = needs_cases
MAX_KERNELS = 15
MAX_GROWTH = 1.3


def seconds_per_op(layers: int) -> tuple[float, Executable]:
    """The faster of two plans, over the operations of the imported program."""
    best = float("inf")
    for _ in range(2):
        begin = time.process_time()  # the machine may be busy with something else
        executable = api.plan(stack(layers), target="cpu")
        best = min(best, time.process_time() - begin)
    return best / len(executable.stages["import"].graph.nodes), executable


def unnumbered_sources(executable: Executable) -> list[str]:
    """The kernels' sources; the last arguments and values have other numbers where there are more layers."""
    return sorted(re.sub(r"\b(arg|v)\d+", r"\1", source.text) for source in executable.sources.values())


def test_repeated_layers_share_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = tmp_path / "stack.mgx"
    assert main(["compile", str(realistic("gpt_stack_8l_2x4")), "--target", "cpu", "-o", str(module)]) == 0
    kernels = load(module).manifest.kernels
    assert 0 < len(kernels) <= MAX_KERNELS, list(kernels)
    assert all(load(module).source(name) for name in kernels)
    assert f"{len(kernels)} distinct" in capsys.readouterr().out


def test_time_per_op_and_kernels_do_not_grow_with_layers() -> None:
    few, of_eight = seconds_per_op(LAYERS)
    many, of_many = seconds_per_op(4 * LAYERS)
    nodes = [len(e.stages["import"].graph.nodes) for e in (of_eight, of_many)]
    assert nodes[1] > 3.8 * nodes[0]  # all but the embedding and the head is four times as much
    assert 0 < len(of_many.fused.kernels) == len(of_eight.fused.kernels) <= MAX_KERNELS
    assert unnumbered_sources(of_many) == unnumbered_sources(of_eight)
    per_layer = of_many.comms.counts["all_reduce"] - of_eight.comms.counts["all_reduce"]
    assert per_layer == 2 * 3 * LAYERS
    assert many <= MAX_GROWTH * few, f"{many * 1e3:.2f} ms per op, with {LAYERS} layers {few * 1e3:.2f} ms"


def test_time_and_size_do_not_grow_with_devices() -> None:
    """Eight devices and 16,384: every stage up to the schedule, and the schedule's text."""
    few, many = (min((measured(on_mesh(stack(LAYERS), *sizes)) for _ in range(2)), key=lambda m: m.seconds)
                 for sizes in ((2, 4), (128, 128)))  # fmt: skip
    assert many.seconds <= MAX_GROWTH * few.seconds, f"{many.seconds:.2f} s, on 8 devices {few.seconds:.2f} s"
    assert many.schedule_bytes <= 1.1 * few.schedule_bytes
