"""What a node is to the structure of a program: a constant, control flow, a manual computation, an annotation, a transfer, a kernel.

Each takes a node or an item of a schedule; None, where a value has no producer, is none of these.
"""

from __future__ import annotations

from typing import Protocol, TypeGuard, TypeVar

from meshgen.ir.op_names import BETWEEN_MESHES, BRANCHES, CONTROL


class Operation(Protocol):
    """A node, or an item of a schedule."""

    @property
    def op(self) -> str: ...


N = TypeVar("N", bound=Operation)


def is_constant(node: N | None) -> TypeGuard[N]:
    """Whether its result is its attribute `value`."""
    return node is not None and node.op == "constant"


def is_loop(node: N | None) -> TypeGuard[N]:
    """Whether it is a `while`: a region for the condition and one for the body."""
    return node is not None and node.op == "while"


def is_scan(node: N | None) -> TypeGuard[N]:
    """Whether it is a `scan`: its region is a body that runs a known number of times."""
    return node is not None and node.op == "scan"


def is_branching(node: N | None) -> TypeGuard[N]:
    """Whether it is an `if` or a `case`: its first operand chooses one of its regions."""
    return node is not None and node.op in BRANCHES


def is_if(node: N | None) -> TypeGuard[N]:
    """Whether it chooses between two regions by a flag; the first is for true."""
    return node is not None and node.op == "if"


def is_control(node: N | None) -> TypeGuard[N]:
    """Whether it is a loop or chooses one of several regions."""
    return node is not None and node.op in CONTROL


def is_manual(node: N | None) -> TypeGuard[N]:
    """Whether it is a manual computation: its region is written per device."""
    return node is not None and node.op == "manual"


def is_annotation(node: N | None) -> TypeGuard[N]:
    """Whether it is a user's annotation of its operand with a sharding."""
    return node is not None and node.op == "annotate"


def is_sharding_group(node: N | None) -> TypeGuard[N]:
    """Whether it puts its operand into a group of values with one sharding."""
    return node is not None and node.op == "sharding_group"


def is_propagation_barrier(node: N | None) -> TypeGuard[N]:
    """Whether shardings pass it in one direction only, or not at all."""
    return node is not None and node.op == "propagation_barrier"


def is_optimization_barrier(node: N | None) -> TypeGuard[N]:
    """Whether its results are its operands, computed anew: nothing merges or moves operations across it."""
    return node is not None and node.op == "optimization_barrier"


def is_transfer(node: N | None) -> TypeGuard[N]:
    """Whether it is an end of a transfer between meshes."""
    return node is not None and node.op in BETWEEN_MESHES


def is_transfer_send(node: N | None) -> TypeGuard[N]:
    """Whether it sends a value to another mesh."""
    return node is not None and node.op == "transfer_send"


def is_transfer_recv(node: N | None) -> TypeGuard[N]:
    """Whether it receives a value from another mesh."""
    return node is not None and node.op == "transfer_recv"


def is_kernel(node: N | None) -> TypeGuard[N]:
    """Whether it is a launch of one of the module's kernels."""
    return node is not None and node.op == "kernel"


def is_call(node: N | None) -> TypeGuard[N]:
    """Whether it is a call of another function of the same text, until that is inlined."""
    return node is not None and node.op == "call"
