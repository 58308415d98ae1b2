"""Sites that are not operations: they only tie values, or represent the ends of the program, of a region or of a manual computation."""

from __future__ import annotations

from meshgen.ir.graph import Node
from meshgen.ir.op_names import ANNOTATIONS

MANUAL_ENDS = ("manual_operand", "manual_result")
ENDS = ("input", "output", "decision", *MANUAL_ENDS)
"""Where a value must have the sharding that is asked for."""
PSEUDO_OPS = (*ENDS, *ANNOTATIONS, "carry", "branch_argument", "branch_result", "barrier_value")

TIES = {
    "carry": "the carried value of a loop",
    "branch_argument": "an operand of branches",
    "branch_result": "a result of branches",
    "barrier_value": "an optimization barrier",
    "annotate": "an annotation of the same value",
    "sharding_group": "a sharding group",
    "propagation_barrier": "a propagation barrier",
    "manual_operand": "an operand of a manual computation",
    "manual_result": "a result of a manual computation",
    "input": "being an input",
    "output": "being an output",
}
"""Names of those that propagation passes, for users."""


def is_input(node: Node) -> bool:
    """Whether it makes an input of the program."""
    return node.op == "input"


def is_output(node: Node) -> bool:
    """Whether it takes an output of the program."""
    return node.op == "output"


def is_changed_carry(node: Node) -> bool:
    """Whether it ties a value that the body of a loop changes from trip to trip."""
    return node.op == "carry" and node.attrs.is_changed


def is_manual_operand(node: Node) -> bool:
    """Whether it takes an operand of a manual computation to an argument of its body."""
    return node.op == "manual_operand"


def is_manual_result(node: Node) -> bool:
    """Whether it takes an output of the body of a manual computation to a result."""
    return node.op == "manual_result"


def is_barrier_value(node: Node) -> bool:
    """Whether it ties an operand of an optimization barrier to its result."""
    return node.op == "barrier_value"
