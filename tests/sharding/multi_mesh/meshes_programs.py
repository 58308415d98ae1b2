"""Programs on two meshes, and assertions that every such program must pass."""

from __future__ import annotations

from typing import Any

import meshgen as mg
from meshgen.api import read
from meshgen.ir.graph import Module
from meshgen.mlir.text import parse_text, print_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.testing.oracle import check

CPU = Options("cpu")
MESHES = {"a": {"dp": 2, "tp": 2}, "b": {"x": 3}}
TYPES = ["f32[10,7]", "f32[7,6]", "f32[6,5]"]
GRIDS = 'shard.grid @a(shape = 2x2) {axis_names = ["dp", "tp"]}\nshard.grid @b(shape = 3) {axis_names = ["x"]}\n'


def stages_of(module: Module, last: str = "fuse") -> dict[str, Module]:
    return run_stages(module, CPU, Timing(), last)


def assert_correct_at_all_stages(module: Module) -> dict[str, Module]:
    """Check the results against the oracle at stages partition and fuse."""
    stages = stages_of(module)
    for stage in ("partition", "fuse"):
        result = check(module, pipeline=lambda _, stage=stage: stages[stage])
        assert result.ok, result.faults
    return stages


def assert_text_round_trips(module: Module) -> None:
    """Check that the text of every stage parses back unchanged and compiles to correct results."""
    for stage, staged in stages_of(module, "schedule").items():
        text = print_text(staged)
        reparsed = parse_text(text)
        assert print_text(reparsed) == text, stage
        if stage not in ("fuse", "schedule"):
            last = stages_of(reparsed)["fuse"]
            assert check(reparsed, pipeline=lambda _, last=last: last).ok, stage


def on_main(
    body: str, arguments: str = "%x: tensor<10x7xf32>", result: str = "tensor<10x7xf32>", grids: str = GRIDS
) -> Module:
    return parse_text(f"{grids}func.func @main({arguments}) -> {result} {{\n{body}\n}}\n")


def annotate_on_grid(name: str, value: str, grid: str, axes: str = "[[0], []]", kind: str = "tensor<10x7xf32>") -> str:
    """Return lines that annotate a value on a grid."""
    return (
        f"  %s_{name} = shard.sharding @{grid} split_axes = {axes} : !shard.sharding\n"
        f"  %{name} = shard.shard %{value} to %s_{name} : {kind}\n"
    )


def ops(module: Module, part: int) -> list[str]:
    return [node.op for node in module.parts[part].graph.nodes]


def two_stages(x: Any, w0: Any, w1: Any) -> Any:
    h = mg.tanh(x @ w0)
    return mg.annotate(h, mg.P("x", mesh="b")) @ w1


def traced(function: Any = two_stages, meshes: Any = MESHES, types: Any = TYPES, **specs: Any) -> Module:
    return read(function, meshes, args=types, in_specs=specs.get("in_specs", {"x": mg.P("dp", mesh="a")}))[0]


SOURCES = [mg.P(), mg.P("dp"), mg.P(None, "tp"), mg.P("tp", "dp"), mg.P(("dp", "tp")), mg.P(None, ("tp", "dp"))]
TARGETS = [mg.P(), mg.P("x"), mg.P(None, "x")]
