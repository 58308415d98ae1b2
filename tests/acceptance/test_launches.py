"""Transformer blocks and optimizer steps need few launches. They load and store little more than the operands and
results of their kernels.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from meshgen import api
from meshgen.compiled.executable import Executable
from tests.acceptance.cases import CASES, ROOT, needs_cases, realistic

REPROS = CASES.parent / "repros" / "programs"
OWN = ROOT / "tests" / "data" / "bf16"
MAX_LAUNCHES_OF_MODELS = {
    OWN / "block_dp_tp.mlir": 8,
    OWN / "block_train_dp_tp.mlir": 28,
    OWN / "gpt2_forward.mlir": 8,
    OWN / "gpt2_train.mlir": 28,
    OWN / "llama_forward.mlir": 8,
    OWN / "llama_train.mlir": 30,
}
MAX_LAUNCHES_OF_CASES = {
    realistic("block_dp_tp_bf16"): 8,
    realistic("block_train_dp_tp"): 28,
    REPROS / "llama_fwd_bf16.mlir": 8,
    REPROS / "llama_train_adamw_bf16.mlir": 30,
    REPROS / "adamw_many.mlir": 1,
}
BF16 = 2  # bytes


@cache
def planned(path: Path) -> Executable:
    return api.plan(str(path), target="cuda:sm_90")


@pytest.mark.parametrize("path", MAX_LAUNCHES_OF_MODELS, ids=lambda path: path.stem)
def test_model_needs_few_launches(path: Path) -> None:
    assert 0 < planned(path).cost.kernels <= MAX_LAUNCHES_OF_MODELS[path]


@needs_cases
@pytest.mark.parametrize("path", MAX_LAUNCHES_OF_CASES, ids=lambda path: path.stem)
def test_realistic_model_needs_few_launches(path: Path) -> None:
    assert 0 < planned(path).cost.kernels <= MAX_LAUNCHES_OF_CASES[path]


def tensors(*elements: int) -> int:
    return BF16 * sum(elements)


@needs_cases
def test_block_traffic_is_near_the_minimum_of_its_kernels() -> None:
    """A device has 4 x 256 rows of 1,024 elements, 4 of 16 heads, and 1,024 of 4,096 hidden columns. An all_reduce
    precedes each residual add.
    """
    rows, heads, weight = 1024 * 1024, 1024 * 256, 1024 * 256
    square = 1024 * 1024
    least = tensors(
        rows, rows,  # norm
        rows, 3 * weight, 3 * heads,
        4 * heads,  # attention
        heads, weight, rows,
        2 * rows, 2 * rows,  # residual add and norm
        rows, square, rows,
        rows, square, rows,
        3 * rows,  # residual
    )  # fmt: skip
    assert least <= planned(realistic("block_dp_tp_bf16")).cost.device_bytes <= 1.15 * least


@needs_cases
def test_llama_block_traffic_is_near_the_minimum_of_its_kernels() -> None:
    """The program has 4,096 tokens of 4,096 elements, 32 query heads of 128 elements, 8 key and value heads, and 14,336
    hidden columns.
    """
    rows, keys, hidden = 4096 * 4096, 4096 * 1024, 4096 * 14336
    least = tensors(
        rows, rows,  # norm
        rows, rows + 2 * keys, rows + 2 * keys,
        rows + 2 * keys, rows,  # attention
        rows, rows, rows, rows,  # including the residual add
        rows, rows,  # norm
        rows, 2 * hidden, hidden,  # gate and up projections
        hidden, hidden, rows, rows,  # down projection, including the residual add
    )  # fmt: skip
    executable = planned(REPROS / "llama_fwd_bf16.mlir")
    assert least <= executable.cost.device_bytes <= 1.15 * least
