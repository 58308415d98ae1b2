"""The dialect `chlo`: functions and forms that StableHLO lacks."""

from __future__ import annotations

from meshgen.mlir.chlo import functions, ragged_dot, scan
from meshgen.mlir.chlo.signatures import SIGNATURES
from meshgen.mlir.dialect import Dialect, merged

DIALECT = merged(Dialect(signatures=SIGNATURES), functions.PART, ragged_dot.PART, scan.PART)
