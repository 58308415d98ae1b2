"""The dialects arith, math, index and affine: they share one importer of element-wise operations. `mlir/upstream`
prints them.
"""

from __future__ import annotations

from meshgen.mlir.arith.builder import computed
from meshgen.mlir.arith.elementwise import elementwise
from meshgen.mlir.arith.operations import AFFINE, ARITH, ATTRIBUTES, INDEX, MATH
from meshgen.mlir.dialect import Dialect

_OPERATIONS = (*ARITH, *MATH, *INDEX, *AFFINE)
DIALECT = Dialect(
    operations=_OPERATIONS,
    attributes=ATTRIBUTES,
    importers={operation.name: computed(elementwise) for operation in _OPERATIONS},
)
