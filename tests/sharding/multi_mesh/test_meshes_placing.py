"""Assignment of values and ops to meshes."""

from __future__ import annotations

from typing import Any

import pytest

import meshgen as mg
from meshgen.api import read
from meshgen.ir.graph import Module
from meshgen.sharding.multi_mesh.mesh_assignment import place
from meshgen.sharding.multi_mesh.split import split_meshes
from meshgen.sharding.multi_mesh.transfer_shardings import propagate_parts
from meshgen.sharding.propagate import propagate
from tests.sharding.multi_mesh.meshes_programs import (
    assert_correct_at_all_stages,
    assert_text_round_trips,
    ops,
    stages_of,
    traced,
)


def test_ops_follow_operands_and_weights_follow_users() -> None:
    module = traced()
    assignment = place(module)
    input_meshes = {value.name: assignment.home[value] for value in module.graph.inputs}
    assert input_meshes == {"x": "a", "w0": "a", "w1": "b"}
    dots = [assignment.nodes[node] for node in module.graph.nodes if node.op == "dot_general"]
    assert dots == ["a", "b"]


def test_mesh_assignment_minimizes_transferred_bytes() -> None:
    def program(big: Any, small: Any) -> Any:
        return mg.annotate(big, mg.P(mesh="a")) @ mg.annotate(small, mg.P(mesh="b"))

    module = traced(program, types=["f32[40,7]", "f32[7]"], in_specs=None)
    assignment = place(module)
    dot = next(node for node in module.graph.nodes if node.op == "dot_general")
    assert assignment.nodes[dot] == "a" and "28 bytes cross, 1120 to run it on @b" in assignment.why[dot]


def test_constants_are_duplicated_on_every_mesh() -> None:
    def program(x: Any) -> Any:
        one = mg.ones((10,), "f32")
        h = mg.annotate(x, mg.P("dp", mesh="a")) + one
        return mg.annotate(h, mg.P("x", mesh="b")) * one

    stages = assert_correct_at_all_stages(traced(program, types=["f32[10]"], in_specs=None))
    assert all("constant" in ops(stages["propagate"], part) for part in (0, 1))


def test_sharding_propagates_to_equal_axes_of_other_mesh() -> None:
    meshes = {"a": {"dp": 2}, "b": {"dp": 2, "tp": 2}}

    def program(x: Any, w: Any) -> Any:
        return mg.annotate(mg.tanh(x), mg.P(mesh="b"), required=False) @ w

    specs = {"x": mg.P("dp", mesh="a"), "w": mg.P(None, "tp", mesh="b")}
    module = traced(program, meshes, ["f32[8,4]", "f32[4,64]"], in_specs=specs)
    stages = assert_correct_at_all_stages(module)
    received = next(n for n in stages["propagate"].parts[1].graph.nodes if n.op == "transfer_recv")
    assert received.sharding is not None and received.sharding.results[0].dims == (("dp",), ())
    assert received.notes.hint == mg.P("dp", None)
    received = next(n for n in stages["materialize"].parts[1].graph.nodes if n.op == "transfer_recv")
    assert received.notes.hint is None


def chain_of_stages(x: Any, w: Any) -> Any:
    for mesh in ("a", "b", "c"):
        x = mg.tanh(mg.annotate(x, mesh=mesh) @ w)
    return x


@pytest.mark.parametrize("order", ["abc", "cba", "bca"])
@pytest.mark.parametrize("end", ["in_specs", "out_specs"])
def test_annotation_propagates_over_all_meshes(order: str, end: str) -> None:
    meshes = {mesh: {"dp": 2} for mesh in order}
    annotation = {"x": mg.P("dp", mesh="a")} if end == "in_specs" else {"result": mg.P("dp", mesh="c")}
    module = read(chain_of_stages, meshes, args=["f32[8,4]", "f32[4,4]"], **{end: annotation})[0]
    stages = assert_correct_at_all_stages(module)
    for part in stages["propagate"].parts:
        shardings = [node.sharding for node in part.graph.nodes if node.op == "dot_general" and node.sharding]
        assert [sharding.results[0].dims for sharding in shardings] == [(("dp",), ())]
    assert_text_round_trips(module)


def test_each_mesh_is_propagated_once_without_new_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    propagated_meshes: list[str] = []

    def counted(part: Module) -> Module:
        propagated_meshes.append(part.mesh.name)
        return propagate(part)

    module = stages_of(traced(), "propagate")
    parts = split_meshes(module["import"]).parts
    propagate_parts(parts, counted)
    assert propagated_meshes == ["a", "b"]
