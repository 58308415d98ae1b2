"""The dialect scf and the assertions of cf. This folder reads them; `mlir/upstream` prints scf."""

from __future__ import annotations

from xdsl.dialects import scf

from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.scf import control, parallel
from meshgen.mlir.scf.conditional_ops import SIGNATURES, AssertOp, IfOp, IndexSwitchOp
from meshgen.mlir.scf.parallel_ops import PARALLEL_OPS, ForOp

_OPERATIONS = (
    *PARALLEL_OPS, ForOp, IfOp, scf.WhileOp, scf.ConditionOp, IndexSwitchOp, scf.ExecuteRegionOp, scf.YieldOp, AssertOp
)  # fmt: skip
DIALECT = merged(Dialect(signatures=SIGNATURES, operations=_OPERATIONS), control.PART, parallel.PART)
