"""The iteration space of a structured operation, and the values that the operation's body computes in it.

A body value is stored as a tensor with one dim per loop that it depends on (a `Spread`), not over the whole iteration
space. For example, a bias that depends on one loop stays 1-d.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects import scf, tensor
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.builder import Builder, mnemonic
from meshgen.mlir.arith.elementwise import apply_operation
from meshgen.mlir.conversion import Refused
from meshgen.mlir.linalg.maps import UnreadableMap, linear_index_of, read
from meshgen.mlir.loop_values import Loops, Spread, over, reshaped_dim, sliced

Sizes = tuple[int | None, ...]
WIDENING = ("extf", "extsi")


@dataclass
class Structure:
    """A structured operation: its operands, their indexing maps, and the block that computes one point of the iteration
    space.

    Attributes:
        values: the inputs, then the initial values of the outputs.
        maps: the indexing maps of `values`.
        inputs: the number of inputs in `values`.
        block: takes one element of each value and yields one element per output.
    """

    builder: Builder
    op: Operation
    values: list[Value]
    maps: list[AffineMap]
    inputs: int
    block: Block
    sizes: Sizes = ()

    @property
    def terminator(self) -> Operation:
        assert self.block.last_op is not None
        return self.block.last_op

    def body(self) -> Body:
        """Return the values of the block over the whole iteration space. They are computed when they are needed."""
        return Body(self.builder, self.block, self.sizes, self)


@dataclass
class Body:
    """The values of a block over an iteration space whose loops have the sizes `sizes`. They are computed when they are
    needed.

    Attributes:
        structure: the operation whose operands the block arguments are elements of; None if `computed` has all
            arguments.
        indices: loop -> value of its index, for loops that are executed sequentially.
        computed: SSA value -> its values over the loops that it depends on.
    """

    builder: Builder
    block: Block
    sizes: Sizes
    structure: Structure | None = None
    indices: dict[int, Spread] = field(default_factory=dict[int, Spread])
    computed: dict[SSAValue, Spread] = field(default_factory=dict[SSAValue, Spread])

    def value(self, ssa: SSAValue) -> Spread | None:
        """Return the value of `ssa`, after computing the values that it depends on.

        Returns None if an operation is unsupported. Raises UnreadableMap for an indexing map that cannot be converted.
        """
        if ssa not in self.computed and (spread := self._computed(ssa)) is not None:
            self.computed[ssa] = spread
        return self.computed.get(ssa)

    def full(self, ssa: SSAValue, loops: Sequence[int]) -> Value | None:
        """Return the value of `ssa` with one dim per loop in `loops`, in this order.

        Returns None if it is unsupported or depends on another loop.
        """
        spread = self.value(ssa)
        if spread is None or not set(spread.loops) <= set(loops):
            return None
        return over(self.builder, spread, loops, self.sizes)

    def _computed(self, ssa: SSAValue) -> Spread | None:
        owner = ssa.owner
        if not self._is_inside(owner):
            return Spread(self.builder.importer.value(ssa), ())
        if isinstance(owner, Block):
            return self._argument(ssa) if owner is self.block and isinstance(ssa, BlockArgument) else None
        if owner.name == "linalg.index":
            return self._index(owner)
        if isinstance(owner, tensor.ExtractOp):
            return self._extracted(owner)
        if isinstance(owner, scf.IfOp):
            return self._conditional(owner, ssa)
        return self._elementwise(owner, ssa)

    def _is_inside(self, owner: Operation | Block) -> bool:
        """Whether `owner`, the operation or block that defines a value, is inside the body or a region nested in it."""
        block = owner if isinstance(owner, Block) else owner.parent_block()
        while block is not None and block is not self.block:
            outer = block.parent_op()
            block = outer.parent_block() if outer else None
        return block is self.block

    def _argument(self, ssa: BlockArgument) -> Spread | None:
        """Return the elements of an operand that a block argument stands for, over the loops in the operand's indexing
        map.
        """
        structure = self.structure
        index = ssa.index
        if structure is None or index >= len(structure.values):
            return None
        return read(self.builder, structure.values[index], structure.maps[index].results, self.sizes)

    def _index(self, op: Operation) -> Spread | None:
        dim = getattr(getattr(op.properties.get("dim"), "value", None), "data", -1)
        if dim in self.indices:
            return self.indices[dim]
        if self.structure is None:
            return None
        if not 0 <= dim < len(self.sizes):
            message = f"linalg.index {dim}: the enclosing operation has {len(self.sizes)} loops"
            self.builder.importer.fault("MG0104", message, op)
            return Spread(self.builder.constant(0, TensorType((), "i64")), ())
        return Spread(self.builder.emit("iota", [], TensorType((self.sizes[dim],), "i64"), dim=0), (dim,))

    def _elementwise(self, op: Operation, result: SSAValue) -> Spread | None:
        """Apply an element-wise operation over all loops that any operand depends on."""
        operands = [self.value(operand) for operand in op.operands]
        supported = [operand for operand in operands if operand is not None]
        if len(supported) != len(operands):
            return None
        loops = union(supported)
        values = [over(self.builder, x, loops, self.sizes) if x.loops else x.value for x in supported]
        results = apply_operation(self.builder, op, values)
        for op_result, value in zip(op.results, results or (), strict=False):
            self.computed[op_result] = Spread(value, loops)
        return self.computed.get(result)

    def _conditional(self, op: scf.IfOp, result: SSAValue) -> Spread | None:
        """Convert an `scf.if` on scalars: compute both branches and select element-wise."""
        index = next(n for n, op_result in enumerate(op.results) if op_result is result)
        ends = [region.block.last_op for region in (op.true_region, op.false_region) if region.blocks]
        sides = [self.value(end.operands[index]) for end in ends if end is not None]
        parts = [self.value(op.cond), *sides]
        supported = [part for part in parts if part is not None]
        if len(supported) != 3:
            return None
        loops = union(supported)
        return Spread(self.builder.select(*(over(self.builder, x, loops, self.sizes) for x in supported)), loops)

    def _extracted(self, op: tensor.ExtractOp) -> Spread | None:
        """Convert `tensor.extract` into a gather. A dim whose index is one plain loop is sliced instead."""
        table = self.builder.importer.value(op.tensor)
        spreads = [self.value(index) for index in op.indices]
        positions = [position for position in spreads if position is not None]
        if self._is_inside(op.tensor.owner) or len(positions) != len(spreads) or None in table.type.shape:
            return None
        plain = [self._plain_loop(index) for index in op.indices]
        computed = [position for position, loop in zip(positions, plain, strict=True) if loop is None]
        loops = union(computed)
        kept = [loop if plain.count(loop) == 1 and loop not in loops else None for loop in plain]
        computed = [position for position, loop in zip(positions, kept, strict=True) if loop is None]
        loops = union(computed)
        return self._gathered(table, kept, [over(self.builder, x, loops, self.sizes) for x in computed], loops)

    def _plain_loop(self, index: SSAValue) -> int | None:
        owner = index.owner
        index_spread = self.value(index) if isinstance(owner, Operation) and owner.name == "linalg.index" else None
        return index_spread.loops[0] if index_spread and index_spread.loops else None

    def _gathered(self, table: Value, kept: Sequence[int | None], indices: Sequence[Value], loops: Loops) -> Spread:
        """Gather from `table`: `kept[dim]` is the loop that indexes a dim, or None if the next entry of `indices` does.

        The result depends on `loops`, the loops of the indices, and on the loops in `kept`.
        """
        builder, shape = self.builder, table.type.sizes
        kept_loops = tuple(loop for loop in kept if loop is not None)
        sizes = [1 if loop is None else self.sizes[loop] or 0 for loop in kept]
        if any(size > dim_size for size, dim_size in zip(sizes, shape, strict=True)):
            raise UnreadableMap("reads outside of the tensor")
        if not indices:
            return Spread(sliced(builder, table, [0] * len(shape), sizes, [1] * len(shape)), kept_loops)
        gathered_dims = tuple(dim for dim, loop in enumerate(kept) if loop is None)
        batch = indices[0].type.sizes
        columns = [reshaped_dim(builder, builder.convert(x, "i64"), len(batch), [1]) for x in indices]
        joined = columns[0]
        if len(columns) > 1:
            kind = joined.type.with_shape((*batch, len(columns)))
            joined = builder.emit("concatenate", columns, kind, dim=len(batch))
        return Spread(builder.gather(table, joined, gathered_dims, len(batch), sizes=sizes), loops + kept_loops)


def depends_on(value: SSAValue, argument: SSAValue) -> bool:
    """Whether a value of the body is computed, directly or indirectly, from the block argument `argument`."""
    seen: set[SSAValue] = set()
    worklist = [value]
    while worklist:
        current = worklist.pop()
        if current is argument:
            return True
        if current not in seen and not isinstance(current.owner, Block):
            seen.add(current)
            worklist += [operand for operation in current.owner.walk() for operand in operation.operands]
    return False


def narrow(factor: SSAValue) -> SSAValue:
    """Return the operand of the widening casts that compute `factor`, since a contraction accumulates in the wider type
    anyway.
    """
    while isinstance(owner := factor.owner, Operation) and mnemonic(owner) in WIDENING:
        source = owner.operands[0]
        if isinstance(source.type, IntegerType) and source.type.width.data == 1:
            break
        factor = source
    return factor


def union(spreads: Sequence[Spread]) -> Loops:
    """Return the loops on which any of the values depends, in ascending order."""
    return tuple(sorted({loop for spread in spreads for loop in spread.loops}))


def loop_sizes(values: Sequence[Value], maps: Sequence[AffineMap]) -> Sizes:
    """Infer the size of each loop from the operand dims that one plain loop indexes.

    Raises Refused if no dim determines the size of a loop, or if two dims disagree.
    """
    count = maps[0].num_dims if maps else 0
    sizes: list[int | None] = [None] * count
    seen = [False] * count
    for value, map in zip(values, maps, strict=True):
        if map.num_symbols or map.num_dims != count or len(map.results) != value.type.rank:
            raise Refused("MG0103", f"the map {map} does not fit {value.type} and {count} loops")
        for expression, size in zip(map.results, value.type.shape, strict=True):
            line = linear_index_of(expression)
            if line is None or (loop := line.loop) is None:
                continue
            seen[loop] = True
            if None not in (size, sizes[loop]) and size != sizes[loop]:
                raise Refused("MG0103", f"loop {loop} has the sizes {sizes[loop]} and {size}")
            sizes[loop] = size if sizes[loop] is None else sizes[loop]
    if not all(seen):
        raise Refused("MG0103", f"no operand determines the trip count of loop {seen.index(False)}")
    return tuple(sizes)
