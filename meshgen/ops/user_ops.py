"""Operations that users define: what a `stablehlo.custom_call` of their name means.

`mg.op_rule` (in the frontend) adds to the table when it decorates a function; the reader of texts looks there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from meshgen.ir.graph import Graph, TensorType

USER_OPS: dict[str, Callable[[Sequence[TensorType]], Graph]] = {}
"""By name: the body of the operation over operands of these types. It raises ProgramError for types that do not fit."""
