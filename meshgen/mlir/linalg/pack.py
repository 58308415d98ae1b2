"""Importers of `linalg.pack`, which splits dims into tiles and makes the tiles the innermost dims, and of its inverse
`unpack`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.builder import Builder, all_computed
from meshgen.mlir.conversion import Refused
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.loop_values import sliced


@dataclass(frozen=True)
class _Layout:
    """A packed layout: dim `dims[i]` is split into tiles of size `tiles[i]`, and `order` permutes the outer dims."""

    dims: tuple[int, ...]
    tiles: tuple[int, ...]
    order: tuple[int, ...]

    def counts(self, plain: Sequence[int]) -> list[int]:
        """Return the number of tiles along each dim of the type `plain`; a dim without tiles has tiles of size 1."""
        tiles = dict(zip(self.dims, self.tiles, strict=True))
        return [-(-size // tiles.get(d, 1)) for d, size in enumerate(plain)]

    def padded(self, plain: Sequence[int]) -> list[int]:
        tiles = dict(zip(self.dims, self.tiles, strict=True))
        return [count * tiles.get(d, 1) for d, count in enumerate(self.counts(plain))]

    def packed(self, plain: Sequence[int]) -> list[int]:
        counts = self.counts(plain)
        return [*(counts[d] for d in self.order), *self.tiles]

    def split(self, plain: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return the shape after splitting each tiled dim into (tile count, tile size), and the permutation that then
        packs it.
        """
        shape, positions = list[int](), dict[tuple[int, bool], int]()
        for d, count in enumerate(self.counts(plain)):
            positions[d, False] = len(shape)
            shape.append(count)
            if d in self.dims:
                positions[d, True] = len(shape)
                shape.append(self.tiles[self.dims.index(d)])
        return shape, [*(positions[d, False] for d in self.order), *(positions[d, True] for d in self.dims)]


def _layout(b: Builder, plain: TensorType, packed: TensorType) -> _Layout:
    """Return the packed layout that the attributes of the operation define. Raises Refused if it contradicts the types."""
    dims, tiles, order = (b.integers(name) for name in ("inner_dims_pos", "static_inner_tiles", "outer_dims_perm"))
    layout = _Layout(dims, tiles, order or tuple(range(plain.rank)))
    fits = (
        None not in (*plain.shape, *packed.shape)
        and len(dims) == len(tiles) == len(set(dims))
        and all(0 <= d < plain.rank for d in dims)
        and min(tiles, default=1) > 0
        and sorted(layout.order) == list(range(plain.rank))
    )
    if fits and plain.with_shape(layout.packed(plain.sizes)) == packed:
        return layout
    raise Refused("MG0104", f"{plain} with tiles {list(tiles)} of dims {list(dims)} is not {packed}")


def _pack(b: Builder, value: Value, target: Value, *pads: Value) -> Value:
    """Pad each dim to a multiple of its tile size with the third operand, or with 0 without one. Then split and
    transpose.
    """
    layout, plain = _layout(b, value.type, target.type), value.type.sizes
    if (padded_sizes := layout.padded(plain)) != list(plain):
        zeros = (0,) * len(plain)
        fill = pads[0] if pads else b.constant(0, value.type.with_shape(()))
        high = tuple(padded_size - size for padded_size, size in zip(padded_sizes, plain, strict=True))
        value = b.emit("pad", [value, fill], value.type.with_shape(padded_sizes), low=zeros, high=high, interior=zeros)
    shape, order = layout.split(plain)
    return b.emit("transpose", [b.reshape(value, shape)], target.type, perm=tuple(order))


def _unpack(b: Builder, value: Value, target: Value) -> Value:
    """Transpose, merge each tile dim into its outer dim, and slice off the padding at the end of each dim."""
    layout, plain = _layout(b, target.type, value.type), target.type.sizes
    shape, order = layout.split(plain)
    back = tuple(sorted(range(len(order)), key=order.__getitem__))
    cut = b.emit("transpose", [value], value.type.with_shape(shape), perm=back)
    return sliced(b, b.reshape(cut, layout.padded(plain)), (0,) * len(plain), plain, (1,) * len(plain))


PART = Dialect(importers=all_computed("linalg", {"pack": _pack, "unpack": _unpack}))
