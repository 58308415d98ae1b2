"""The iteration space of a structured operation, and the values that its body computes there.

A value of the body is held over the loops that it depends on, not over all of them: a bias stays as long as its dim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects import scf, tensor
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.elementwise import apply_operation
from meshgen.mlir.arith.payload import Builder, mnemonic
from meshgen.mlir.conversion import Refused
from meshgen.mlir.linalg.maps import UnreadableMap, line_of, read
from meshgen.mlir.spread import Loops, Spread, over, reshaped_dim, sliced

Sizes = tuple[int | None, ...]
WIDENING = ("extf", "extsi")


@dataclass
class Structure:
    """A structured operation: what it reads and writes, where, and what it computes.

    Attributes:
        values: its inputs, then what its outputs hold before.
        maps: of `values`, from the loops.
        inputs: how many of `values` are inputs.
        block: takes one element of each, yields one for each output.
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
        """The body over all loops; operands are read when they are needed."""
        return Body(self.builder, self.block, self.sizes, self)


@dataclass
class Body:
    """Values of a block over loops of the given sizes.

    Attributes:
        structure: where operands and numbers of loops come from; None: only from what is known.
        indices: numbers of loops that are other values.
        known: what has been computed.
    """

    builder: Builder
    block: Block
    sizes: Sizes
    structure: Structure | None = None
    indices: dict[int, Spread] = field(default_factory=dict[int, Spread])
    known: dict[SSAValue, Spread] = field(default_factory=dict[SSAValue, Spread])

    def value(self, ssa: SSAValue) -> Spread | None:
        """Convert an SSA value and its operands. None: not supported. Raises UnreadableMap."""
        if ssa not in self.known and (found := self._computed(ssa)) is not None:
            self.known[ssa] = found
        return self.known.get(ssa)

    def full(self, ssa: SSAValue, loops: Sequence[int]) -> Value | None:
        """The value with its dims in this order of loops; None also where it depends on others."""
        found = self.value(ssa)
        if found is None or not set(found.loops) <= set(loops):
            return None
        return over(self.builder, found, loops, self.sizes)

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
            return self._chosen(owner, ssa)
        return self._applied(owner, ssa)

    def _is_inside(self, owner: Operation | Block) -> bool:
        """Whether a value is made in the body, also in a region of it."""
        block = owner if isinstance(owner, Block) else owner.parent_block()
        while block is not None and block is not self.block:
            outer = block.parent_op()
            block = outer.parent_block() if outer else None
        return block is self.block

    def _argument(self, ssa: BlockArgument) -> Spread | None:
        """An element of an operand."""
        structure = self.structure
        number = ssa.index
        if structure is None or number >= len(structure.values):
            return None
        return read(self.builder, structure.values[number], structure.maps[number].results, self.sizes)

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

    def _applied(self, op: Operation, result: SSAValue) -> Spread | None:
        """An element-wise operation over the loops of its operands."""
        operands = [self.value(operand) for operand in op.operands]
        found = [operand for operand in operands if operand is not None]
        if len(found) != len(operands):
            return None
        loops = union(found)
        values = [over(self.builder, x, loops, self.sizes) if x.loops else x.value for x in found]
        results = apply_operation(self.builder, op, values)
        for each, value in zip(op.results, results or (), strict=False):
            self.known[each] = Spread(value, loops)
        return self.known.get(result)

    def _chosen(self, op: scf.IfOp, result: SSAValue) -> Spread | None:
        """A conditional of scalars: both sides, and a choice for each element."""
        number = next(n for n, each in enumerate(op.results) if each is result)
        ends = [region.block.last_op for region in (op.true_region, op.false_region) if region.blocks]
        sides = [self.value(end.operands[number]) for end in ends if end is not None]
        parts = [self.value(op.cond), *sides]
        found = [part for part in parts if part is not None]
        if len(found) != 3:
            return None
        loops = union(found)
        return Spread(self.builder.select(*(over(self.builder, x, loops, self.sizes) for x in found)), loops)

    def _extracted(self, op: tensor.ExtractOp) -> Spread | None:
        """An element of a whole tensor at computed places: a gather. A dim read at a loop's own number is taken whole."""
        table = self.builder.importer.value(op.tensor)
        places = [self.value(index) for index in op.indices]
        found = [place for place in places if place is not None]
        if self._is_inside(op.tensor.owner) or len(found) != len(places) or None in table.type.shape:
            return None
        plain = [self._own_loop(index) for index in op.indices]
        computed = [place for place, loop in zip(found, plain, strict=True) if loop is None]
        loops = union(computed)
        kept = [loop if plain.count(loop) == 1 and loop not in loops else None for loop in plain]
        computed = [place for place, loop in zip(found, kept, strict=True) if loop is None]
        loops = union(computed)
        return self._gathered(table, kept, [over(self.builder, x, loops, self.sizes) for x in computed], loops)

    def _own_loop(self, index: SSAValue) -> int | None:
        owner = index.owner
        found = self.value(index) if isinstance(owner, Operation) and owner.name == "linalg.index" else None
        return found.loops[0] if found and found.loops else None

    def _gathered(self, table: Value, kept: Sequence[int | None], indices: Sequence[Value], loops: Loops) -> Spread:
        """`table` at `indices`, one per dim that is not `kept` as the loop it is."""
        builder, shape = self.builder, table.type.sizes
        taken = tuple(loop for loop in kept if loop is not None)
        sizes = [1 if loop is None else self.sizes[loop] or 0 for loop in kept]
        if any(size > whole for size, whole in zip(sizes, shape, strict=True)):
            raise UnreadableMap("reads outside of the tensor")
        if not indices:
            return Spread(sliced(builder, table, [0] * len(shape), sizes, [1] * len(shape)), taken)
        looked = tuple(dim for dim, loop in enumerate(kept) if loop is None)
        batch = indices[0].type.sizes
        columns = [reshaped_dim(builder, builder.convert(x, "i64"), len(batch), [1]) for x in indices]
        joined = columns[0]
        if len(columns) > 1:
            kind = joined.type.with_shape((*batch, len(columns)))
            joined = builder.emit("concatenate", columns, kind, dim=len(batch))
        return Spread(builder.gather(table, joined, looked, len(batch), sizes=sizes), loops + taken)


