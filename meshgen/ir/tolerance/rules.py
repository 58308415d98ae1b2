"""Per op: how errors of operands become errors of results, and what the op's own rounding adds."""

from __future__ import annotations

from meshgen.ir.tolerance.elementwise import ELEMENTWISE_RULES
from meshgen.ir.tolerance.folds import FOLD_RULES
from meshgen.ir.tolerance.movement import MOVEMENT_RULES
from meshgen.ir.tolerance.sums import SUM_RULES
from meshgen.ir.tolerance.values import Rule

RULES: dict[str, Rule] = {**ELEMENTWISE_RULES, **MOVEMENT_RULES, **SUM_RULES, **FOLD_RULES}
