"""Errors in calls of traced functions. Their messages have the sizes and say how to mend the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ProgramError

REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "first elements": (lambda x: mg.top_k(x, 5), "the size of dim"),
    "extreme of nothing": (lambda x: mg.argmax(x[:, :0], 1), "is empty and has no maximum"),
    "order of complex numbers": (lambda x: mg.sort(x * 1j), "complex numbers have no order"),
    "side": (lambda x: mg.searchsorted(x[0], x, side="middle"), "side 'left' or 'right'"),
    "flags as index": (lambda x: x[x > 0], "choose elements with where"),
    "constant flags as index": (lambda x: x[np.array([True, False, True])], "choose elements with where"),
    "row": (lambda x: x.at[7].set(0), "index 7 is outside dim 0"),
    "flags of another shape": (lambda x: x.at[x[0] > 0].set(0), "does not fit the first dims"),
    "mode of an update": (lambda x: x.at[mg.arange(2)].set(0, mode="clip"), "clip the indices first"),
    "values by flags": (lambda x: x.at[x > 0].set(x), "changed by one number"),
    "sizes of a slice": (lambda x: mg.dynamic_slice(x, (0, 0), (4, 1)), "does not fit into f32"),
    "starts of a slice": (lambda x: mg.dynamic_slice(x, (0,), (1, 1)), "needs 2 starts"),
    "update": (lambda x: mg.dynamic_update_slice(x, mg.ones((4, 4)), (0, 0)), "does not fit into f32"),
    "rank of indices": (lambda x: mg.take_along_axis(x, mg.arange(3), 0), "needs integers of rank 2"),
    "repeats that are data": (lambda x: mg.repeat(x, mg.arange(3), 0), "they decide the shape"),
    "places of dims": (lambda x: mg.moveaxis(x, (0, 1), (1,)), "give distinct positions"),
    "shapes": (lambda x: mg.broadcast_shapes((2, 3), (4,)), "do not broadcast together"),
    "matrix": (lambda x: mg.tril(x[0]), "fewer than two dims"),
    "bounds of arange": (lambda x: mg.arange(x[0, 0]), "must be constants while the function is traced"),
    "step of arange": (lambda x: mg.arange(0, 3, 0), "the step is not 0"),
    "contraction": (lambda x: mg.tensordot(x, x, 1), "the sizes differ"),
    "vectors": (lambda x: mg.vecdot(x, x[:, :2]), "the vectors differ in size"),
    "indices of einsum": (lambda x: mg.einsum("...abc->...", x), "fewer dims than indices"),
    "cross product": (lambda x: mg.linalg.cross(x, x), "are of three numbers"),
    "mode of qr": (lambda x: mg.linalg.qr(x, mode="raw"), "the modes are reduced and complete"),
    "order of a norm": (lambda x: mg.linalg.matrix_norm(x, ord=3), "is not an order of matrix norms"),
    "norm of a transform": (lambda x: mg.fft.fft(x, norm="none"), "the norms are backward, ortho, forward"),
    "quantile": (lambda x: mg.quantile(x, 1.5), "shares are from 0 to 1"),
    "weights": (lambda x: mg.average(x, weights=mg.ones(3)), "give one per element"),
    "count of numbers": (lambda x: mg.bincount(mg.arange(3)), r"bincount\(x, length=\.\.\.\)"),
    "bins": (lambda x: mg.histogram(x, 10), "make equal ones with meshgen.linspace"),
    "width of bits": (lambda x: mg.bitcast_convert_type(x, "i8"), "elements of another width"),
    "choices": (lambda x: mg.select([x > 0], [x, x]), "a choice for each condition"),
    "sizes of dot_general": (lambda x: mg.dot_general(x, x, (((0,), (1,)), ((), ()))), "the sizes differ"),
    "shift": (lambda x: x << 1, "'shift_left' works on i1 and integers"),
    "differences": (lambda x: mg.diff(x, -1), "0 times or more"),
    "key": (lambda x: mg.random.normal(x, (2,)), "a random key is"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_call_is_rejected_with_reason_and_line(name: str) -> None:
    function, text = REFUSED[name]
    with pytest.raises(ProgramError, match=f"MG010[45](?s:.)*{text}") as caught:
        mg.trace(function, ["f32[3,4]"])
    loc = caught.value.diagnostics[0].loc
    assert loc is not None and (loc.file, loc.line) == (__file__, function.__code__.co_firstlineno)
