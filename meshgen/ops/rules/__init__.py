"""Sharding rules: op -> factors. Importing this package fills the table."""

from meshgen.ops.rules import contraction, elementwise, linalg, lookup, movement, transfers, updates
from meshgen.ops.rules import windowed as windows
from meshgen.ops.rules.registry import RULES, rule_of, sharding_rule
from meshgen.ops.rules.rule import Factor, Linear, Rule, rule

__all__ = [
    "RULES",
    "Factor",
    "Linear",
    "Rule",
    "contraction",
    "elementwise",
    "linalg",
    "lookup",
    "movement",
    "rule",
    "rule_of",
    "sharding_rule",
    "transfers",
    "updates",
    "windows",
]
