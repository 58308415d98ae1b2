"""The table op -> sharding rule, and `rule_of`, which looks a node up in it."""

from __future__ import annotations

from collections.abc import Callable

from meshgen.errors import Diagnostic, ProgramError
from meshgen.ir.graph import Node
from meshgen.ops.rules.rule import Rule

RULES: dict[str, Callable[[Node], Rule]] = {}


def sharding_rule(*ops: str) -> Callable[[Callable[[Node], Rule]], Callable[[Node], Rule]]:
    """Register a function as the rule of these ops."""

    def register(function: Callable[[Node], Rule]) -> Callable[[Node], Rule]:
        for op in ops:
            RULES[op] = function
        return function

    return register


def rule_of(node: Node) -> Rule:
    """The node's rule. Raises ProgramError MG0103 where its op has none."""
    if function := RULES.get(node.op):
        return function(node)
    raise ProgramError(Diagnostic("MG0103", f"'{node.op}' has no sharding rule", node.loc))


LETTERS = "abcdefghijklmnopqrstuvwxyz"


def letters(count: int, start: int = 0) -> list[str]:
    """Names for `count` factors: a, b, ..., z, a1, b1, ..."""
    return [LETTERS[i % 26] + (str(i // 26) if i >= 26 else "") for i in range(start, start + count)]
