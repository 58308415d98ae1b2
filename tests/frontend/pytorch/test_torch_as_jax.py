"""A model in PyTorch and the same model in JAX, split alike, are plans that move as many bytes; from files, without either package."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

import meshgen as mg
from meshgen import api
from tests.frontend.pytorch.archives import PLACE

P = mg.P
IN, OUT = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "lm_head"), ("o_proj", "down_proj")
# Linear layers of torch have their weights as [out, in], those of JAX as [in, out]; GPT-2's the other way round in both.
SPLIT: dict[str, dict[str, Any]] = {
    "gpt2": {"*.c_attn.weight": P(None, "tp"), "*.c_attn.bias": P("tp"), "*.c_fc.weight": P(None, "tp"), "*.c_fc.bias": P("tp"), "*.c_proj.weight": P("tp")},
    "llama": {f"*{name}.weight": P("tp") for name in IN} | {f"*.{name}.weight": P(None, "tp") for name in OUT},
}  # fmt: skip


@pytest.mark.parametrize("name", [*SPLIT])
def test_the_same_model_moves_the_same_bytes(name: str) -> None:
    specs = SPLIT[name] | {"input_ids": P("dp")}
    of_torch = api.plan(PLACE / f"{name}_same.pt2", {"dp": 2, "tp": 4}, in_specs=specs, target="cpu")
    of_jax = api.plan(gzip.decompress((PLACE / f"{name}_same.mlir.gz").read_bytes()).decode(), target="cpu")
    assert of_torch.mesh.sizes == of_jax.mesh.sizes
    assert of_torch.comms.ring_bytes == pytest.approx(of_jax.comms.ring_bytes, rel=0.05) and of_jax.comms.ring_bytes > 0
    assert of_torch.comms.counts == of_jax.comms.counts
