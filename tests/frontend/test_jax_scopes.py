"""Source locations and name stacks of JAX ops. Every form of a program must have them, because explanations use them as
names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.api import read
from meshgen.ir.regions import all_nodes

jax = pytest.importorskip("jax")
from jax import export  # noqa: E402

W = np.ones((8, 8), np.float32)


def model(params: Any, x: Any) -> Any:
    for index, w in enumerate(params["h"]):
        with jax.named_scope(f"layer_{index}"), jax.named_scope("mlp"):
            x = jax.numpy.tanh(x @ w)
    return x.sum()


ARGS = ({"h": [W, W, W]}, W)
jitted = jax.jit(jax.grad(model))
FORMS = {
    "jit": lambda: (jitted, ARGS),
    "lowered": lambda: (jitted.lower(*ARGS), None),
    "traced": lambda: (jitted.trace(*ARGS), None),
    "exported": lambda: (export.export(jitted)(*ARGS), None),
    "text": lambda: (jitted.lower(*ARGS).as_text(debug_info=True), None),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_jax_op_has_location_and_scope(form: str) -> None:
    program, args = FORMS[form]()
    module, _ = read(program, {"d": 2}, args=args)
    assert [value.name for value in module.graph.inputs][:2] == ["params.h.0", "params.h.1"]
    dots = [node.loc for node in all_nodes(module.graph) if node.op == "dot_general"]
    line = model.__code__.co_firstlineno + 3
    assert {(loc.file, loc.line) for loc in dots if loc} == {(__file__, line)} and None not in dots
    scopes = [f"layer_{n}/mlp" for n in range(3)]
    assert {*scopes, "transpose(layer_2)/mlp"} <= {loc.scope for loc in dots if loc}
    ops_without_line = {node.op for node in all_nodes(module.graph) if node.loc is None or node.loc.line == 0}
    assert ops_without_line <= {"constant", "annotate"}


def test_explain_selects_and_names_ops_by_scope() -> None:
    specs = {"params['h'][*]": mg.P("d")}
    executable = mg.compile(jitted, {"d": 2}, args=ARGS, in_specs=specs, target="cpu")
    assert "layer_*/mlp: " in executable.explain()
    explanation = executable.explain("layer_1")
    heads = [line for line in explanation.split("\n\n")[0].splitlines() if not line.startswith(" ")]
    assert heads and all("in layer_1/mlp" in line or "(layer_1)/mlp" in line for line in heads)
    with pytest.raises(mg.MeshgenError, match="MG0001"):
        executable.explain("layer_7")