def depends_on(value: SSAValue, argument: SSAValue) -> bool:
    """Whether a value of a body is computed from an argument of it."""
    seen: set[SSAValue] = set()
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if each is argument:
            return True
        if each not in seen and not isinstance(each.owner, Block):
            seen.add(each)
            waiting += [operand for inner in each.owner.walk() for operand in inner.operands]
    return False


def narrow(factor: SSAValue) -> SSAValue:
    """A factor before it was widened: a product accumulates in the wider type anyway."""
    while isinstance(owner := factor.owner, Operation) and mnemonic(owner) in WIDENING:
        source = owner.operands[0]
        if isinstance(source.type, IntegerType) and source.type.width.data == 1:
            break
        factor = source
    return factor


def union(spreads: Sequence[Spread]) -> Loops:
    """The loops of all values, in order."""
    return tuple(sorted({loop for spread in spreads for loop in spread.loops}))


def loop_sizes(values: Sequence[Value], maps: Sequence[AffineMap]) -> Sizes:
    """The sizes of the loops from the dims that are just one loop. Raises Refused where they are not said, or differ."""
    count = maps[0].num_dims if maps else 0
    found: list[int | None] = [None] * count
    seen = [False] * count
    for value, map in zip(values, maps, strict=True):
        if map.num_symbols or map.num_dims != count or len(map.results) != value.type.rank:
            raise Refused("MG0103", f"the map {map} does not fit {value.type} and {count} loops")
        for expression, size in zip(map.results, value.type.shape, strict=True):
            line = line_of(expression)
            if line is None or (loop := line.loop) is None:
                continue
            seen[loop] = True
            if None not in (size, found[loop]) and size != found[loop]:
                raise Refused("MG0103", f"loop {loop} has the sizes {found[loop]} and {size}")
            found[loop] = size if found[loop] is None else found[loop]
    if not all(seen):
        raise Refused("MG0103", f"no operand determines the trip count of loop {seen.index(False)}")
    return tuple(found)
