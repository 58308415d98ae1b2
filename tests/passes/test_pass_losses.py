"""No pass makes a program longer that was not written for it; `python -m bench.passes` measures all programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.passes import gains
from meshgen.passes import PASSES
from tests.sources import ROOT

BF16 = (
    "attn_tp",
    "batchnorm_dp",
    "block_dp_tp",
    "decode_heads",
    "layernorm_sharded",
    "llama_forward",
    "mlp_train_dp",
    "moe_ep_nohint",
    "resnet_forward",
    "xent_vocab_onehot",
)
CASES = ("attn_fused_qkv_tp", "contract_chain", "dropout_rng", "mlp_train_zero3", "reshard_swap_2d", "uneven_slice")
PROGRAMS = [
    ROOT / "examples" / "transformer_block.mlir",
    *(ROOT / "tests" / "data" / "bf16" / f"{name}.mlir" for name in BF16),
    *(ROOT.parent / "shared" / "cases" / "jax" / "small" / f"{name}.shardy.mlir" for name in CASES),
]

# Passes that make a program longer, since another decision follows from what they do, which is in the comment.
KNOWN = {
    "mlp_train_dp": {"concatenate-to-group-call"},  # two products that the message waits for are not fused
}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name.partition(".")[0])
def test_no_pass_makes_the_step_longer(path: Path) -> None:
    if not path.exists():
        pytest.skip(f"{path} is not here")
    longer = {name for name, gain in gains(path, path.name, PASSES) if gain.is_longer}
    assert longer == KNOWN.get(path.name.partition(".")[0], set())
