"""The dialects arith, math, index and affine, which have one meaning: numbers element by element. Read, never printed."""

from __future__ import annotations

from meshgen.mlir.arith.elementwise import elementwise
from meshgen.mlir.arith.index_ops import AFFINE, INDEX
from meshgen.mlir.arith.operations import ARITH, ATTRIBUTES, MATH
from meshgen.mlir.arith.payload import computed
from meshgen.mlir.arith.signatures import SIGNATURES
from meshgen.mlir.dialect import Dialect

_OPERATIONS = (*ARITH, *MATH, *INDEX, *AFFINE)
DIALECT = Dialect(
    signatures=SIGNATURES,
    operations=_OPERATIONS,
    attributes=ATTRIBUTES,
    importers={operation.name: computed(elementwise) for operation in _OPERATIONS},
)
