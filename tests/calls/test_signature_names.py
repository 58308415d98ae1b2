"""Matching of tensor names in weight files with the inputs of a program."""

from __future__ import annotations

import pytest

from meshgen.calls.signature import input_named

INPUTS = ["params.h.0.w", "params.h.1.w", "optimizer.h.1.w", "optimizer.step", "arg0.scale", "x"]


@pytest.mark.parametrize(
    ("name", "input_name"),
    [
        ("params.h.0.w", "params.h.0.w"),
        ("params/h/0/w", "params.h.0.w"),
        ("params['h'][0]['w']", "params.h.0.w"),
        ("h.0.w", "params.h.0.w"),  # only `params.h.0.w` ends with this name
        ("h.1.w", None),  # two inputs end with this name
        ("step", "optimizer.step"),
        ("scale", None),  # `arg0` is a generated name, which the user did not choose
        ("w", None),
        ("x", "x"),
    ],
)
def test_tensor_name_matches_only_unambiguous_input(name: str, input_name: str | None) -> None:
    assert input_named(name, INPUTS) == input_name
