"""Operators of the domain `ai.onnx.ml`, compared with NumPy implementations that follow ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

import meshgen as mg  # noqa: E402
from tests.frontend.test_onnx_operators import assert_close, f32, run  # noqa: E402
from tests.onnx_models import Builder  # noqa: E402

X = np.array([[1, 2], [-1, 0.5], [0, -3], [0, 0]], np.float32)
W, B = np.array([[0.5, -0.1], [0.2, 0.3], [-0.4, 0]], np.float32), np.array([-0.1, 0, 0.2], np.float32)
LABELS = np.array([3, 7, 9])


def learned(op: str, x: Any, results: int = 1, kinds: tuple[str, ...] = ("f32",), **attributes: Any) -> list[Any]:
    b = Builder()
    outputs = b(op, "x", results=results, domain="ai.onnx.ml", **attributes)
    kind = {"float32": "f32", "int64": "i64"}[x.dtype.name]
    model = b.model([("x", kind, x.shape)], [*zip([outputs] if results == 1 else outputs, kinds, strict=True)])
    del model.opset_import[1:]
    model.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 1 if op == "LinearClassifier" else 3))
    return run(model, x)


def classified(x: Any, w: Any, b: Any, labels: Any, transform: str = "NONE") -> list[Any]:
    numbers = {"coefficients": w.ravel().tolist(), "intercepts": b.tolist(), "classlabels_ints": labels.tolist()}
    return learned("LinearClassifier", x, 2, ("i64", "f32"), post_transform=transform, **numbers)


def softmax(scores: Any) -> Any:
    parts = np.exp(scores - scores.max(1, keepdims=True))
    return parts / parts.sum(1, keepdims=True)


def logistic(scores: Any) -> Any:
    return 1 / (1 + np.exp(-scores))


@pytest.mark.parametrize("transform, function", [("NONE", lambda s: s), ("LOGISTIC", logistic), ("SOFTMAX", softmax)])
def test_multi_class_classifier_selects_largest_score(transform: str, function: Any) -> None:
    scores = X @ W.T + B
    assert_close(classified(X, W, B, LABELS, transform), [LABELS[scores.argmax(1)], function(scores)])
    integers = X.astype(np.int64)
    assert_close(
        classified(integers, W, B, LABELS, transform),
        [LABELS[(integers @ W.T + B).argmax(1)], function(integers @ W.T + B)],
    )


def test_softmax_zero_keeps_zero_scores() -> None:
    """SOFTMAX_ZERO is a softmax that ignores zero scores. The scores of the last row are -0.1, 0 and 0.2."""
    results = classified(X, W, B, LABELS, "SOFTMAX_ZERO")
    assert_close([results[1][3], results[1][0]], [[0.42555746, 0, 0.5744425], softmax(X @ W.T + B)[0]])


def test_binary_classifier_thresholds_its_score() -> None:
    score = X @ W[:1].T + B[:1]
    chosen = LABELS[(score[:, 0] > 0).astype(int)]
    assert_close(classified(X, W[:1], B[:1], LABELS[:2]), [chosen, np.concatenate([1 - score, score], 1)])
    assert_close(
        classified(X, W[:1], B[:1], LABELS[:2], "LOGISTIC"),
        [chosen, np.concatenate([logistic(-score), logistic(score)], 1)],
    )


def test_invalid_classifier_is_rejected() -> None:
    for changed, text in (
        ({"transform": "PROBIT"}, "'PROBIT' is not supported"),
        ({"labels": LABELS[:2]}, "2 classes do not fit 3 intercepts"),
        ({"w": W[:2]}, "4 coefficients do not fit 3 x 2"),
    ):
        options: dict[str, Any] = {"w": W, "b": B, "labels": LABELS, **changed}
        with pytest.raises(mg.MeshgenError, match=text):
            classified(X, **options)
    with pytest.raises(mg.MeshgenError, match=r"classes that are strings.*\n.*whole numbers"):
        learned(
            "LinearClassifier",
            X,
            2,
            ("i64", "f32"),
            coefficients=[1.0, 2.0],
            intercepts=[0.0],
            classlabels_strings=["a", "b"],
        )


def test_linear_regressor_has_several_targets() -> None:
    assert_close(
        learned("LinearRegressor", X, coefficients=W.ravel().tolist(), intercepts=B.tolist(), targets=3), [X @ W.T + B]
    )
    assert_close(learned("LinearRegressor", X[0], coefficients=[0.5, 2.0]), [[[4.5]]])
    assert_close(
        learned("LinearRegressor", X, coefficients=W.ravel().tolist(), targets=3, post_transform="SOFTMAX"),
        [softmax(X @ W.T)],
    )


def test_scaler_and_normalizer_match_numpy() -> None:
    assert_close(learned("Scaler", X, offset=[1.0, 2.0], scale=[3.0, 4.0]), [(X - [1, 2]) * [3, 4]])
    assert_close(learned("Scaler", X.astype(np.int64), offset=[1.0], scale=[3.0]), [(X.astype(np.int64) - 1) * 3])
    norms = {"MAX": X.max(1), "L1": np.abs(X).sum(1), "L2": np.sqrt((X * X).sum(1))}
    for name, norm in norms.items():
        assert_close(learned("Normalizer", X, norm=name), [X / np.where(norm == 0, 1, norm)[:, None]])
    with pytest.raises(mg.MeshgenError, match="3 offsets and 1 scales do not fit 2 features"):
        learned("Scaler", X, offset=[1.0, 2.0, 3.0], scale=[1.0])


def test_imputer_one_hot_and_label_encoder_match_numpy() -> None:
    holes = np.where(X == 0, np.nan, X).astype(np.float32)
    assert_close(
        learned("Imputer", holes, imputed_value_floats=[5.0, 6.0], replaced_value_float=float("nan")),
        [np.where(X == 0, [5, 6], X)],
    )
    assert_close(
        learned("Imputer", X, imputed_value_floats=[5.0], replaced_value_float=-3.0), [np.where(X == -3, 5, X)]
    )
    assert_close(learned("OneHotEncoder", LABELS, cats_int64s=[9, 3]), [[[0, 1], [0, 0], [1, 0]]])
    assert_close(
        learned("LabelEncoder", LABELS, keys_int64s=[9, 3], values_floats=[0.5, 1.5], default_float=-1.0),
        [[1.5, -1, 0.5]],
    )


def test_sharded_classifier_matches_numpy() -> None:
    b = Builder()
    x, w = f32(8, 6), f32(3, 6)
    names = b("LinearClassifier", b("Scaler", "x", domain="ai.onnx.ml", offset=[0.5], scale=[2.0]), results=2, domain="ai.onnx.ml",
              coefficients=w.ravel().tolist(), intercepts=B.tolist(), classlabels_ints=LABELS.tolist(), post_transform="SOFTMAX")  # fmt: skip
    model = b.model(
        [("x", "f32", [8, 6])], [(names[0], "i64"), (b("Normalizer", names[1], domain="ai.onnx.ml", norm="L1"), "f32")]
    )
    scores = (x - 0.5) * 2 @ w.T + B
    for spec in (mg.P("d"), mg.P(None, "d")):
        outputs = mg.compile(model, {"d": 2}, in_specs={"x": spec}, target="cpu")(x)
        assert_close(
            outputs.values() if isinstance(outputs, dict) else outputs, [LABELS[scores.argmax(1)], softmax(scores)]
        )


def test_zip_map_is_rejected_with_hint() -> None:
    b = Builder()
    y = b("ZipMap", "x", domain="ai.onnx.ml", classlabels_int64s=[0, 1])
    with pytest.raises(
        mg.MeshgenError, match=r"MG0103: operator ai.onnx.ml.ZipMap .*creates dicts of tensors\n.*zipmap=False"
    ):
        run(b.model([("x", "f32", [2, 2])], [(y, "f32")]), X)
