"""Sequences and optional values. They exist only during import, as Python containers of tensors."""

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
    require_small_array,
)
from meshgen.frontend.tracer.indexing import take
from meshgen.frontend.tracer.joining import concatenate, split, stack
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.shapes import squeeze
from meshgen.frontend.tracer.tensor import Tensor


@op("SequenceAt", plain=(1,))
def sequence_at(call: Call, sequence: Elements, position: Array | Tensor) -> Any:
    """Return the element of a sequence at `position`, which may be a tensor if all elements have one type."""
    if isinstance(position, Tensor) and len({(kind_of(element), element.shape) for element in sequence}) == 1:
        return take(stack(sequence, 0), position.reshape(()), 0)
    index = int(array_of(position, "position"))
    if not -len(sequence) <= index < len(sequence):
        refuse(f"position {index} is not one of the {len(sequence)} elements")
    return [sequence[index]]


@op("SequenceInsert", known=(2,), plain=(1,))
def sequence_insert(call: Call, sequence: Elements, element: Any, position: Array | None = None) -> Elements:
    index = len(sequence) if position is None else int(position)
    return Elements([*sequence[:index], element, *sequence[index:]])


@op("SequenceErase", known=(1,))
def sequence_erase(call: Call, sequence: Elements, position: Array | None = None) -> Elements:
    index = (len(sequence) - 1 if position is None else int(position)) % len(sequence)
    return Elements(element for n, element in enumerate(sequence) if n != index)


@op("ConcatFromSequence")
def concat_from_sequence(call: Call, sequence: Elements) -> Tensor:
    rank = sequence[0].ndim
    if call["new_axis"]:
        return stack(sequence, dim_of(call["axis"], rank + 1))
    return concatenate(sequence, dim_of(call["axis"], rank))


@op("SplitToSequence", known=(1,))
def split_to_sequence(call: Call, x: Tensor, sizes: Array | None = None) -> Elements:
    """Split `x` into slices of the sizes `sizes`; a single size applies to all slices (the last one may be smaller).

    Without `sizes`, the slices are single rows, and the split dim is removed unless the attribute `keepdims` is set.
    """
    axis = dim_of(call["axis"], x.ndim)
    dim_size = x.shape[axis]
    if sizes is None or not sizes.ndim:
        if (rows := 1 if sizes is None else int(sizes)) < 1:
            refuse(f"a tensor cannot be split into slices of {rows} rows")
        require_small_array("SplitToSequence", -(-dim_size // rows))
        cuts = list(range(0, dim_size, rows))[1:]
    else:
        cuts = np.cumsum(sizes)[:-1].tolist()
    slices = split(x, cuts, axis)
    return Elements(slices if sizes is not None or call["keepdims"] else [squeeze(part, axis) for part in slices])


enter_rows({
    "SequenceConstruct": lambda call, *elements: Elements(elements),
    "SequenceEmpty": lambda call: Elements(),
    "SequenceLength": lambda call, held: np.asarray(len(held), np.int64),
    "Identity Optional OptionalGetElement": lambda call, x=None: [x],
    "OptionalHasElement": lambda call, x=None: np.asarray(x is not None),
}, plain=ALL)  # fmt: skip
