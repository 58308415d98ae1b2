"""The decomposition of a matmul with scaled (quantized) numbers.

weights = (numbers - zero point) * scale        in the type of the scale, then converted to the type of x
result  = dot(x, weights)

Packed numbers are stored in bytes, lowest bits first. The factor that enumerates the numbers in a byte
occurs in x alone, and is contracted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from meshgen.ir.graph import Value
from meshgen.ops.decompositions.writer import FactorWriter, Spread, arranged, product
from meshgen.ops.factors import Names, packing_factor


def scaled_dot(writer: FactorWriter) -> Sequence[Value]:
    """Append the unpacking, the scaling and the matmul. Returns the result of the matmul."""
    attrs, result = writer.node.attrs, writer.node.results[0]
    x, numbers, scale, *zeros = writer.operands
    if attrs.bits:
        names = [part.names for part in writer.operands]
        numbers = _unpacked(writer, numbers, packing_factor(names, writer.results[0]), attrs.bits)
    weights = writer.convert(numbers, scale.dtype)
    for zero in zeros:
        weights = writer.apply("subtract", weights, writer.convert(zero, scale.dtype))
    weights = writer.convert(writer.apply("multiply", weights, scale), x.dtype)
    summed = tuple(f for f in x.names if f in weights.names and f not in writer.results[0])
    left, right = (_merged(writer, writer.masked(part, summed, 0), summed) for part in (x, weights))
    return [product(writer.builder, left, right, writer.results[0], result.type.dtype, attrs.precision).value]


def _merged(writer: FactorWriter, part: Spread, summed: Names) -> Spread:
    """Merge the contracted factors into one last dim."""
    kept = tuple(f for f in part.names if f not in summed)
    last = arranged(writer.builder, part, (*kept, *summed))
    sizes = last.value.type.sizes
    shape = (*sizes[: len(kept)], math.prod(sizes[len(kept) :]))
    return Spread(writer.builder.shaped(last.value, shape), (*kept, summed[0]))


def _unpacked(writer: FactorWriter, packed: Spread, factor: str, bits: int) -> Spread:
    """Unpack the numbers in bytes along a new last factor."""
    builder, kind = writer.builder, packed.value.type
    row, parts = (*kind.sizes, 1), list[Value]()
    for index in range(8 // bits):
        part = writer.apply("shift_right_logical", packed, index * bits) if index else packed
        part = writer.apply("and", part, 2**bits - 1)
        parts.append(builder.reshape(part.value, row))
    unpacked_type = kind.with_shape((*kind.sizes, len(parts)))
    return Spread(builder.emit("concatenate", parts, unpacked_type, dim=kind.rank), (*packed.names, factor))
