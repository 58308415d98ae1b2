"""Annotations inside a program: what is required is there when the program runs, or what became of it is told by name."""

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
from meshgen.reports.annotations import unmade_values
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
def of_seed(seed: int) -> Executable:
    return planned(random_program(seed))


def noted(executable: Executable) -> list[tuple[int, Node]]:
    """Annotations of the program itself, not of its loops, by number."""
    graph = executable.stages["propagate"].graph
    return [(number, node) for number, node in enumerate(annotations_of(graph)) if node in graph.nodes]


def made(executable: Executable) -> dict[int, Value]:
    return {number: value for value in executable.stages["partition"].graph.values() for number in value.granted}


def with_outputs(module: Module, values: list[Value], nodes: list[Node]) -> Module:
    """The partitioned program that gives local values instead, which lie as annotations were granted."""
    graph = Graph(module.graph.name, module.graph.inputs, module.graph.nodes, values)
    lies = [node.sharding.results[0] for node in nodes if node.sharding]
    return replace(module, graph=graph, out_types=[node.result.type for node in nodes], out_shardings=lies)


def expected(executable: Executable, nodes: list[Node], args: list[Array]) -> tuple[list[Array], list[Array]]:
    graph = executable.stages["propagate"].graph
    whole = Graph(graph.name, graph.inputs, graph.nodes, [node.result for node in nodes])
    return meaning(whole, args, executable.mesh)


def test_annotated_values_lie_as_they_are_said_to() -> None:
    """Each annotation either is named as not made, or a value of the partitioned program is that value, laid out so."""
    assert sum(map(lie_as_said, trials(20))) > 10


def lie_as_said(seed: int) -> int:
    """The number of annotated values that are there."""
    executable = of_seed(seed)
    there, missing = made(executable), unmade_values(executable, executable.stages["propagate"].graph)
    pairs = [(there[number], node) for number, node in noted(executable) if number in there]
    for number, node in noted(executable):
        assert number in there or node.result in missing or not node.attrs.required, f"seed {seed}"
    args = random_arguments(executable.stages["import"], seed)
    values, nodes = [value for value, _ in pairs], [node for _, node in pairs]
    wanted, bounds = expected(executable, nodes, args)
    found = simulate(with_outputs(executable.stages["partition"], values, nodes), args, tolerance=bounds)
    for node, *each in zip(nodes, wanted, found, bounds, strict=True):
        assert compare(node.result.type, *each).ok, f"seed {seed}"
    return len(pairs)


def test_what_is_told_not_to_be_made_is_not_there() -> None:
    assert sum(map(are_not_there, trials(20))) > 5


def are_not_there(seed: int) -> int:
    """The number of values that are not made."""
    executable = of_seed(seed)
    missing = unmade_values(executable, executable.stages["propagate"].graph)
    lost = [node for _, node in noted(executable) if "no device needs" in missing.get(node.result, "")]
    local, args = executable.stages["partition"], random_arguments(executable.stages["import"], seed)
    for node, whole in zip(lost, expected(executable, lost, args)[0], strict=True):
        assert node.sharding is not None
        tiles = shard_all(whole, node.sharding.results[0], executable.mesh)
        if node.sharding.results[0].partial and all(np.array_equal(tiles[0], tile) for tile in tiles):
            continue  # the neutral number on all devices, as any value that is this number there
        alike = [
            value
            for value in local.graph.values()
            if value.type.shape == tiles[0].shape and value.type.dtype == node.result.type.dtype
        ]
        given = simulate_shards(with_outputs(local, alike, [node] * len(alike)), args)
        for value, shards in zip(alike, given, strict=True):
            same = all(np.array_equal(s, t, equal_nan=True) for s, t in zip(shards, tiles, strict=True))
            assert not same, (seed, node.loc, node.sharding.results[0], value)
    return len(lost)


def between(strength: str) -> str:
    """A value that is asked to be whole between two that are split."""
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


def test_what_is_required_for_users_is_read_so() -> None:
    executable = api.plan(between("annotate_for_users"), target="cpu")
    (exponential,) = [node for node in executable.stages["partition"].graph.nodes if node.op == "exponential"]
    assert exponential.operands[0].type.sizes == (8, 8)
    assert executable.comms.count("all_gather") == 1
    assert "Required annotations" not in executable.explain(verbose=True)


@pytest.mark.parametrize(
    ("strength", "title"),
    [("", "Required annotations that no value follows"), ("{required = false}", "Hints that lost")],
)
def test_a_round_trip_that_is_left_out_is_told_by_name(strength: str, title: str, tmp_path: Path) -> None:
    """What reads the value takes its own rows: the bytes are saved, and the annotation is named where people look."""
    executable = api.plan(between(strength), target="cpu")
    assert not executable.comms
    text = executable.explain(verbose=True)
    assert title in text and "[{}, {}] of %b (" in text.split(title)[1]
    assert "no device needs the value with this sharding" in executable.explain("b")
    executable.report(tmp_path / "report.html")
    assert "no device needs the value with this sharding" in (tmp_path / "report.html").read_text()


def test_uses_that_contradict_a_requirement_are_named() -> None:
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
