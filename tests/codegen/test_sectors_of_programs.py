"""How much of the sectors that they move the kernels of whole programs use, in bf16 and at their own sizes: at least 95 % of all bytes.

Below that are by themselves: sums over pairs of neighbours and all rows (0.25: one in ResNet's training step), and rows that data choose (0.56).
"""

from __future__ import annotations

import pytest

from meshgen.api import plan
from meshgen.codegen.sectors import efficiency, kernel_traffic
from tests.codegen.blocks.programs import BLOCKS

LEAST = 0.95  # of the bytes that all launches of a program move
# As measured, rounded down: a program that falls below has lost something. Training has the kernels of the forward pass too, but for mixtral.
TRAINING = {"llama": 0.999, "gpt2": 0.999, "mixtral": 0.999, "vit": 0.999, "resnet": 0.955, "mamba": 0.988}
SHARES = [("mixtral", False, 0.986), *((name, True, least) for name, least in TRAINING.items())]


@pytest.mark.parametrize("name, train, least", SHARES)
def test_sectors_are_used(name: str, train: bool, least: float) -> None:
    program = plan(BLOCKS[name].text(True, train), target="cuda:sm_90")
    counts = program.plan.launch_counts()
    found = [
        each
        for kernel, source in program.sources.items()
        for each in kernel_traffic(source, program.plan.kernels[kernel]) * counts[kernel]
    ]
    assert efficiency(found) >= least >= LEAST
