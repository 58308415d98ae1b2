"""Errors of the tracer. They are located at the line of the user's code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import MeshgenError, ProgramError, UsageError

REFUSALS: list[tuple[str, Callable[..., Any], tuple[str, ...], str, str]] = [
    (
        "contracted sizes",
        lambda x, y: x @ y,
        ("f32[3,4]", "f32[5,6]"),
        "MG0104",
        r"\[3, 4\] and \[5, 6\].*4 \(dim 1.*5 \(dim 0",
    ),
    ("leading dims", lambda x, y: x @ y, ("f32[2,3,4]", "f32[3,4,5]"), "MG0104", "leading dims do not broadcast"),
    ("no result", lambda x: None, ("f32[3]",), "MG0104", "returns nothing"),
    ("scalar product", lambda x: x @ x, ("f32[]",), "MG0104", "at least one dim"),
    ("broadcast", lambda x, y: x + y, ("f32[3,4]", "f32[3]"), "MG0104", r"\[3, 4\] and \[3\] do not broadcast"),
    (
        "broadcast_to",
        lambda x: mg.broadcast_to(x, (2, 3)),
        ("f32[4]",),
        "MG0104",
        r"\[4\] does not broadcast to \[2, 3\]",
    ),
    ("reshape", lambda x: x.reshape(5, -1), ("f32[3,4]",), "MG0104", "12 elements"),
    ("transpose", lambda x: x.transpose(0, 0), ("f32[3,4]",), "MG0104", "no order"),
    ("axis", lambda x: x.sum(2), ("f32[3,4]",), "MG0104", "axis 2 is out of range for a tensor of rank 2"),
    ("axis twice", lambda x: x.sum((0, -2)), ("f32[3,4]",), "MG0104", "repeated"),
    ("index", lambda x: x[3], ("f32[3,4]",), "MG0104", "index 3 is outside dim 0"),
    ("indices", lambda x: x[0, 0, 0], ("f32[3,4]",), "MG0104", "too many"),
    ("list index", lambda x: x[[0.5]], ("f32[3,4]",), "MG0104", "indices must be integers, got f64"),
    ("squeeze", lambda x: mg.squeeze(x, 0), ("f32[3,4]",), "MG0104", "size 3"),
    (
        "concatenate",
        lambda x, y: mg.concatenate([x, y], 1),
        ("f32[3,4]", "f32[2,4]"),
        "MG0104",
        r"\[3, 4\] and \[2, 4\]",
    ),
    ("concatenate nothing", lambda x: mg.concatenate([]), ("f32[3]",), "MG0104", "at least one"),
    ("split", lambda x: mg.split(x, 2), ("f32[3]",), "MG0104", "2 equal parts"),
    ("pad", lambda x: mg.pad(x, ((1, 2), (3, 4))), ("f32[3]",), "MG0104", "a pair of sizes"),
    ("mode of pad", lambda x: mg.pad(x, 1, 7), ("f32[3]",), "MG0104", "constant_values="),
    ("take", lambda x: mg.take(x, x), ("f32[3]",), "MG0104", "indices must be integers"),
    (
        "einsum sizes",
        lambda x, y: mg.einsum("ij,jk->ik", x, y),
        ("f32[3,4]", "f32[5,6]"),
        "MG0104",
        "index j has sizes 4 and 5",
    ),
    ("einsum rank", lambda x: mg.einsum("ijk->i", x), ("f32[3,4]",), "MG0104", "3 indices"),
    ("einsum text", lambda x: mg.einsum("i->ii", x), ("f32[3]",), "MG0104", "repeats an index"),
    ("einsum diagonal", lambda x: mg.einsum("ii->i", x), ("f32[3,4]",), "MG0104", "index i has sizes 3 and 4"),
    ("truth value", lambda x: x if x else -x, ("f32[]",), "MG0103", "use meshgen.where"),
    ("numpy ufunc", lambda x: np.spacing(x), ("f32[3]",), "MG0103", "numpy.spacing cannot be traced"),
    ("numpy function", lambda x: np.linalg.norm(x), ("f32[3]",), "MG0103", "no elements"),
    ("logic on floats", lambda x: x & x, ("f32[3]",), "MG0104", "compare with 0"),
    ("mean of nothing", lambda x: x.mean(), ("f32[0]",), "MG0104", "no elements"),
    ("bad dtype", lambda x: x.astype("longdouble"), ("f32[3]",), "MG0104", "unknown element type"),
    ("bad operand", lambda x: x + "1", ("f32[3]",), "MG0104", "no tensor"),
    ("bad result", lambda x: object(), ("f32[3]",), "MG0104", "not a tensor"),
    (
        "option length",
        lambda x: mg.matmul(x, x, sharding_option=[["dp"]]),
        ("f32[3,3]",),
        "MG0104",
        "has 1 entries, but the operation has 3 loops",
    ),
    ("axis number", lambda x: mg.annotate(x, [[3]]), ("f32[3]",), "MG0202", "axis number 3"),
    ("a float of a tensor", lambda x: float(x.sum()), ("f32[3]",), "MG0103", "no numeric value while it is traced"),
    ("a change in place", lambda x: x.__setitem__(0, 1), ("f32[3]",), "MG0103", "changed in place"),
    ("a size that is no number", lambda x: mg.full((3, float("nan")), 1.0), ("f32[3]",), "MG0104", "is not a shape"),
    ("a size below zero", lambda x: mg.broadcast_to(x, (-1, 3)), ("f32[3]",), "MG0104", "is not a shape"),
    ("a fractional reshape", lambda x: x.reshape(3.0, 1), ("f32[3]",), "MG0104", "3 elements"),
    ("an axis by name", lambda x: x.sum("a"), ("f32[3]",), "MG0104", "no axis a"),
    ("a method that there is not", lambda x: x.inverse(), ("f32[3]",), "MG0105", "unknown name Tensor.inverse"),
    ("an exception of the user's", lambda x: {}["k"], ("f32[3]",), "MG0105", "KeyError: 'k'"),
    ("wrong keywords", lambda x: mg.sum(x, dim=0), ("f32[3]",), "MG0105", "unexpected keyword"),
    ("a sharding that is none", lambda x: mg.annotate(x, 3), ("f32[3]",), "MG0204", "expected a mesh axis"),
    ("number out of range", lambda x: x + 1000, ("i8[3]",), "MG0104", "1000 is out of range for i8"),
]


@pytest.mark.parametrize(
    ("function", "types", "code", "text"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS]
)
def test_invalid_operation_is_rejected_with_user_line(function: Any, types: Any, code: str, text: str) -> None:
    with pytest.raises(ProgramError, match=f"(?s)({code}).*({text})") as caught:
        mg.trace(function, types)
    loc = caught.value.diagnostics[0].loc
    assert loc is not None
    assert (loc.file, loc.line) == (__file__, function.__code__.co_firstlineno)


@pytest.mark.parametrize("text", ["f32", "q7[3]", "f32[3,,4]", "f32[-1]", 5])
def test_malformed_type_is_usage_error(text: Any) -> None:
    with pytest.raises(UsageError, match="is not a tensor type"):
        mg.spec(text)


def test_tensor_of_another_trace_is_rejected() -> None:
    leaked: list[mg.Tensor] = []
    mg.trace(lambda x: leaked.append(x) or x, ["f32[3]"])
    with pytest.raises(ProgramError, match=r"MG0104.*belongs to another traced function"):
        mg.trace(lambda x: x + leaked[0], ["f32[3]"])


def test_user_exception_is_cause_of_program_error() -> None:
    def fails(x: mg.Tensor) -> mg.Tensor:
        raise RuntimeError("mine")

    with pytest.raises(ProgramError, match="MG0105: RuntimeError: mine") as caught:
        mg.compile(fails, {"x": 2}, args=["f32[3]"], target="cpu")
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_wrong_number_of_arguments_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="do not fit"):
        mg.trace(lambda x: x, ["f32[3]", "f32[3]"])


def test_operation_outside_trace_is_rejected() -> None:
    with pytest.raises(MeshgenError, match="inside a function that is being traced"):
        mg.zeros((3,))
