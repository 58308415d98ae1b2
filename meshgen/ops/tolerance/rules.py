"""Per op: how errors of operands become errors of results, and what the op's own rounding adds."""

from __future__ import annotations

from meshgen.ops.tolerance.elementwise import ELEMENTWISE_RULES
from meshgen.ops.tolerance.folds import FOLD_RULES
from meshgen.ops.tolerance.movement import MOVEMENT_RULES
from meshgen.ops.tolerance.sums import SUM_RULES
from meshgen.ops.tolerance.values import Rule

RULES: dict[str, Rule] = {**ELEMENTWISE_RULES, **MOVEMENT_RULES, **SUM_RULES, **FOLD_RULES}
