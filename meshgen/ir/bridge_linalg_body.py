"""The iteration space of linalg's structured operations: operands over its loops, and values computed there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap

from meshgen.ir.bridge_payload import LAZY, Builder, apply_operation
from meshgen.ir.graph import TensorType, Value, is_float

Place = tuple[int | None, ...]  # loop of each dim; None: the constant 0


@dataclass
class Body:
    """The body of a structured operation over its iteration space.

    Attributes:
        block: of the body; values from outside it are the function's.
        sizes: of the loops.
        values: what is known of the body's SSA values, as tensors over the loops or 0-d ones.
    """

    builder: Builder
    block: Block | None
    sizes: tuple[int, ...]
    values: dict[SSAValue, Value] = field(default_factory=dict[SSAValue, Value])

    def value(self, ssa: SSAValue) -> Value | None:
        """The value of an SSA value; computes it, and what it needs, if it is not known. None: not possible."""
        if (found := self.values.get(ssa)) is not None:
            return found
        owner = ssa.owner
        if (owner if isinstance(owner, Block) else owner.parent_block()) is not self.block:
            return self.builder.importer.value(ssa)
        if isinstance(owner, Block):
            return None
        if owner.name == "linalg.index":
            found = self._index(owner)
        else:
            operands = [self.value(operand) for operand in owner.operands]
            known = [operand for operand in operands if operand is not None]
            found = apply_operation(self.builder, owner, known) if len(known) == len(operands) else None
        if found is not None:
            self.values[ssa] = found
        return found

    def _index(self, op: Operation) -> Value:
        dim = op.properties["dim"]
        number = getattr(getattr(dim, "value", None), "data", 0)
        return self.builder.node("iota", [], TensorType(self.sizes, "i64"), dim=number)

    def full(self, value: Value) -> Value:
        """The value over the whole iteration space."""
        return value if value.type.shape == self.sizes else self.builder.broadcast(value, self.sizes)


def place_of(map: AffineMap) -> Place | None:
    """The loop behind each dim of an operand; None where the map is no projected permutation."""
    found: list[int | None] = []
    for result in map.results:
        if isinstance(result, AffineDimExpr) and result.position not in found:
            found.append(result.position)
        elif isinstance(result, AffineConstantExpr) and result.value == 0:
            found.append(None)
        else:
            return None
    return tuple(found)


def spread(builder: Builder, value: Value, place: Place, sizes: Sequence[int]) -> Value:
    """An operand over the iteration space."""
    loops = [loop for loop in place if loop is not None]
    if len(loops) != len(place):
        shape = [size for size, loop in zip(value.type.sizes, place, strict=True) if loop is not None]
        value = builder.node("reshape", [value], value.type.with_shape(shape), **{LAZY: True})
    order = sorted(range(len(loops)), key=lambda dim: loops[dim])
    value = transposed(builder, value, order)
    if not loops:
        return value
    return builder.broadcast(value, sizes, sorted(loops))


def transposed(builder: Builder, value: Value, order: Sequence[int]) -> Value:
    """The value with its dims in another order."""
    if list(order) == list(range(len(order))):
        return value
    kind = value.type.with_shape(value.type.shape[dim] for dim in order)
    return builder.node("transpose", [value], kind, perm=tuple(order), **{LAZY: True})


def loop_sizes(operands: Sequence[Value], places: Sequence[Place]) -> tuple[int, ...] | None:
    """Sizes of the loops from the operands' shapes."""
    found: dict[int, int] = {}
    for value, place in zip(operands, places, strict=True):
        if len(place) != value.type.rank:
            return None
        for loop, size in zip(place, value.type.shape, strict=True):
            if size is None or (loop is not None and found.setdefault(loop, size) != size):
                return None
    return tuple(found[loop] for loop in range(len(found))) if sorted(found) == list(range(len(found))) else None


def with_ones(builder: Builder, value: Value, place: Place) -> Value:
    """The value with a dim of size 1 wherever the place has none."""
    if None not in place:
        return value
    rest = iter(value.type.sizes)
    return builder.node(
        "reshape", [value], value.type.with_shape([1 if loop is None else next(rest) for loop in place])
    )


def neutral(kind: str, dtype: str) -> float | int:
    """The number that a reduction of this kind leaves as it is."""
    if kind in ("add", "or", "xor"):
        return 0
    if kind == "multiply":
        return 1
    if kind == "and":
        return -1 if dtype != "i1" else 1
    if is_float(dtype):
        return float("-inf") if kind == "maximum" else float("inf")
    info = np.iinfo(np.dtype(TensorType((), dtype).numpy_dtype)) if dtype != "i1" else None
    low, high = (0, 1) if info is None else (int(info.min), int(info.max))
    return low if kind == "maximum" else high


def in_order(builder: Builder, value: Value, loops: Sequence[int], place: Place) -> Value | None:
    """A value whose dims are `loops`, in the output's order of dims."""
    wanted = [loop for loop in place if loop is not None]
    if sorted(wanted) != sorted(loops):
        return None
    return with_ones(builder, transposed(builder, value, [list(loops).index(loop) for loop in wanted]), place)
