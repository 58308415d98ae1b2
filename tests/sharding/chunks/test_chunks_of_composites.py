"""Chains of chunks through attention ops."""

from __future__ import annotations

from typing import Any

import meshgen as mg
from meshgen import api

LAYERS = 4


def attend(x: Any, wq: Any, wk: Any, wv: Any, wo: Any) -> Any:
    """Apply layers of attention with sharded heads: a 12 MiB all-reduce follows each layer."""
    for _ in range(LAYERS):
        q, k, v = (mg.reshape(x @ w, (8, 512, 12, 64)) for w in (wq, wk, wv))
        shares = mg.softmax(mg.einsum("bthd,bshd->bhts", q, k) * 0.125)
        x = mg.reshape(mg.einsum("bhts,bshd->bthd", shares, v), (8, 512, 768)) @ wo
    return x


def test_chunks_extend_through_attention() -> None:
    weights = {name: mg.P(None, "tp") for name in ("wq", "wk", "wv")} | {"wo": mg.P("tp")}
    args = [mg.spec("f32[8,512,768]"), *[mg.spec("f32[768,768]")] * 4]
    executable = api.plan(attend, {"tp": 4}, args=args, in_specs=weights, target="cuda:sm_90")
    assert any(node.op == "attention" for node in executable.stages["optimize"].graph.nodes)
    assert executable.stages["partition"].chunks
    assert executable.comms.count("all_reduce") > LAYERS
    kernels = [body for body in executable.plan.kernels.values() if any(n.op == "attention" for n in body.nodes)]
    assert kernels and not any(node.op == "concatenate" for body in kernels for node in body.nodes)
