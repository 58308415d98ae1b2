"""Custom operations: their sharding rules are checked, and a sharding option annotates their operands and results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ProgramError


@mg.op_rule("b d, d f -> b f")
def gated(x: Any, w: Any) -> Any:
    h = x @ w
    return h * mg.sigmoid(h)


def test_custom_op_body_is_traced_inline() -> None:
    ops = [node.op for node in mg.trace(gated, ["f32[8,12]", "f32[12,16]"]).module.graph.nodes]
    assert ops == ["dot_general", "logistic", "multiply"]


def test_sharding_option_annotates_operand_uses_and_result() -> None:
    def model(x: Any, w: Any) -> Any:
        return gated(x, w, sharding_option=[["dp"], [], ["tp"]])

    mesh = mg.make_mesh({"dp": 2, "tp": 2})
    nodes = mg.trace(model, ["f32[8,12]", "f32[12,16]"], mesh).module.graph.nodes
    annotations = [(node.attrs.sharding, node.attrs.as_result) for node in nodes if node.op == "annotate"]
    assert annotations == [(mg.P("dp", "tp"), False), (mg.P("tp", None), False), (mg.P("dp", None), True)]
    exe = mg.compile(model, mesh, args=["f32[8,12]", "f32[12,16]"], target="cpu")
    x, w = np.linspace(-1, 1, 96, dtype=np.float32).reshape(8, 12), np.full((12, 16), 0.25, np.float32)
    h = x @ w
    np.testing.assert_allclose(exe(x, w), h / (1 + np.exp(-h)), rtol=0, atol=1e-5)  # sums of 12 terms below 1
    assert exe.comms.counts == {"all_reduce": 1}


@pytest.mark.parametrize(
    ("types", "option", "text"),
    [
        (["f32[8,12]", "f32[12]"], None, "gated: rule"),
        (["f32[8,12]", "f32[12,16]"], [["dp"]], "has 1 entries, but the operation has 3 loops"),
    ],
)
def test_call_that_violates_op_rule_is_rejected(types: list[str], option: Any, text: str) -> None:
    with pytest.raises(ProgramError, match=text) as caught:
        mg.trace(lambda x, w: gated(x, w, sharding_option=option), types)
    assert caught.value.diagnostics[0].loc is not None
