"""Signatures of operations of scf whose definitions in xDSL leave some of it open; `operation_signature.py` has the notation."""

from __future__ import annotations

from meshgen.mlir.operation_signature import signatures_of

SIGNATURES = signatures_of("scf", {
    "1.. -> 0": "condition",
    "0 -> n {0 -> n}": "execute_region",
    "3+n -> n {1+n -> n}": "for",
    "(l, u, s, n) -> n {i+n -> 0} <staticLowerBound: integers(i), staticLowerBound: open(l), staticUpperBound: integers(i), "
    "staticUpperBound: open(u), staticStep: integers(i), staticStep: open(s), mapping?: any>": "forall",
    "0 -> 0 {0}": "forall.in_parallel",
    "1 -> n {0 -> n} {0 -> n}?": "if",
    "1 -> n {0 -> n}+": "index_switch",
    "(i, i, i, n) -> n {i -> n}": "parallel",
    "n -> 0 {2 -> 1}n": "reduce",
    "n -> m {n -> 1+m} {m -> n}": "while",
    "_ -> 0": "yield",
})  # fmt: skip
