"""Signatures of operations of func whose definitions in xDSL leave some of it open; `operation_signature.py` has the notation."""

from __future__ import annotations

from meshgen.mlir.operation_signature import signatures_of

SIGNATURES = signatures_of("func", {"_ -> _ <callee: symbol>": "call"})  # fmt: skip
