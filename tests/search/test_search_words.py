"""Tests of search results described in sentences."""

from __future__ import annotations

import pytest

from meshgen.ir.graph import TensorType, Value
from meshgen.notation import parse_sharding
from meshgen.search.descriptions import pattern_of, sentences


@pytest.mark.parametrize(
    "name, pattern",
    [("layers.12.w1", "layers.*.w1"), ("layers[3]['wq']", "layers[*]['wq']"), ("arg17", "arg*"), ("w2", "w2")],
)
def test_layer_numbers_in_names_are_replaced_by_stars(name: str, pattern: str) -> None:
    assert pattern_of(name) == pattern


def test_similar_arguments_share_a_sentence() -> None:
    specs = {"layers.0.w": "_,tp", "layers.1.w": "_,tp", "x": "dp,_,tp+sp", "layers.0.b": "_", "layers.1.b": "tp"}
    shapes = {"w": (8, 4), "x": (2, 3, 4), "b": (4,)}
    inputs = [Value(TensorType(shapes[name[-1]], "f32"), name) for name in specs]
    assert sentences(inputs, {name: parse_sharding(spec) for name, spec in specs.items()}) == [
        "2 arguments like layers.*.w, f32[8,4]: by columns over tp",
        "x, f32[2,3,4]: dim 0 over dp, dim 2 over tp and sp",
        "layers.0.b, f32[4]: replicated",
        "layers.1.b, f32[4]: dim 0 over tp",
    ]
