"""The table from op to partitioner, and the input of partitioners: one node of the sharded program with its local
operands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from meshgen.errors import Diagnostic, ShardingError
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.mesh import Mesh
from meshgen.sharding.collective_reasons import need_reason
from meshgen.sharding.partitioners.builder import LocalBuilder
from meshgen.spec import Sharding


@dataclass(frozen=True)
class Site:
    """A node with global types and shardings, its operands on a device, and the builder for its local form."""

    node: Node
    operands: list[Value]
    builder: LocalBuilder

    @property
    def mesh(self) -> Mesh:
        return self.builder.mesh

    def sharding(self, operand: int) -> Sharding:
        """Return the sharding of an operand."""
        return sharding_of(self.node.operands[operand])

    def axes(self, operand: int, dim: int) -> tuple[str, ...]:
        """Return the mesh axes of more than one device that split a dim of an operand."""
        return self.sharding(operand).canonical(self.mesh).dims[dim]

    def local_types(self) -> list[TensorType]:
        """Return the types of the results on a device."""
        return [local_type(result, self.mesh) for result in self.node.results]

    def clone(self, operands: list[Value] | None = None, **attrs: Any) -> list[Value]:
        """Append the node's op on local `operands`, with the attributes `attrs` changed, and return its results."""
        node, operands = self.node, self.operands if operands is None else operands
        return self.builder.append(
            node.op, operands, self.local_types(), {**node.attrs, **attrs}, node.regions, node.notes
        )

    def why(self, need: str) -> str:
        """Return the reason for a collective that the node itself needs: its purpose, and why the dim is split."""
        return need_reason(self.node, need)

    def refuse(self, message: str, hint: str = "") -> ShardingError:
        """Return an error about this node's sharding, to be raised by the caller."""
        return ShardingError(Diagnostic("MG0206", f"'{self.node.op}': {message}", self.node.loc, (), hint))


Partitioner = Callable[[Site], list[Value]]
PARTITIONERS: dict[str, Partitioner] = {}


def partitioner(*ops: str) -> Callable[[Partitioner], Partitioner]:
    """Register the decorated function as the partitioner of `ops`.

    A partitioner writes the local form of a node and returns the local results.
    """

    def register(function: Partitioner) -> Partitioner:
        for op in ops:
            PARTITIONERS[op] = function
        return function

    return register


def sharding_of(value: Value) -> Sharding:
    """Return the sharding of a value. A value without one (in a body that works on scalars) is replicated."""
    return value.sharding or Sharding.replicated(value.type.rank)


def local_type(value: Value, mesh: Mesh) -> TensorType:
    """Return the type of a value's buffer on a device."""
    return value.type.with_shape(sharding_of(value).local_shape(value.type.sizes, mesh))
