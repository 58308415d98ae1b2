"""What builtin and func hold of a program: calls, donated arguments, and attributes of the module."""

from __future__ import annotations

from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.func import calls, donation, module_attributes
from meshgen.mlir.func.signatures import SIGNATURES

DIALECT = merged(Dialect(signatures=SIGNATURES), calls.PART, donation.PART, module_attributes.PART)
