"""Models with a PyTorch and a JAX version: with the same sharding, the plans of both send the same bytes. Both versions
are files, so that neither package is needed.
"""

from __future__ import annotations

import gzip
from typing import Any

import pytest

import meshgen as mg
from meshgen import api
from tests.frontend.pytorch.archives import DATA_FOLDER

P = mg.P
# Linear layers have weights [out, in] in torch and [in, out] in JAX. GPT-2's are transposed in both.


def by_heads(*into: str, out: tuple[str, ...]) -> dict[str, Any]:
    """Return specs that split heads and hidden dims over `tp`: the output features of the layers `into`, and the input
    features of the layers `out`.
    """
    return {f"*{name}.weight": P("tp") for name in into} | {f"*.{name}.weight": P(None, "tp") for name in out}


SPLIT: dict[str, dict[str, Any]] = {
    "gpt2": {"*.c_attn.weight": P(None, "tp"), "*.c_attn.bias": P("tp"), "*.c_fc.weight": P(None, "tp"), "*.c_fc.bias": P("tp"), "*.c_proj.weight": P("tp")},
    "llama": by_heads("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "lm_head", out=("o_proj", "down_proj")),
    "bert": by_heads(".query", ".key", ".value", "intermediate.dense", out=("output.dense",)),
    "t5": by_heads(".q", ".k", ".v", ".wi", out=("o", "wo")),
    "resnet": {},
    "mixtral": {f"*.{name}": P("ep") for name in ("gate", "up", "down")},
    "mamba": {"*.into": P(None, None, "tp"), "*.step": P(None, "tp")} | {f"*.{name}": P("tp") for name in ("taps", "select", "step_bias", "decay", "skip", "out")},
    "unet": by_heads(".query", ".key", ".value", ".up", out=("out", "down")),
    "vit": by_heads(".q_proj", ".k_proj", ".v_proj", ".fc1", out=("o_proj", "fc2")),
}  # fmt: skip
ROWS = {
    "vit": ["pixel_values"],
    "t5": ["input_ids", "decoder_input_ids"],
    "resnet": [],
    "mixtral": ["ids"],
    "mamba": ["ids"],
    "unet": ["x", "time", "prompt"],
}
SPECIAL_SPECS = {"resnet": {"pixel_values": P(None, None, "dp")}}


@pytest.mark.parametrize("name", [*SPLIT])
def test_torch_model_communicates_like_jax_model(name: str) -> None:
    of_jax = api.plan(gzip.decompress((DATA_FOLDER / f"{name}_same.mlir.gz").read_bytes()).decode(), target="cpu")
    specs = (
        SPLIT[name] | {argument: P("dp") for argument in ROWS.get(name, ["input_ids"])} | SPECIAL_SPECS.get(name, {})
    )
    of_torch = api.plan(DATA_FOLDER / f"{name}_same.pt2", of_jax.mesh, in_specs=specs, target="cpu")
    assert of_torch.comms.ring_bytes == pytest.approx(of_jax.comms.ring_bytes, rel=0.05) and of_jax.comms.ring_bytes > 0
    assert of_torch.comms.counts == of_jax.comms.counts
