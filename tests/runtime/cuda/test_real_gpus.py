"""Tests of the executor on this machine's real GPUs, with the same modules as on emulated ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from tests.programs import mlp
from tests.runtime.cuda.steps import TARGET, arguments, require_gpus

pytestmark = pytest.mark.gpu


def test_program_on_one_gpu_matches_cpu(tmp_path: Path) -> None:
    require_gpus(1)
    mg.compile("tests.runtime.cuda.test_real_gpus:layers", {"x": 1}, args=["f32[64,48]", "f32[48,32]"],
               target=TARGET).save(tmp_path / "one.mgx")  # fmt: skip
    assert_runs(tmp_path / "one.mgx")


def test_program_on_four_gpus_matches_cpu(tmp_path: Path) -> None:
    require_gpus(4)
    (tmp_path / "mlp.mlir").write_text(mlp(y=("x", "y")))
    mg.compile(tmp_path / "mlp.mlir", target=TARGET).save(tmp_path / "four.mgx")
    assert_runs(tmp_path / "four.mgx")


def layers(x: mg.Tensor, w: mg.Tensor) -> mg.Tensor:
    return mg.softmax(mg.tanh(x @ w))


def assert_runs(path: Path) -> None:
    """Compare three steps with the CPU: issued, captured, and launched again. The tolerance covers tf32 GEMMs."""
    module = mg.load(path)
    inputs = arguments(module)
    expected = module.run(inputs)
    for _ in range(3):
        for result, other in zip(module.run(inputs, "cuda"), expected, strict=True):
            np.testing.assert_allclose(result, other, rtol=2e-3, atol=2e-3)
