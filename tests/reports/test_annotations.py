"""Annotations inside a program: a value has each required sharding at run time, or the report names the annotation."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from meshgen import api
from meshgen.compiled.executable import Executable
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.pipeline import Options, Timing
from meshgen.reports.annotations import unfollowed_values
from meshgen.runtime.shards import shard_all
from meshgen.runtime.simulate import simulate, simulate_shards
from meshgen.sharding.materialize import annotations_of
from meshgen.testing.oracle import compare, meaning
from meshgen.testing.random_graphs import random_arguments, random_program
from tests.trials import trials

Array = np.ndarray


def planned(module: Module) -> Executable:
    return api.plan_module(module, Options("cpu"), Timing())


@cache
def planned_random_program(seed: int) -> Executable:
    return planned(random_program(seed))


def indexed_annotations(executable: Executable) -> list[tuple[int, Node]]:
    """Return the annotations at the top level of the program with their indices. Annotations inside loops are left out."""
    graph = executable.stages["propagate"].graph
    return [
        (annotation_index, node) for annotation_index, node in enumerate(annotations_of(graph)) if node in graph.nodes
    ]


def computed_annotated_values(executable: Executable) -> dict[int, Value]:
    return {
        annotation_index: value
        for value in executable.stages["partition"].graph.values()
        for annotation_index in value.granted
    }


def with_outputs(module: Module, values: list[Value], nodes: list[Node]) -> Module:
    """Return the partitioned program with the local `values` as results. The annotations in `nodes` give their
    shardings.
    """
    graph = Graph(module.graph.name, module.graph.inputs, module.graph.nodes, values)
    shardings = [node.sharding.results[0] for node in nodes if node.sharding]
    return replace(module, graph=graph, out_types=[node.result.type for node in nodes], out_shardings=shardings)


def expected(executable: Executable, nodes: list[Node], args: list[Array]) -> tuple[list[Array], list[Array]]:
    graph = executable.stages["propagate"].graph
    annotated_graph = Graph(graph.name, graph.inputs, graph.nodes, [node.result for node in nodes])
    return meaning(annotated_graph, args, executable.mesh)


def test_annotated_values_have_annotated_sharding_and_contents() -> None:
    assert sum(map(check_annotated_values, trials(20))) > 10


def check_annotated_values(seed: int) -> int:
    """Check the sharding and contents of annotated values that the partitioned program computes, and return their
    number.
    """
    executable = planned_random_program(seed)
    computed_values, missing = (
        computed_annotated_values(executable),
        unfollowed_values(executable, executable.stages["propagate"].graph),
    )
    pairs = [
        (computed_values[annotation_index], node)
        for annotation_index, node in indexed_annotations(executable)
        if annotation_index in computed_values
    ]
    for annotation_index, node in indexed_annotations(executable):
        assert annotation_index in computed_values or node.result in missing or not node.attrs.required, f"seed {seed}"
    args = random_arguments(executable.stages["import"], seed)
    values, nodes = [value for value, _ in pairs], [node for _, node in pairs]
    expected_values, bounds = expected(executable, nodes, args)
    results = simulate(with_outputs(executable.stages["partition"], values, nodes), args, tolerance=bounds)
    for node, *arrays in zip(nodes, expected_values, results, bounds, strict=True):
        assert compare(node.result.type, *arrays).ok, f"seed {seed}"
    return len(pairs)


def test_values_reported_as_not_computed_are_absent() -> None:
    assert sum(map(check_missing_values, trials(20))) > 5


def check_missing_values(seed: int) -> int:
    """Check that values reported as not computed are absent from the program, and return their number."""
    executable = planned_random_program(seed)
    missing = unfollowed_values(executable, executable.stages["propagate"].graph)
    lost = [node for _, node in indexed_annotations(executable) if "no device needs" in missing.get(node.result, "")]
    local, args = executable.stages["partition"], random_arguments(executable.stages["import"], seed)
    for node, global_value in zip(lost, expected(executable, lost, args)[0], strict=True):
        assert node.sharding is not None
        tiles = shard_all(global_value, node.sharding.results[0], executable.mesh)
        if node.sharding.results[0].partial and all(np.array_equal(tiles[0], tile) for tile in tiles):
            # The tiles hold only the neutral element of the partial kind, which an unrelated value may equal by chance.
            continue
        same_type_values = [
            value
            for value in local.graph.values()
            if value.type.shape == tiles[0].shape and value.type.dtype == node.result.type.dtype
        ]
        results = simulate_shards(with_outputs(local, same_type_values, [node] * len(same_type_values)), args)
        for value, shards in zip(same_type_values, results, strict=True):
            same = all(np.array_equal(s, t, equal_nan=True) for s, t in zip(shards, tiles, strict=True))
            assert not same, (seed, node.loc, node.sharding.results[0], value)
    return len(lost)


def replicated_between_sharded(strength: str) -> str:
    """Return a program that annotates a value as replicated between two sharded values."""
    return f"""shard.grid @mesh(shape = 4) {{axis_names = ["x"]}}
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {{
  %rows = shard.sharding @mesh split_axes = [[0]] : !shard.sharding
  %whole = shard.sharding @mesh split_axes = [[]] : !shard.sharding
  %a = shard.shard %x to %rows : tensor<8x8xf32>
  %t = stablehlo.tanh %a : tensor<8x8xf32>
  %b = shard.shard %t to %whole {strength} : tensor<8x8xf32>
  %e = stablehlo.exponential %b : tensor<8x8xf32>
  %r = shard.shard %e to %rows : tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}}"""


def test_users_read_sharding_required_by_for_users_annotation() -> None:
    executable = api.plan(replicated_between_sharded("annotate_for_users"), target="cpu")
    (exponential,) = [node for node in executable.stages["partition"].graph.nodes if node.op == "exponential"]
    assert exponential.operands[0].type.sizes == (8, 8)
    assert executable.comms.count("all_gather") == 1
    assert "Required annotations" not in executable.explain(verbose=True)


@pytest.mark.parametrize(
    ("strength", "title"),
    [("", "Required annotations that no value follows"), ("{required = false}", "Hints that lost")],
)
def test_skipped_round_trip_annotation_is_reported(strength: str, title: str, tmp_path: Path) -> None:
    """The user reads its local rows without a gather and a slice; the report and `explain` name the skipped annotation."""
    executable = api.plan(replicated_between_sharded(strength), target="cpu")
    assert not executable.comms
    text = executable.explain(verbose=True)
    assert title in text and "[{}, {}] of %b (" in text.split(title)[1]
    assert "no device needs the value with this sharding" in executable.explain("b")
    executable.report(tmp_path / "report.html")
    assert "no device needs the value with this sharding" in (tmp_path / "report.html").read_text()


def test_user_with_contradicting_requirements_is_reported() -> None:
    text = """shard.grid @mesh(shape = 4) {axis_names = ["x"]}
func.func @main(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %rows = shard.sharding @mesh split_axes = [[0]] : !shard.sharding
  %columns = shard.sharding @mesh split_axes = [[], [0]] : !shard.sharding
  %a = shard.shard %x to %rows annotate_for_users : tensor<8x8xf32>
  %b = shard.shard %y to %columns annotate_for_users : tensor<8x8xf32>
  %r = stablehlo.add %a, %b : tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}"""
    (line,) = (
        api.plan(text, target="cpu")
        .explain(verbose=True)
        .split("Required annotations that no value follows\n")[1]
        .splitlines()
    )
    assert line.startswith("add (") and "which is required for it: along x it splits dim" in line
