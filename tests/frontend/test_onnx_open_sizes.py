"""ONNX models with symbolic dims that stay open: formulas of symbols are preserved, and shape arithmetic is executed at
runtime.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

import meshgen as mg  # noqa: E402
from meshgen.api import read  # noqa: E402
from meshgen.sizes.program import with_shapes  # noqa: E402
from tests import onnx_models  # noqa: E402
from tests.onnx_models import Builder  # noqa: E402


@pytest.mark.parametrize(
    ("model", "shapes"), [(onnx_models.mlp(), [(4, 32), (6, 32)]), (onnx_models.bert(), [(4, 8), (2, 8)])]
)
def test_unbound_symbolic_dims_stay_open(model: Any, shapes: list[tuple[int, ...]], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    name = model.graph.input[0].name
    executable = mg.compile(model, {"dp": 2}, in_specs={name: mg.P("dp")}, target="cpu")
    executable.save(tmp_path / "open.mgx")
    args_of_call: list[Any] = []
    for shape in shapes:
        args_of_call = (
            [rng.standard_normal(shape).astype("f4")]
            if name == "x"
            else [rng.integers(0, 30, shape), np.ones(shape, np.int64)]
        )
        fixed = mg.compile(
            model, {"dp": 2}, args=[shape] * len(args_of_call), in_specs={name: mg.P("dp")}, target="cpu"
        )
        np.testing.assert_allclose(executable(*args_of_call), fixed(*args_of_call), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        mg.load(tmp_path / "open.mgx")(*args_of_call), executable(*args_of_call), rtol=1e-5, atol=1e-6
    )


def test_shape_arithmetic_on_open_sizes_matches_reference() -> None:
    b = Builder()
    length = b("Gather", b("Shape", "x"), b.ints(1), axis=0)
    zero, one = b.array("zero", np.int64(0)), b.array("one", np.int64(1))
    counter = b("Range", zero, b("Squeeze", length), one)
    mask = b("LessOrEqual", b("Unsqueeze", counter, b.ints(0)), b("Unsqueeze", counter, b.ints(1)))
    scores = b("Where", mask, b("MatMul", "x", b("Transpose", "x", perm=[0, 2, 1])), b.number(-1e9))
    model = b.model([("x", "f32", ["batch", "length", 4])], [(b("Softmax", scores, axis=-1), "f32"), (counter, "i64")])
    executable = mg.compile(model, {"d": 2}, target="cpu")
    for shape in ((2, 5, 4), (3, 9, 4)):
        x = np.random.default_rng(0).standard_normal(shape).astype("f4")
        outputs = executable(x)
        outputs = [*outputs.values()] if isinstance(outputs, dict) else outputs
        for actual, reference in zip(outputs, onnx_models.reference(model, x), strict=True):
            np.testing.assert_allclose(actual, reference, rtol=1e-4, atol=1e-6)


def test_input_sizes_follow_formulas_of_symbols() -> None:
    b = Builder()
    y = b("Concat", "past", "x", axis=1)
    model = b.model([("past", "f32", [2, "past"]), ("x", "f32", [2, "new"]), ("mask", "f32", [2, "past + new + 1"])], [(b("Add", b("Pad", y, b.ints(0, 0, 0, 1)), "mask"), "f32")])  # fmt: skip
    module, _ = read(model, {"d": 2}, args={"past": (2, 6)})
    assert [str(value.type) for value in module.graph.inputs] == ["f32[2,6]", "f32[2,?]", "f32[2,?]"]
    closed = with_shapes(module, {"x": (2, 3), "mask": (2, 10)})
    assert str(closed.graph.outputs[0].type) == "f32[2,10]"
    with pytest.raises(mg.MeshgenError, match="dim 1 of 'mask' is 9"):
        with_shapes(module, {"x": (2, 3), "mask": (2, 9)})


def test_model_that_depends_on_size_value_is_rejected() -> None:
    b = Builder()
    model = b.model([("x", "f32", ["n", 4])], [(b("Resize", "x", "", "", b.ints(3, 4), mode="nearest"), "f32")])
    with pytest.raises(mg.MeshgenError, match=r"MG0208.*cannot stay open") as error:
        read(model, {"d": 2})
    assert "--shape" in str(error.value)
    assert str(read(model, {"d": 2}, args={"n": 6})[0].graph.outputs[0].type) == "f32[3,4]"


@pytest.mark.parametrize("height, width", [(-1, -1), ("?", "?"), ("", ""), ("None", "None"), ("-1", "-1")])
def test_unnamed_open_dims_are_independent(height: Any, width: Any) -> None:
    b = Builder()
    model = b.model([("x", "f32", [1, height, width])], [(b("Relu", "x"), "f32")])
    model.graph.output[0].type.CopyFrom(model.graph.input[0].type)
    module, _ = read(model, {"d": 2})
    assert str(module.graph.inputs[0].type) == "f32[1,?,?]"
    assert str(with_shapes(module, {"x": (1, 8, 16)}).graph.outputs[0].type) == "f32[1,8,16]"
    assert str(read(model, {"d": 2}, args={"x": (1, 8, 16)})[0].graph.outputs[0].type) == "f32[1,8,16]"


def test_open_sizes_that_must_be_equal_are_reported() -> None:
    b = Builder()
    model = b.model([("x", "f32", ["?", 4]), ("z", "f32", ["?", 4])], [(b("Add", "x", "z"), "f32")])
    with pytest.raises(
        mg.MeshgenError,
        match=r"MG0104: Add .*\n.*the importer tried different numbers for the open sizes x.0, z.0.*--shape",
    ):
        read(model, {"d": 2})
    assert str(read(model, {"d": 2}, args={"x": (8, 4), "z": (8, 4)})[0].graph.outputs[0].type) == "f32[8,4]"


def test_numeric_symbol_is_a_fixed_size() -> None:
    b = Builder()
    model = b.model([("x", "f32", ["n", "24"])], [(b("Relu", "x"), "f32")])
    assert str(read(model, {"d": 2})[0].graph.inputs[0].type) == "f32[?,24]"
