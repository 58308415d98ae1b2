"""Sites that are not operations.

They only tie values, or represent the inputs and outputs of the program, of a region or of a manual computation.
"""

from __future__ import annotations

from meshgen.ir.graph import Node
from meshgen.ir.op_names import ANNOTATIONS

MANUAL_ENDS = ("manual_operand", "manual_result")
ENDS = ("input", "output", "decision", *MANUAL_ENDS)
"""Sites at which a value must have the sharding that its annotation requires."""
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
"""Descriptions of the pseudo-ops that tie values, for texts that users read."""


def is_input(node: Node) -> bool:
    """Whether the node produces an input of the program."""
    return node.op == "input"


def is_output(node: Node) -> bool:
    """Whether the node consumes an output of the program."""
    return node.op == "output"


def is_changed_carry(node: Node) -> bool:
    """Whether the node ties a carried value that the body of a loop changes."""
    return node.op == "carry" and node.attrs.is_changed


def is_manual_operand(node: Node) -> bool:
    """Whether the node ties an operand of a manual computation to an argument of its body."""
    return node.op == "manual_operand"


def is_manual_result(node: Node) -> bool:
    """Whether the node ties an output of a manual computation's body to a result of the computation."""
    return node.op == "manual_result"


def is_barrier_value(node: Node) -> bool:
    """Whether the node ties an operand of an optimization barrier to the corresponding result."""
    return node.op == "barrier_value"
