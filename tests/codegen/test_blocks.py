"""Tests of the bf16 programs in `tests/data/bf16`: a few of the model blocks.

`check_builds` and `check_programs` cover all of their kernels.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from check_builds import bodies_of, built

from meshgen.codegen.emit.ragged import RAGGED
from meshgen.codegen.emit.templates import plan_body
from meshgen.codegen.roofline.kernel_time import device_of
from tests.codegen.blocks.programs import BLOCKS
from tests.emulator.programs import cases_of

TEXTS = Path(__file__).resolve().parents[1] / "data" / "bf16"


@pytest.mark.parametrize("name", BLOCKS)
def test_stored_texts_equal_the_lowered_blocks(name: str) -> None:
    block = BLOCKS[name]
    assert (TEXTS / f"{name}_forward.mlir").read_text() == block.text(False, False)
    assert (TEXTS / f"{name}_train.mlir").read_text() == block.text(False, True)


def test_bf16_block_kernels_match_reference() -> None:
    pytest.importorskip("triton")
    cases = list(cases_of(TEXTS / "gpt2_forward.mlir", ["sm_90"]))
    assert {"dot", "attention", "reduce"} <= {case.source.template for case in cases}
    assert all(case.excess(case.run()) <= 1 for case in cases)


@pytest.mark.parametrize("arch", ["sm_80", "sm_100"])
def test_bf16_expert_kernels_do_not_spill(arch: str) -> None:
    pytest.importorskip("triton")
    ((mesh, bodies),) = bodies_of((TEXTS / "mixtral_forward.mlir").read_text(), arch)
    experts = {
        name: body for name, body in bodies.items() if plan_body(body, device_of(f"cuda:{arch}")).template is RAGGED
    }
    kernels = built(mesh, experts, arch)
    assert kernels and not any(kernel.spill_bytes for kernel in kernels.values())
