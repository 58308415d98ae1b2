"""Tests of the sector efficiency of complete bf16 programs at production sizes.

Programs use at least 95 % of the bytes in the memory sectors that they move. Two kinds of kernels are less efficient:
sums over all rows and pairs of neighbors (0.25, one in ResNet's training step), and accesses to data-dependent rows
(0.56).
"""

from __future__ import annotations

import pytest

from meshgen.api import plan
from meshgen.codegen.memory_efficiency import efficiency, kernel_traffic
from tests.codegen.blocks.programs import BLOCKS

MIN_EFFICIENCY = 0.95  # used share of the bytes that all launches of a program move; chosen: below every measured share
# Used shares measured by this test, rounded down; a lower share is a regression. Each training step contains the
# kernels of the forward pass, except that of mixtral, whose forward pass is measured separately.
TRAINING = {"llama": 0.999, "gpt2": 0.999, "mixtral": 0.999, "vit": 0.999, "resnet": 0.955, "mamba": 0.988}
SHARES = [("mixtral", False, 0.986), *((name, True, least) for name, least in TRAINING.items())]


@pytest.mark.parametrize("name, train, least", SHARES)
def test_programs_use_most_bytes_of_moved_sectors(name: str, train: bool, least: float) -> None:
    program = plan(BLOCKS[name].text(True, train), target="cuda:sm_90")
    counts = program.plan.launch_counts()
    accesses = [
        access
        for kernel, source in program.sources.items()
        for access in kernel_traffic(source, program.plan.kernels[kernel]) * counts[kernel]
    ]
    assert efficiency(accesses) >= least >= MIN_EFFICIENCY
