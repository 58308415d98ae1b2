"""User-defined operations: the semantics of a `stablehlo.custom_call` by its name.

The decorator `mg.op_rule` (in the frontend) adds entries, and the parser looks them up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from meshgen.ir.graph import Graph, TensorType

USER_OPS: dict[str, Callable[[Sequence[TensorType]], Graph]] = {}
"""Operation name -> a function that builds the body for given operand types. It raises ProgramError for
unsupported types.
"""
