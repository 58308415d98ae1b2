"""Sequences and optional values: they hold tensors while the model is imported, and are gone afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.frontend.onnx.ops.table import Array, Call, Elements, dim_of, op, rank_of, shape_of
from meshgen.frontend.tracer.joining import concatenate, split, stack
from meshgen.frontend.tracer.shapes import squeeze
from meshgen.frontend.tracer.tensor import Operand, Tensor


@op("SequenceConstruct")
def sequence_construct(call: Call, *elements: Operand) -> Elements:
    return Elements(elements)


@op("SequenceEmpty")
def sequence_empty(call: Call) -> Elements:
    return Elements()


@op("SequenceAt", known=(1,))
def sequence_at(call: Call, held: Elements, place: Array) -> Any:
    return [held[int(place)]]


@op("SequenceLength")
def sequence_length(call: Call, held: Elements) -> Array:
    return np.asarray(len(held), np.int64)


@op("SequenceInsert", known=(2,))
def sequence_insert(call: Call, held: Elements, element: Operand, place: Array | None = None) -> Elements:
    at = len(held) if place is None else int(place)
    return Elements([*held[:at], element, *held[at:]])


@op("SequenceErase", known=(1,))
def sequence_erase(call: Call, held: Elements, place: Array | None = None) -> Elements:
    at = (len(held) - 1 if place is None else int(place)) % len(held)
    return Elements(each for n, each in enumerate(held) if n != at)


@op("ConcatFromSequence")
def concat_from_sequence(call: Call, held: Elements) -> Tensor:
    rank = rank_of(held[0])
    if call["new_axis"]:
        return stack(held, dim_of(call["axis"], rank + 1))
    return concatenate(held, dim_of(call["axis"], rank))


@op("SplitToSequence", known=(1,))
def split_to_sequence(call: Call, x: Operand, sizes: Array | None = None) -> Elements:
    """Parts of one size (the last may be smaller), or of given ones; single rows without their dim unless `keepdims` is set."""
    axis = dim_of(call["axis"], rank_of(x))
    whole = shape_of(x)[axis]
    if sizes is None or not sizes.ndim:
        cuts = list(range(0, whole, 1 if sizes is None else int(sizes)))[1:]
    else:
        cuts = np.cumsum(sizes)[:-1].tolist()
    parts = split(x, cuts, axis)
    return Elements(parts if sizes is not None or call["keepdims"] else [squeeze(part, axis) for part in parts])


@op("Optional", "OptionalGetElement")
def optional(call: Call, x: Any = None) -> Any:
    return [x]


@op("OptionalHasElement")
def optional_has_element(call: Call, x: Any = None) -> Array:
    return np.asarray(x is not None)
