"""Programs lowered by JAX, with arguments and expected results, in the folder `../shared/cases/jax` beside the
repository. A bare clone lacks this folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

Array = np.ndarray[Any, Any]
ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT.parent / "shared" / "cases" / "jax"

needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason="the programs that JAX lowered are not beside this clone")

BLOCKS = ["attn_tp", "block_dp_tp", "block_dp_tp_bf16", "block_dp_tp_sp", "block_fsdp"]
MLPS = ["mlp_1d_ws_2", "mlp_1d_ws_8", "mlp_2d_ws", "mlp_2d_ws_annot", "mlp_train_dp"]
ROWS = ["softmax_sharded", "layernorm_sharded", "contract_chain", "partial_sum_linear"]
MOVES = [
    "reshard_row_to_col",
    "reshard_swap_2d",
    "reshard_axis_replace",
    "reshape_merge_minor",
    "reshape_split_heads_transpose",
]
PROGRAMS = [*MLPS, *BLOCKS, *ROWS, *MOVES]  # gpt_stack_8l_2x4 is missing here: tests compile it but do not run it


def small(name: str, form: str = "shardy") -> Path:
    """Return the path of a program at small sizes. `form` is `shardy` (pretty form) or `generic` (MLIR's generic form)."""
    return CASES / "small" / f"{name}.{form}.mlir"


def realistic(name: str) -> Path:
    return CASES / f"{name}.shardy.mlir"


def realistic_names() -> list[str]:
    """Return the names of all programs at realistic size. Empty if the folder is missing."""
    return sorted(path.name.removesuffix(".shardy.mlir") for path in CASES.glob("*.shardy.mlir"))


def recipe(name: str) -> dict[str, Any]:
    """Return how the arguments of the case `name` are generated, and the tolerance of its results."""
    return json.loads((CASES / f"{name}.json").read_text())


def peers() -> dict[str, dict[str, Any]]:
    """Return for each program XLA's figures, and the bytes that the cheapest known schedule sends."""
    return json.loads((CASES / "peers.json").read_text())


def arguments(name: str) -> Iterator[Array]:
    """Yield the arguments of a program at small sizes. JAX computed the expected results with them."""
    case = recipe(name)
    for index, spec in enumerate(case["small"]["args"]):
        random, shape = np.random.default_rng([case["seed"], index]), tuple(spec["shape"])
        if spec["init"] == "normal":
            array = random.standard_normal(shape, dtype=np.float32) * np.float32(spec["scale"])
        elif spec["init"] == "ones":
            array = np.ones(shape, np.float32)
        elif spec["init"] == "perm":
            array = random.permutation(spec["hi"]).reshape(shape)
        else:
            array = random.integers(spec["lo"], spec["hi"], shape)
        dtype = ml_dtypes.bfloat16 if spec["dtype"] == "bfloat16" else np.dtype(spec["dtype"])
        yield np.asarray(array).astype(dtype)
