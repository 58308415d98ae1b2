"""On which mesh values and operations of a program on several are."""

from __future__ import annotations

from typing import Any

import meshgen as mg
from meshgen.sharding.place import place
from tests.sharding.meshes_programs import (
    assert_right,
    ops,
    traced,
)


def test_ops_run_where_their_operands_are_and_weights_where_they_are_used() -> None:
    module = traced()
    found = place(module)
    homes = {value.name: found.home[value] for value in module.graph.inputs}
    assert homes == {"x": "a", "w0": "a", "w1": "b"}
    dots = [found.nodes[node] for node in module.graph.nodes if node.op == "dot_general"]
    assert dots == ["a", "b"]


def test_fewest_bytes_cross() -> None:
    def program(big: Any, small: Any) -> Any:
        return mg.annotate(big, mg.P(mesh="a")) @ mg.annotate(small, mg.P(mesh="b"))

    module = traced(program, types=["f32[40,7]", "f32[7]"], in_specs=None)
    found = place(module)
    dot = next(node for node in module.graph.nodes if node.op == "dot_general")
    assert found.nodes[dot] == "a" and "28 bytes cross, 1120 to run it on @b" in found.why[dot]


def test_constants_are_made_on_every_mesh_that_uses_them() -> None:
    def program(x: Any) -> Any:
        one = mg.ones((10,), "f32")
        h = mg.annotate(x, mg.P("dp", mesh="a")) + one
        return mg.annotate(h, mg.P("x", mesh="b")) * one

    found = assert_right(traced(program, types=["f32[10]"], in_specs=None))
    assert all("constant" in ops(found["propagate"], part) for part in (0, 1))


def test_a_split_is_carried_to_axes_of_the_same_name_and_size() -> None:
    meshes = {"a": {"dp": 2}, "b": {"dp": 2, "tp": 2}}

    def program(x: Any, w: Any) -> Any:
        return mg.annotate(mg.tanh(x), mg.P(mesh="b"), required=False) @ w

    specs = {"x": mg.P("dp", mesh="a"), "w": mg.P(None, "tp", mesh="b")}
    module = traced(program, meshes, ["f32[8,4]", "f32[4,64]"], in_specs=specs)
    found = assert_right(module)
    received = next(n for n in found["propagate"].parts[1].graph.nodes if n.op == "transfer_recv")
    assert received.sharding is not None and received.sharding.results[0].dims == (("dp",), ())
    assert "sharding" not in received.attrs  # the hint is not left behind
