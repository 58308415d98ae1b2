"""Predicates on the op of a node: constant, control flow, manual computation, annotation, transfer, kernel.

Each predicate accepts a node, a schedule item or None, and is false for None (the producer of a graph input).
"""

from __future__ import annotations

from typing import Protocol, TypeGuard, TypeVar

from meshgen.ir.op_names import BETWEEN_MESHES, BRANCHES, CONTROL


class Operation(Protocol):
    """A node or a schedule item: anything with an op name."""

    @property
    def op(self) -> str: ...


N = TypeVar("N", bound=Operation)


def is_constant(node: N | None) -> TypeGuard[N]:
    """Whether the node is a `constant`."""
    return node is not None and node.op == "constant"


def is_loop(node: N | None) -> TypeGuard[N]:
    """Whether the node is a `while`, with one region for the condition and one for the body."""
    return node is not None and node.op == "while"


def is_scan(node: N | None) -> TypeGuard[N]:
    """Whether the node is a `scan`, whose region is a body that runs a fixed number of times."""
    return node is not None and node.op == "scan"


def is_branching(node: N | None) -> TypeGuard[N]:
    """Whether the node is an `if` or a `case`; its first operand selects the region that runs."""
    return node is not None and node.op in BRANCHES


def is_if(node: N | None) -> TypeGuard[N]:
    """Whether the node is an `if`, with one region for true and one for false, in this order."""
    return node is not None and node.op == "if"


def is_control(node: N | None) -> TypeGuard[N]:
    """Whether the node is a loop (`while`, `scan`) or a branch (`if`, `case`)."""
    return node is not None and node.op in CONTROL


def is_manual(node: N | None) -> TypeGuard[N]:
    """Whether the node is a manual computation, whose region is a per-device program."""
    return node is not None and node.op == "manual"


def is_annotation(node: N | None) -> TypeGuard[N]:
    """Whether the node is a user's sharding annotation of its operand."""
    return node is not None and node.op == "annotate"


def is_sharding_group(node: N | None) -> TypeGuard[N]:
    """Whether the node adds its operand to a group of values that have the same sharding."""
    return node is not None and node.op == "sharding_group"


def is_propagation_barrier(node: N | None) -> TypeGuard[N]:
    """Whether the node blocks sharding propagation in one direction or both."""
    return node is not None and node.op == "propagation_barrier"


def is_optimization_barrier(node: N | None) -> TypeGuard[N]:
    """Whether the node is an `optimization_barrier`: passes neither merge nor move operations across it."""
    return node is not None and node.op == "optimization_barrier"


def is_transfer(node: N | None) -> TypeGuard[N]:
    """Whether the node is the sending or receiving end of a transfer between meshes."""
    return node is not None and node.op in BETWEEN_MESHES


def is_transfer_send(node: N | None) -> TypeGuard[N]:
    """Whether the node sends a value to another mesh."""
    return node is not None and node.op == "transfer_send"


def is_transfer_recv(node: N | None) -> TypeGuard[N]:
    """Whether the node receives a value from another mesh."""
    return node is not None and node.op == "transfer_recv"


def is_kernel(node: N | None) -> TypeGuard[N]:
    """Whether the node launches one of the module's kernels."""
    return node is not None and node.op == "kernel"


def is_call(node: N | None) -> TypeGuard[N]:
    """Whether the node calls another function of the program text; `ir/inline.py` replaces such nodes."""
    return node is not None and node.op == "call"
