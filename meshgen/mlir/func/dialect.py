"""What builtin and func hold of a program: calls, donated arguments, and attributes of the module."""

from __future__ import annotations

from meshgen.mlir.dialect import merged
from meshgen.mlir.func import calls, donation, module_attributes

DIALECT = merged(calls.PART, donation.PART, module_attributes.PART)
