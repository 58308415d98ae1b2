"""Operators of `ai.onnx.ml`: classifiers, regressions, and preprocessing of tables.

They compute in f32, as ONNX Runtime does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from meshgen.frontend.onnx.ops.table import Call, dim_of, op
from meshgen.frontend.tracer import nn
from meshgen.frontend.tracer.elementwise import abs_, exp, sigmoid, sqrt, square
from meshgen.frontend.tracer.indexing import take
from meshgen.frontend.tracer.joining import concatenate
from meshgen.frontend.tracer.linear import matmul
from meshgen.frontend.tracer.logic import isnan, where
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.reduce import any_, max_, sum_
from meshgen.frontend.tracer.searching import argmax
from meshgen.frontend.tracer.shapes import expand_dims
from meshgen.frontend.tracer.tensor import Tensor

ML = "ai.onnx.ml"
_ZERO = 1e-7  # SOFTMAX_ZERO leaves scores up to this magnitude at 0. Chosen.


def _softmax_zero(scores: Tensor) -> Tensor:
    largest = max_(scores, -1, True)
    exponentials = where(abs_(scores) > _ZERO, exp(scores - largest), scores * exp(-largest))
    return exponentials / sum_(exponentials, -1, True)


_TRANSFORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "NONE": lambda scores: scores,
    "LOGISTIC": sigmoid,
    "SOFTMAX": nn.softmax,
    "SOFTMAX_ZERO": _softmax_zero,
}


def _transform(call: Call) -> str:
    name = call["post_transform"] or "NONE"
    if name not in _TRANSFORMS:
        refuse(f"post_transform '{name}' is not supported", f"supported are {', '.join(_TRANSFORMS)}")
    return name


def _scores(call: Call, x: Tensor, count: int) -> Tensor:
    """Return x @ coefficients.T + intercepts, [n, count], for x [n, features] and coefficients [count, features]."""
    x = x.astype("f32")
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    weights, features = np.asarray(call["coefficients"], np.float32), rows.shape[-1]
    if weights.size != count * features:
        refuse(f"{weights.size} coefficients do not fit {count} x {features}")
    scores = matmul(rows, weights.reshape(count, features).T)
    return scores + np.asarray(call["intercepts"], np.float32) if call["intercepts"] else scores


@op("LinearRegressor", domain=ML)
def linear_regressor(call: Call, x: Tensor) -> Tensor:
    count, name = call["targets"], _transform(call)
    if count == 1 and name != "NONE":
        refuse(f"post_transform '{name}' of one target is not supported", "leave it out")
    return _TRANSFORMS[name](_scores(call, x, count))


@op("LinearClassifier", domain=ML)
def linear_classifier(call: Call, x: Tensor) -> Any:
    """Return the class with the largest score for each row of `x`, and all scores.

    For two classes, the coefficients may have a single row: its score is the score of the second class.
    """
    if call["classlabels_strings"]:
        refuse("classes that are strings are not supported", "train with whole numbers as classes")
    labels, name = np.asarray(call["classlabels_ints"] or [], np.int64), _transform(call)
    count = len(call["intercepts"] or labels)
    if not (labels.size == count > 0 or (labels.size == 2 and count == 1)):
        refuse(f"{labels.size} classes do not fit {count} intercepts")
    scores = _scores(call, x, count)
    if labels.size > count:
        class_index = (scores[:, 0] > 0).astype("i64")
        opposite = -scores if name == "LOGISTIC" else 1 - scores
        both_scores = concatenate([opposite, scores], 1)
        return take(labels, class_index, 0), sigmoid(both_scores) if name == "LOGISTIC" else both_scores
    return take(labels, argmax(scores, -1), 0), _TRANSFORMS[name](scores)


@op("Scaler", domain=ML)
def scaler(call: Call, x: Tensor) -> Tensor:
    """Return (x - offset) * scale, with single numbers, or one number per feature, as offset and scale."""
    x = x.astype("f32")
    offset, scale = (np.asarray(call[name] or [neutral], np.float32) for name, neutral in (("offset", 0), ("scale", 1)))
    if any(vector.size not in (1, x.shape[-1]) for vector in (offset, scale)):
        refuse(f"{offset.size} offsets and {scale.size} scales do not fit {x.shape[-1]} features")
    return (x - offset) * scale


@op("Normalizer", domain=ML)
def normalizer(call: Call, x: Tensor) -> Tensor:
    """Divide each row by a norm of the row: the maximum, L1 or L2. Rows with norm 0 do not change."""
    x = x.astype("f32")
    norms: dict[str, Callable[[Tensor], Tensor]] = {
        "MAX": lambda x: max_(x, -1, True),
        "L1": lambda x: sum_(abs_(x), -1, True),
        "L2": lambda x: sqrt(sum_(square(x), -1, True)),
    }
    norm = norms[call["norm"]](x)
    return x / where(norm == 0, 1, norm)


@op("Imputer", domain=ML)
def imputer(call: Call, x: Tensor) -> Tensor:
    """Replace missing elements by a constant, or by one constant per feature.

    Missing is NaN or a number that marks them.
    """
    kinds = "floats" if call["imputed_value_floats"] else "int64s"
    missing = call["replaced_value_float" if kinds == "floats" else "replaced_value_int64"]
    values = np.asarray(call[f"imputed_value_{kinds}"] or [], x.dtype)
    if values.size not in (1, x.shape[-1]):
        refuse(f"{values.size} values do not fit {x.shape[-1]} features")
    is_missing = isnan(x) if kinds == "floats" and missing != missing else x == missing
    return where(is_missing, values, x)


@op("FeatureVectorizer", domain=ML)
def feature_vectorizer(call: Call, *operands: Tensor) -> Tensor:
    """Concatenate the operands, which hold features, as columns."""
    rows = [operand.reshape(-1, 1) if operand.ndim == 1 else operand for operand in operands]
    return concatenate([row.astype("f32") for row in rows], 1)


@op("OneHotEncoder", domain=ML)
def one_hot_encoder(call: Call, x: Tensor) -> Tensor:
    """Return 1 where an element equals a category, else 0, with the categories as new last dim.

    An element that equals no category gives all zeros.
    """
    if call["cats_strings"] or not call["cats_int64s"]:
        refuse("categories that are strings are not supported", "encode them as whole numbers")
    return (expand_dims(x, x.ndim) == np.asarray(call["cats_int64s"], np.int64).astype(x.dtype)).astype("f32")


@op("LabelEncoder", domain=ML)
def label_encoder(call: Call, x: Tensor) -> Tensor:
    """Map each element to a value by a table of keys and values. Elements without a key become the default."""
    kinds = {"int64s": np.int64, "floats": np.float32}
    keys, values = (
        [np.asarray(call[f"{list_name}_{kind}"], kinds[kind]) for kind in kinds if call[f"{list_name}_{kind}"]]
        for list_name in ("keys", "values")
    )
    if not keys or not values or keys[0].size != values[0].size:
        refuse("only keys and values that are lists of numbers of one length are supported", code="MG0103")
    default = call["default_int64" if values[0].dtype == np.int64 else "default_float"]
    is_key = expand_dims(x, x.ndim) == keys[0].astype(x.dtype)
    if call["keys_floats"] and np.isnan(keys[0]).any():
        is_key = is_key | (expand_dims(isnan(x), x.ndim) & np.isnan(keys[0]))
    encoded = take(values[0], argmax(is_key.astype("i32"), dim_of(-1, x.ndim + 1)), 0)
    return where(any_(is_key, -1), encoded, np.asarray(default, values[0].dtype))
