"""Sequences and optional values: they hold tensors while the model is imported, and are gone afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.frontend.onnx.ops.table import (
    ALL,
    Array,
    Call,
    Elements,
    array_of,
    dim_of,
    enter_rows,
    kind_of,
    op,
    require_few,
)
from meshgen.frontend.tracer.indexing import take
from meshgen.frontend.tracer.joining import concatenate, split, stack
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.shapes import squeeze
from meshgen.frontend.tracer.tensor import Tensor


@op("SequenceAt", plain=(1,))
def sequence_at(call: Call, held: Elements, position: Array | Tensor) -> Any:
    """Return an element; tensors of one type may be chosen by data."""
    if isinstance(position, Tensor) and len({(kind_of(each), each.shape) for each in held}) == 1:
        return take(stack(held, 0), position.reshape(()), 0)
    number = int(array_of(position, "position"))
    if not -len(held) <= number < len(held):
        refuse(f"position {number} is not one of the {len(held)} elements")
    return [held[number]]


@op("SequenceInsert", known=(2,), plain=(1,))
def sequence_insert(call: Call, held: Elements, element: Any, place: Array | None = None) -> Elements:
    at = len(held) if place is None else int(place)
    return Elements([*held[:at], element, *held[at:]])


@op("SequenceErase", known=(1,))
def sequence_erase(call: Call, held: Elements, place: Array | None = None) -> Elements:
    at = (len(held) - 1 if place is None else int(place)) % len(held)
    return Elements(each for n, each in enumerate(held) if n != at)


@op("ConcatFromSequence")
def concat_from_sequence(call: Call, held: Elements) -> Tensor:
    rank = held[0].ndim
    if call["new_axis"]:
        return stack(held, dim_of(call["axis"], rank + 1))
    return concatenate(held, dim_of(call["axis"], rank))


@op("SplitToSequence", known=(1,))
def split_to_sequence(call: Call, x: Tensor, sizes: Array | None = None) -> Elements:
    """Parts of one size (the last may be smaller), or of given ones; single rows without their dim unless `keepdims` is set."""
    axis = dim_of(call["axis"], x.ndim)
    whole = x.shape[axis]
    if sizes is None or not sizes.ndim:
        if (rows := 1 if sizes is None else int(sizes)) < 1:
            refuse(f"parts of {rows} rows are not parts of a tensor")
        require_few("SplitToSequence", -(-whole // rows))
        cuts = list(range(0, whole, rows))[1:]
    else:
        cuts = np.cumsum(sizes)[:-1].tolist()
    parts = split(x, cuts, axis)
    return Elements(parts if sizes is not None or call["keepdims"] else [squeeze(part, axis) for part in parts])


enter_rows({
    "SequenceConstruct": lambda call, *elements: Elements(elements),
    "SequenceEmpty": lambda call: Elements(),
    "SequenceLength": lambda call, held: np.asarray(len(held), np.int64),
    "Identity Optional OptionalGetElement": lambda call, x=None: [x],
    "OptionalHasElement": lambda call, x=None: np.asarray(x is not None),
}, plain=ALL)  # fmt: skip
