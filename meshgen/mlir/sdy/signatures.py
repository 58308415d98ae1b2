"""Signatures of operations of sdy whose definitions in xDSL leave some of it open; `operation_signature.py` has the notation."""

from __future__ import annotations

from meshgen.mlir.operation_signature import signatures_of

SIGNATURES = signatures_of("sdy", {"n -> m {n -> m}": "manual_computation named_computation"})  # fmt: skip
