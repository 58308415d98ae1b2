"""User-defined operations: a registry of rules for `stablehlo.custom_call`, keyed by the name of the call target.

The decorator `mg.op_rule` (in the frontend) adds entries, and the parser looks them up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from meshgen.ir.graph import Graph, TensorType

USER_OPS: dict[str, Callable[[Sequence[TensorType]], Graph]] = {}
"""Operation name -> a function that builds the body for given operand types. It raises ProgramError for
unsupported types.
"""
