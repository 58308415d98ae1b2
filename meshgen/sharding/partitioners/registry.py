"""The table op -> partitioner, and a partitioner's input: one node of the sharded program and its local operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from meshgen.errors import Diagnostic, ShardingError
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.mesh import Mesh
from meshgen.sharding.partitioners.builder import LocalBuilder
from meshgen.sharding.reasons import need_reason
from meshgen.spec import Sharding


@dataclass(frozen=True)
class Site:
    """A node with global types and shardings, its operands on a device, and the builder of its local form."""

    node: Node
    operands: list[Value]
    builder: LocalBuilder

    @property
    def mesh(self) -> Mesh:
        return self.builder.mesh

    def sharding(self, operand: int) -> Sharding:
        """The sharding of an operand."""
        return sharding_of(self.node.operands[operand])

    def axes(self, operand: int, dim: int) -> tuple[str, ...]:
        """Axes of more than one device that split a dim of an operand."""
        return self.sharding(operand).canonical(self.mesh).dims[dim]

    def local_types(self) -> list[TensorType]:
        """Types of the results on a device."""
        return [local_type(result, self.mesh) for result in self.node.results]

    def clone(self, operands: list[Value] | None = None, **attrs: Any) -> list[Value]:
        """The same op on a device, with some attributes changed."""
        node, operands = self.node, self.operands if operands is None else operands
        return self.builder.append(
            node.op, operands, self.local_types(), {**node.attrs, **attrs}, node.regions, node.notes
        )

    def why(self, need: str) -> str:
        """The reason of a collective that the node itself needs: its purpose, and why the dim is split."""
        return need_reason(self.node, need)

    def refuse(self, message: str, hint: str = "") -> ShardingError:
        """An error about this node's sharding, to be raised."""
        return ShardingError(Diagnostic("MG0206", f"'{self.node.op}': {message}", self.node.loc, (), hint))


Partitioner = Callable[[Site], list[Value]]
PARTITIONERS: dict[str, Partitioner] = {}


def partitioner(*ops: str) -> Callable[[Partitioner], Partitioner]:
    """Register a function as the partitioner of these ops: it writes the local form and returns the results."""

    def register(function: Partitioner) -> Partitioner:
        for op in ops:
            PARTITIONERS[op] = function
        return function

    return register


def sharding_of(value: Value) -> Sharding:
    """The sharding of a value; replicated if it has none (in a body of scalars)."""
    return value.sharding or Sharding.replicated(value.type.rank)


def local_type(value: Value, mesh: Mesh) -> TensorType:
    """The type of a value's buffer on a device."""
    return value.type.with_shape(sharding_of(value).local_shape(value.type.sizes, mesh))
