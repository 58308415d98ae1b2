"""Operators of opsets below 7, which broadcast differently and have other attributes. Batch norms in training mode are
also tested.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from meshgen.errors import MeshgenError  # noqa: E402
from tests.frontend.test_onnx_operators import assert_close, f32, run, run_operator, single_operator_model  # noqa: E402
from tests.onnx_models import KINDS, Builder  # noqa: E402

X, ROWS, COLUMNS = f32(2, 3, 4), f32(3), f32(4)


def old(op: str, *arrays: Any, **options: Any) -> list[Any]:
    return run_operator(op, *arrays, **{"opset": 6, **options})


@pytest.mark.parametrize(
    "op, function", [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide)]
)
def test_broadcast_attribute_aligns_second_operand_at_axis(op: str, function: Any) -> None:
    assert_close(old(op, X, ROWS, broadcast=1, axis=1), [function(X, ROWS[:, None])])
    assert_close(old(op, X, COLUMNS, broadcast=1), [function(X, COLUMNS)])
    assert_close(old(op, X, X[0, 0, :0].sum(), broadcast=1), [function(X, np.float32(0))]) if op != "Div" else None


def test_old_comparison_broadcasts_at_axis() -> None:
    assert_close(old("Greater", X, ROWS, kind="i1", broadcast=1, axis=1), [ROWS[:, None] < X])


def test_different_shapes_without_broadcast_attribute_are_rejected() -> None:
    for op, arrays, options in (
        ("Add", (X, COLUMNS), {}),
        ("Add", (X, f32(2)), {"broadcast": 1, "axis": 1}),
        ("Sum", (X, COLUMNS), {}),
        ("Gemm", (f32(2, 3), f32(3, 4), COLUMNS), {}),
    ):
        with pytest.raises(MeshgenError, match="MG0104"):
            old(op, *arrays, **options)
    assert_close(run_operator("Sum", X, COLUMNS, opset=8), [X + COLUMNS])
    a, b = f32(2, 3), f32(3, 4)
    assert_close(old("Gemm", a, b, COLUMNS, broadcast=1), [a @ b + COLUMNS])


def test_old_prelu_slope_is_per_feature() -> None:
    assert_close(old("PRelu", X, ROWS), [np.where(X < 0, X * ROWS[:, None], X)])
    assert_close(old("PRelu", X, ROWS[:1]), [np.where(X < 0, X * ROWS[0], X)])


def test_old_dropout_is_identity_only_if_is_test() -> None:
    assert_close(old("Dropout", X, is_test=1), [X])
    assert_close(old("Dropout", X, ratio=0.0), [X])
    with pytest.raises(MeshgenError, match="draws new random numbers"):
        old("Dropout", X)


def test_opset_1_operators_match_numpy() -> None:
    assert_close(run_operator("Concat", X, X, opset=1), [np.concatenate([X, X], 1)])
    assert_close(run_operator("Cast", np.arange(4), opset=1, to="FLOAT"), [np.arange(4, dtype=np.float32)])
    tiles = np.array(2, np.float32), np.array(1, np.float32)
    assert_close(run_operator("Tile", X, *tiles, opset=1, known=(1, 2)), [np.tile(X, (1, 2, 1))])
    assert_close(
        run_operator("LpPool", np.abs(X), opset=1, p=2.5, kernel_shape=[4]),
        [(np.abs(X) ** 2.5).sum(2, keepdims=True) ** 0.4],
    )
    with pytest.raises(MeshgenError, match=r"MG0103: Upsample .*opset 6 is not supported"):
        old("Upsample", f32(1, 1, 2, 2), height_scale=2.0, width_scale=2.0)


# Batch norms ---------------------------------------------------------------------------------------------------------

SCALE, BIAS, MEAN, VARIANCE = f32(3), f32(3), f32(3), np.abs(f32(3))


def trained(dims: tuple[int, ...] = (0, 2), momentum: float = 0.9) -> list[Any]:
    """Return the normalized rows, the updated running mean and variance, and the mean and variance of the batch."""
    batch_mean, batch_variance = X.mean(dims), X.var(dims)
    normal = (X - X.mean(dims, keepdims=True)) / np.sqrt(X.var(dims, keepdims=True) + 1e-5)
    running = [old * momentum + new * (1 - momentum) for old, new in ((MEAN, batch_mean), (VARIANCE, batch_variance))]
    return [normal * SCALE[:, None] + BIAS[:, None], *running, batch_mean, batch_variance]


@pytest.mark.parametrize("opset, results, attributes", [
    (6, 1, {"is_test": 0}), (6, 5, {"is_test": 0}), (7, 5, {}), (9, 5, {}), (13, 5, {}), (14, 3, {"training_mode": 1}), (15, 1, {"training_mode": 1}),
])  # fmt: skip
def test_training_batch_norm_uses_batch_statistics(opset: int, results: int, attributes: dict[str, Any]) -> None:
    operands = (X, SCALE, BIAS, MEAN, VARIANCE)
    for momentum in (0.9, 0.25):
        outputs = run_operator(
            "BatchNormalization", *operands, opset=opset, results=results, momentum=momentum, **attributes
        )
        assert_close(outputs, trained(momentum=momentum)[:results])


@pytest.mark.parametrize("opset, attributes", [(6, {"is_test": 1}), (7, {}), (13, {}), (15, {})])
def test_inference_batch_norm_uses_running_statistics(opset: int, attributes: dict[str, Any]) -> None:
    normal = (X - MEAN[:, None]) / np.sqrt(VARIANCE[:, None] + 1e-5)
    outputs = run_operator("BatchNormalization", X, SCALE, BIAS, MEAN, VARIANCE, opset=opset, **attributes)
    assert_close(outputs, [normal * SCALE[:, None] + BIAS[:, None]])


def test_batch_norm_per_activation_matches_numpy() -> None:
    wide = [f32(3, 4), f32(3, 4), f32(3, 4), np.abs(f32(3, 4))]
    outputs = run_operator("BatchNormalization", X, *wide, opset=7, spatial=0)
    assert_close(outputs, [(X - wide[2]) / np.sqrt(wide[3] + 1e-5) * wide[0] + wide[1]])
    outputs = run_operator("BatchNormalization", X, *wide, opset=7, spatial=0, results=5)
    assert_close(outputs[:3], [(X - X.mean(0)) / np.sqrt(X.var(0) + 1e-5) * wide[0] + wide[1], wide[2] * 0.9 + X.mean(0) * 0.1, wide[3] * 0.9 + X.var(0) * 0.1])  # fmt: skip


def test_inference_batch_norm_with_several_results_is_rejected() -> None:
    with pytest.raises(MeshgenError, match="only training has more than one"):
        run_operator("BatchNormalization", X, SCALE, BIAS, MEAN, VARIANCE, opset=15, results=3)


def test_dropout_mask_type_depends_on_opset() -> None:
    for opset, kind in ((9, "f32"), (13, "i1")):
        model, operands = single_operator_model("Dropout", X, results=2, opset=opset)
        model.graph.output[1].type.tensor_type.elem_type = KINDS[kind]
        assert run(model, *operands)[1].all()


def test_opset_unknown_to_onnx_package_is_rejected() -> None:
    b = Builder()
    model = b.model([("x", "f32", [2])], [(b("Relu", "x"), "f32")], opset=99)
    newest = onnx.defs.onnx_opset_version()
    with pytest.raises(MeshgenError, match=f"opset 99 of ai.onnx, but onnx {onnx.__version__} knows 1 to {newest}"):
        run(model, X)
