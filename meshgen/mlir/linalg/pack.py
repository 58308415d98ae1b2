"""Reader of linalg.pack and unpack: tiles of dims become new innermost dims, and back."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.payload import Builder, finish
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.linalg.structured import refuse
from meshgen.mlir.operation_signature import attribute_of
from meshgen.mlir.stablehlo.attributes import integers
from meshgen.records import dataclass


@dataclass(frozen=True)
class _Layout:
    """`tiles[i]` is the size of the tiles of dim `dims[i]`; `order` is the order of the outer dims."""

    dims: tuple[int, ...]
    tiles: tuple[int, ...]
    order: tuple[int, ...]

    def counts(self, plain: Sequence[int]) -> list[int]:
        """How many tiles each dim has; all rows of one that is not cut."""
        tiles = dict(zip(self.dims, self.tiles, strict=True))
        return [-(-size // tiles.get(d, 1)) for d, size in enumerate(plain)]

    def padded(self, plain: Sequence[int]) -> list[int]:
        tiles = dict(zip(self.dims, self.tiles, strict=True))
        return [count * tiles.get(d, 1) for d, count in enumerate(self.counts(plain))]

    def packed(self, plain: Sequence[int]) -> list[int]:
        counts = self.counts(plain)
        return [*(counts[d] for d in self.order), *self.tiles]

    def split(self, plain: Sequence[int]) -> tuple[list[int], list[int]]:
        """Each dim as tiles and rows of a tile, and the position of both when it is packed."""
        shape, place = list[int](), dict[tuple[int, bool], int]()
        for d, count in enumerate(self.counts(plain)):
            place[d, False] = len(shape)
            shape.append(count)
            if d in self.dims:
                place[d, True] = len(shape)
                shape.append(self.tiles[self.dims.index(d)])
        return shape, [*(place[d, False] for d in self.order), *(place[d, True] for d in self.dims)]


def _layout(importer: Importer, op: Operation, plain: TensorType, packed: TensorType) -> _Layout | None:
    """None, and a fault, where the lists do not fit the types."""
    dims, tiles, order = (
        integers(attribute_of(op, name)) for name in ("inner_dims_pos", "static_inner_tiles", "outer_dims_perm")
    )
    found = _Layout(dims, tiles, order or tuple(range(plain.rank)))
    fits = (
        None not in (*plain.shape, *packed.shape)
        and len(dims) == len(tiles) == len(set(dims))
        and all(0 <= d < plain.rank for d in dims)
        and min(tiles, default=1) > 0
        and sorted(found.order) == list(range(plain.rank))
    )
    if fits and plain.with_shape(found.packed(plain.sizes)) == packed:
        return found
    importer.fault("MG0104", f"{op.name}: {plain} in tiles {list(tiles)} of dims {list(dims)} is not {packed}", op)
    refuse(importer, op)
    return None


def import_pack(importer: Importer, op: Operation) -> None:
    """Padded to whole tiles, by the third operand."""
    value, target, *pads = importer.values(op.operands)
    if (layout := _layout(importer, op, value.type, target.type)) is None:
        return
    builder, plain = Builder(importer, op), value.type.sizes
    if (wide := layout.padded(plain)) != list(plain):
        zeros = (0,) * len(plain)
        fill = pads[0] if pads else builder.constant(0, value.type.with_shape(()))
        high = tuple(a - b for a, b in zip(wide, plain, strict=True))
        value = builder.emit("pad", [value, fill], value.type.with_shape(wide), low=zeros, high=high, interior=zeros)
    shape, order = layout.split(plain)
    cut = builder.reshape(value, shape)
    finish(importer, op, builder.emit("transpose", [cut], target.type, perm=tuple(order)))


def import_unpack(importer: Importer, op: Operation) -> None:
    """Rows past the end of the result are dropped."""
    value, target = importer.values(op.operands[:2])
    if (layout := _layout(importer, op, target.type, value.type)) is None:
        return
    builder, plain = Builder(importer, op), target.type.sizes
    shape, order = layout.split(plain)
    back = tuple(sorted(range(len(order)), key=order.__getitem__))
    cut: Value = builder.emit("transpose", [value], value.type.with_shape(shape), perm=back)
    whole = builder.reshape(cut, layout.padded(plain))
    if whole.type != target.type:
        attrs = {"start": (0,) * len(plain), "limit": tuple(plain), "stride": (1,) * len(plain)}
        whole = builder.emit("slice", [whole], target.type, **attrs)
    finish(importer, op, whole)


PART = Dialect(importers={"linalg.pack": import_pack, "linalg.unpack": import_unpack})
