"""The dialect `chlo`: functions that StableHLO lacks, implicit broadcasts, ragged dots and scans."""

from __future__ import annotations

from meshgen.mlir.chlo import functions, ragged_dot, scan
from meshgen.mlir.dialect import merged

DIALECT = merged(functions.PART, ragged_dot.PART, scan.PART)
