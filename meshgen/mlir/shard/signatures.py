"""Signatures of operations of shard whose definitions in xDSL leave some of it open; `operation_signature.py` has the notation."""

from __future__ import annotations

from meshgen.mlir.operation_signature import signatures_of

SIGNATURES = signatures_of("shard", {
    "0 -> _": "grid_shape process_multi_index",
    "1.. -> 1": "broadcast gather recv scatter send update_halo",
    "1.. -> _": "shard_shape",
    "_ -> 1": "sharding",
    "_ -> 2": "neighbors_linear_indices",
})  # fmt: skip
