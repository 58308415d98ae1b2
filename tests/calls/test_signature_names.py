"""Names of tensors in files, and the inputs that they are for."""

from __future__ import annotations

import pytest

from meshgen.calls.signature import input_named

INPUTS = ["params.h.0.w", "params.h.1.w", "optimizer.h.1.w", "optimizer.step", "arg0.scale", "x"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("params.h.0.w", "params.h.0.w"),
        ("params/h/0/w", "params.h.0.w"),
        ("params['h'][0]['w']", "params.h.0.w"),
        ("h.0.w", "params.h.0.w"),  # one parameter has it
        ("h.1.w", None),  # two have it
        ("step", "optimizer.step"),
        ("scale", None),  # `arg0` is no name that a user gave
        ("w", None),
        ("x", "x"),
    ],
)
def test_tensor_is_for_the_only_input_of_its_name(name: str, found: str | None) -> None:
    assert input_named(name, INPUTS) == found
