"""Partitioner of random bits: a device computes the bits of its tile, each from its global position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from meshgen.ir.graph import TensorType, Value, dtype_name
from meshgen.ops.random_bits import PHILOX_WORDS, carried, halves, joined, paired_dim, philox, threefry
from meshgen.sharding.partitioners.builder import LocalBuilder
from meshgen.sharding.partitioners.registry import Site, partitioner, sharding_of


@dataclass(frozen=True)
class Word:
    """Unsigned integers of a device's program, with the operators that the generators use."""

    builder: LocalBuilder
    value: Value

    __array_ufunc__ = None  # With a NumPy constant on the left, Python then calls the operators of this class.

    def _with(self, op: str, other: Word | Any) -> Word:
        right = other.value if isinstance(other, Word) else self.builder.splat(int(other), self.value.type)
        return Word(self.builder, self.builder.elementwise(op, self.value, right))

    def __add__(self, other: Word | Any) -> Word:
        return self._with("add", other)

    def __mul__(self, other: Word | Any) -> Word:
        return self._with("multiply", other)

    __rmul__ = __mul__

    def __xor__(self, other: Word | Any) -> Word:
        return self._with("xor", other)

    def __or__(self, other: Word | Any) -> Word:
        return self._with("or", other)

    def __and__(self, other: Word | Any) -> Word:
        return self._with("and", other)

    def __lshift__(self, other: Word | Any) -> Word:
        return self._with("shift_left", other)

    def __rshift__(self, other: Word | Any) -> Word:
        return self._with("shift_right_logical", other)

    def __lt__(self, other: Word) -> Word:
        return Word(self.builder, self.builder.compare("LT", self.value, other.value))

    def astype(self, dtype: Any) -> Word:
        """Return the words converted to an element type, which is a NumPy dtype or a name."""
        name = dtype if isinstance(dtype, str) else dtype_name(dtype)
        return Word(self.builder, self.builder.convert(self.value, name))

    def spread(self, shape: Sequence[int | None]) -> Word:
        """Return a scalar word broadcast to `shape`."""
        return Word(self.builder, self.builder.spread(self.value, shape))

    def chosen(self, options: Sequence[Word]) -> Word:
        """Return, for each element, the option whose index is the element's value. The number of options is a power of
        two.
        """
        if len(options) == 1:
            return options[0]
        half = len(options) // 2
        low, high = (self.chosen(part) for part in (options[:half], options[half:]))
        is_high = self.builder.compare("NE", (self & half).value, self.builder.splat(0, self.value.type))
        return Word(self.builder, self.builder.emit("select", [is_high, high.value, low.value], low.value.type))


@partitioner("rng_bit_generator")
def rng_bit_generator(site: Site) -> list[Value]:
    """Write a random bit generator whose bits do not depend on the mesh.

    The new state is equal on all devices.
    """
    builder, (state,) = site.builder, site.operands
    words = [Word(builder, _element(builder, state, position)) for position in range(state.type.sizes[0])]
    is_threefry = site.node.attrs.algorithm == "THREE_FRY"
    new, bits = (_threefry if is_threefry else _philox)(site, words)
    local = site.local_types()[1]
    rows = [builder.reshape(word.value, (1,)) for word in new]
    return [builder.concatenate(rows, 0), builder.convert(bits.value, local.dtype)]


def _element(builder: LocalBuilder, state: Value, position: int) -> Value:
    return builder.reshape(builder.rows(state, 0, position, position + 1), ())


def _threefry(site: Site, state: Sequence[Word]) -> tuple[list[Word], Word]:
    """Return the new state and the bits. Two neighbors along `paired_dim` share a counter, and each uses one of its two
    words.
    """
    bits_type = site.node.results[1].type
    shape, positions = bits_type.sizes, _positions(site)
    is_wide, paired = bits_type.numpy_dtype.itemsize == 8, paired_dim(bits_type.sizes)
    lane: Word | None = None
    if shape and not is_wide:
        lane, positions[paired] = positions[paired] & 1, positions[paired] >> 1
        shape = tuple(-(-n // 2) if d == paired else n for d, n in enumerate(shape))
    local = site.local_types()[1].shape
    counter = _row_major_position(positions, shape, state[1].spread(local))
    key = tuple(word.spread(local) for word in halves(state[0]))
    words = threefry((key[0], key[1]), halves(counter))
    bits = joined(*words) if is_wide else lane.chosen(words) if lane else words[0]
    return [state[0], state[1] + math.prod(shape)], bits


def _philox(site: Site, state: Sequence[Word]) -> tuple[list[Word], Word]:
    """Return the new state and the bits. A counter gives four 32-bit numbers, or two 64-bit numbers."""
    bits_type = site.node.results[1].type
    # a wide number takes two words of a counter
    numbers_per_counter = PHILOX_WORDS // (2 if bits_type.numpy_dtype.itemsize == 8 else 1)
    local = site.local_types()[1].shape
    zero = Word(site.builder, site.builder.splat(0, TensorType(local, "ui64")))
    flat = _row_major_position(_positions(site), bits_type.sizes, zero)
    first = [word.spread(local) for word in (state[1], state[2 if len(state) > 2 else 0])]
    low = first[0] + (flat >> (numbers_per_counter.bit_length() - 1))
    counter = [*halves(low), *halves(carried(first[1], low, first[0]))]
    key = tuple(word.spread(local) for word in halves(state[0]))
    words = philox((key[0], key[1]), counter)
    numbers = words if numbers_per_counter == PHILOX_WORDS else [joined(words[0], words[1]), joined(words[2], words[3])]
    last = state[1] + -(-math.prod(bits_type.sizes) // numbers_per_counter)
    new = [state[0], last, carried(state[2 if len(state) > 2 else 0], last, state[1])]
    return new[: len(state)], (flat & (numbers_per_counter - 1)).chosen(numbers)


def _positions(site: Site) -> list[Word]:
    """Return, for each dim of the bits, the global position of each element of the device's tile along the dim."""
    builder, local = site.builder, site.local_types()[1]
    positions: list[Word] = []
    for dim, axes in enumerate(sharding_of(site.node.results[1]).canonical(site.mesh).dims):
        tensor_type = TensorType(local.shape, "ui64")
        position = Word(builder, builder.emit("iota", [], tensor_type, dim=dim))
        if axes:
            start = builder.convert(builder.tile_start(axes, local.sizes[dim]), "ui64")
            position = position + Word(builder, builder.spread(start, local.shape))
        positions.append(position)
    return positions


def _row_major_position(positions: Sequence[Word], shape: Sequence[int], first: Word) -> Word:
    """Return positions in row-major order, counted from `first`."""
    for dim, position in enumerate(positions):
        stride = math.prod(shape[dim + 1 :])
        first = first + (position * stride if stride != 1 else position)
    return first
