"""Shardy's dialect `sdy`, as far as JAX emits it. Only manual computations and propagation directives are also printed."""

from __future__ import annotations

from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.sdy import gspmd, manual, propagation, rule_checks, shardings
from meshgen.mlir.sdy.attributes import ATTRIBUTES
from meshgen.mlir.sdy.operations import OPERATIONS

DIALECT = merged(
    Dialect(operations=OPERATIONS, attributes=ATTRIBUTES),
    shardings.PART,
    manual.PART,
    gspmd.PART,
    propagation.PART,
    rule_checks.PART,
)
