"""Equivalence classes of tensor dims that must have equal sizes, and the known sizes of these classes.

Some values have a size that no operand determines, such as a constant broadcast over an unknown dim. They get it from
the values that they are combined with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.op_names import ANNOTATIONS
from meshgen.ir.predicates import is_control, is_loop
from meshgen.ir.regions import all_nodes
from meshgen.ops.op import Trait
from meshgen.ops.registry import with_trait

Place = tuple[Value, int]
_SAME_SHAPE = with_trait(Trait.ELEMENTWISE) | {*ANNOTATIONS, "bitcast_convert", "dynamic_update_slice"}


@dataclass
class SizeClasses:
    """A union-find structure over the dims of a graph's values; each class has at most one known size.

    Attributes:
        parents: dim -> another dim of the same class; representatives of classes are not keys.
        sizes: representative of a class -> the known size.
    """

    parents: dict[Place, Place] = field(default_factory=dict[Place, Place])
    sizes: dict[Place, int] = field(default_factory=dict[Place, int])

    def first(self, dim: Place) -> Place:
        """Return the representative of a dim's class."""
        while (parent := self.parents.get(dim, dim)) != dim:
            dim = parent
        return dim

    def learn(self, value: Value, kind: TensorType) -> None:
        """Record the sizes of `value` that are known in `kind`, the type of the value."""
        for dim, size in enumerate(kind.shape):
            if size is not None:
                self.sizes.setdefault(self.first((value, dim)), size)

    def completed(self, value: Value, kind: TensorType) -> TensorType:
        """Return `kind`, the type of `value`, with unknown sizes replaced by the sizes of their classes."""
        pairs = enumerate(kind.shape)
        return kind.with_shape(self.sizes.get(self.first((value, d))) if size is None else size for d, size in pairs)


def size_classes_of(graph: Graph) -> SizeClasses:
    """Return the equivalence classes of all dims in a graph and its regions."""
    ties = SizeClasses()
    for node in all_nodes(graph):
        for left, right in _pairs(node):
            a, b = ties.first(left), ties.first(right)
            if a != b:
                ties.parents[b] = a
    return ties


def _pairs(node: Node) -> Iterator[tuple[Place, Place]]:
    if node.op in _SAME_SHAPE:
        same_shape = node.operands[:1] if node.op == "dynamic_update_slice" else node.operands
        for operand in same_shape:
            yield from _same_dims(operand, node.results[0])
    elif node.op == "broadcast_in_dim":
        operand = node.operands[0]
        for dim, target in enumerate(node.attrs.dims):
            if operand.type.shape[dim] != 1:
                yield (operand, dim), (node.results[0], target)
    elif node.op == "transpose":
        for target, dim in enumerate(node.attrs.perm):
            yield (node.operands[0], dim), (node.results[0], target)
    elif is_control(node):
        yield from _control_pairs(node)


def _same_dims(left: Value, right: Value) -> Iterator[tuple[Place, Place]]:
    if left.type.rank == right.type.rank:
        yield from (((left, dim), (right, dim)) for dim in range(left.type.rank))


def _control_pairs(node: Node) -> Iterator[tuple[Place, Place]]:
    """Yield the pairs of equal dims for a control flow node.

    Each operand is paired with the region argument, and each yielded value with the result. For a loop condition the
    latter adds nothing, because the condition yields a scalar.
    """
    repeats = is_loop(node)
    arguments: Sequence[Value] = node.operands if repeats else node.operands[1:]
    for region in node.regions:
        for outer, inner in zip(arguments, region.inputs, strict=False):
            yield from _same_dims(outer, inner)
        for inner, outer in zip(region.outputs, node.results, strict=False):
            yield from _same_dims(inner, outer)
    if repeats:
        for start, end in zip(node.operands, node.results, strict=True):
            yield from _same_dims(start, end)
