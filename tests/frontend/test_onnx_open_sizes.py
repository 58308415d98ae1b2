"""ONNX models whose symbols have no size: they stay open, formulas of them are kept, and what is computed of shapes follows."""

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
def test_sizes_that_are_not_given_stay_open(model: Any, shapes: list[tuple[int, ...]], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    name = model.graph.input[0].name
    executable = mg.compile(model, {"dp": 2}, in_specs={name: mg.P("dp")}, target="cpu")
    executable.save(tmp_path / "open.mgx")
    given: list[Any] = []
    for shape in shapes:
        given = (
            [rng.standard_normal(shape).astype("f4")]
            if name == "x"
            else [rng.integers(0, 30, shape), np.ones(shape, np.int64)]
        )
        fixed = mg.compile(model, {"dp": 2}, args=[shape] * len(given), in_specs={name: mg.P("dp")}, target="cpu")
        np.testing.assert_allclose(executable(*given), fixed(*given), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(mg.load(tmp_path / "open.mgx")(*given), executable(*given), rtol=1e-5, atol=1e-6)


def test_what_is_computed_of_open_sizes_is_left_to_the_program() -> None:
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
        found = executable(x)
        found = [*found.values()] if isinstance(found, dict) else found
        for got, each in zip(found, onnx_models.reference(model, x), strict=True):
            np.testing.assert_allclose(got, each, rtol=1e-4, atol=1e-6)


def test_sizes_of_inputs_are_formulas_of_symbols() -> None:
    b = Builder()
    y = b("Concat", "past", "x", axis=1)
    model = b.model([("past", "f32", [2, "past"]), ("x", "f32", [2, "new"]), ("mask", "f32", [2, "past + new + 1"])], [(b("Add", b("Pad", y, b.ints(0, 0, 0, 1)), "mask"), "f32")])  # fmt: skip
    module, _ = read(model, {"d": 2}, args={"past": (2, 6)})
    assert [str(value.type) for value in module.graph.inputs] == ["f32[2,6]", "f32[2,?]", "f32[2,?]"]
    closed = with_shapes(module, {"x": (2, 3), "mask": (2, 10)})
    assert str(closed.graph.outputs[0].type) == "f32[2,10]"
    with pytest.raises(mg.MeshgenError, match="dim 1 of 'mask' is 9"):
        with_shapes(module, {"x": (2, 3), "mask": (2, 9)})


def test_a_model_that_is_another_one_for_other_sizes_is_refused() -> None:
    b = Builder()
    model = b.model([("x", "f32", ["n", 4])], [(b("Resize", "x", "", "", b.ints(3, 4), mode="nearest"), "f32")])
    with pytest.raises(mg.MeshgenError, match=r"MG0208.*cannot stay open") as found:
        read(model, {"d": 2})
    assert "--shape" in str(found.value)
    assert str(read(model, {"d": 2}, args={"n": 6})[0].graph.outputs[0].type) == "f32[3,4]"


@pytest.mark.parametrize("height, width", [(-1, -1), ("?", "?"), ("", ""), ("None", "None"), ("-1", "-1")])
def test_sizes_without_a_name_are_each_a_size_of_its_own(height: Any, width: Any) -> None:
    b = Builder()
    model = b.model([("x", "f32", [1, height, width])], [(b("Relu", "x"), "f32")])
    model.graph.output[0].type.CopyFrom(model.graph.input[0].type)
    module, _ = read(model, {"d": 2})
    assert str(module.graph.inputs[0].type) == "f32[1,?,?]"
    assert str(with_shapes(module, {"x": (1, 8, 16)}).graph.outputs[0].type) == "f32[1,8,16]"
    assert str(read(model, {"d": 2}, args={"x": (1, 8, 16)})[0].graph.outputs[0].type) == "f32[1,8,16]"


def test_open_sizes_that_must_be_equal_are_named() -> None:
    b = Builder()
    model = b.model([("x", "f32", ["?", 4]), ("z", "f32", ["?", 4])], [(b("Add", "x", "z"), "f32")])
    with pytest.raises(
        mg.MeshgenError,
        match=r"MG0104: Add .*\n.*the importer tried different numbers for the open sizes x.0, z.0.*--shape",
    ):
        read(model, {"d": 2})
    assert str(read(model, {"d": 2}, args={"x": (8, 4), "z": (8, 4)})[0].graph.outputs[0].type) == "f32[8,4]"


def test_sizes_that_are_texts_of_numbers_are_numbers() -> None:
    b = Builder()
    model = b.model([("x", "f32", ["n", "24"])], [(b("Relu", "x"), "f32")])
    assert str(read(model, {"d": 2})[0].graph.inputs[0].type) == "f32[?,24]"
