"""The dialects builtin and func: calls, donated arguments, and attributes of the module."""

from __future__ import annotations

from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.func import calls, donation, module_attributes
from meshgen.mlir.operation_signature import signatures_of

DIALECT = merged(
    Dialect(signatures=signatures_of("func", {"_ -> _ <callee: symbol>": "call"})),
    calls.PART,
    donation.PART,
    module_attributes.PART,
)
