"""Tests that the text of every stage parses to the same module."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meshgen.codegen.fuse import fuse
from meshgen.errors import ProgramError
from meshgen.ir.encode import graph_to_json
from meshgen.ir.graph import Annotation, Graph, Module, TensorType
from meshgen.ir.notes import NO_NOTES, Notes, Place, Slot
from meshgen.ir.regions import all_nodes, captured
from meshgen.mesh import Axis, Mesh, make_mesh
from meshgen.mlir.text import parse_text, print_text
from meshgen.sharding.materialize import materialize
from meshgen.sharding.optimize import optimize
from meshgen.sharding.partition import partition
from meshgen.sharding.propagate import propagate
from meshgen.spec import P, Sharding
from meshgen.testing.generators import WIDE
from meshgen.testing.oracle import check
from meshgen.testing.random_graphs import random_program

DATA = Path(__file__).parent.parent / "data"
UNEVEN = """shard.grid @mesh(shape = 2x3) {axis_names = ["dp", "tp"]}
func.func @main(%x: tensor<5x8xf32> {meshgen.sharding = #meshgen.split<@mesh, [["dp", "tp"]]>},
                %w: tensor<8x7xf32> {meshgen.sharding = #meshgen.annotation<@mesh, [[], ["tp"]] hint open = [true, false]>}) -> tensor<f32> {
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<5x8xf32>, tensor<8x7xf32>) -> tensor<5x7xf32>
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%h init: %0) applies stablehlo.add across dimensions = [0, 1] : (tensor<5x7xf32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}"""
PROGRAMS = {"uneven": UNEVEN} | {
    path.stem: path.read_text() for path in sorted(DATA.glob("rfc_*.mlir")) if "mater" not in path.stem
}
STAGES: list[Callable[[Module], Module]] = [propagate, materialize, optimize, partition, fuse]


def plain(value: Any) -> Any:
    """Return the JSON of a graph without locations, which printing changes, and without names that are invalid in MLIR."""
    if isinstance(value, dict):
        fields = {
            key: item for key, item in value.items() if key != "loc" and not (key == "name" and item[:1].isdecimal())
        }
        return {key: plain(item) for key, item in fields.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def annotation_fields(table: list[Annotation | None]) -> list[Any]:
    return [annotation and (annotation.sharding, annotation.required, annotation.open_dims) for annotation in table]


def options_and_notes(graph: Graph) -> list[tuple[object, Notes]]:
    """Return the sharding options and the notes of all nodes."""
    return [(node.option, node.notes) for node in all_nodes(graph)]


def assert_equal(parsed: Module, expected: Module) -> None:
    assert (parsed.stage, parsed.mesh, parsed.arguments) == (expected.stage, expected.mesh, expected.arguments)
    assert plain(graph_to_json(parsed.graph)) == plain(graph_to_json(expected.graph))
    assert options_and_notes(parsed.graph) == options_and_notes(expected.graph)
    assert annotation_fields(parsed.in_annotations) == annotation_fields(expected.in_annotations)
    assert annotation_fields(parsed.out_annotations) == annotation_fields(expected.out_annotations)
    assert (parsed.in_shardings, parsed.out_shardings) == (expected.in_shardings, expected.out_shardings)
    assert (parsed.in_types, parsed.out_types) == (expected.in_types, expected.out_types)
    assert list(parsed.kernels) == list(expected.kernels)
    for name, kernel in expected.kernels.items():
        assert plain(graph_to_json(parsed.kernels[name])) == plain(graph_to_json(kernel))


@pytest.mark.parametrize("name", PROGRAMS)
def test_text_of_every_stage_round_trips(name: str) -> None:
    module = parse_text(PROGRAMS[name])
    assert_equal(parse_text(print_text(module)), module)
    for stage in STAGES:
        module = stage(module)
        assert_equal(parse_text(print_text(module)), module)


@pytest.mark.parametrize("name", PROGRAMS)
def test_compilation_can_resume_from_text_of_every_stage(name: str) -> None:
    """The remaining stages give the same result for the parsed text of a stage as for the module itself."""
    module = parsed = parse_text(PROGRAMS[name])
    for stage in STAGES:
        module, parsed = stage(module), stage(parse_text(print_text(parsed)))
        assert print_text(parsed).count("shard.all_") == print_text(module).count("shard.all_")
        assert [node.op for node in parsed.graph.nodes] == [node.op for node in module.graph.nodes]


@pytest.mark.parametrize("stage, name", [("propagate", "layout"), ("partition", "layout"), ("partition", "global")])
def test_incomplete_signature_is_refused(stage: str, name: str) -> None:
    module = parse_text(UNEVEN)
    for step in STAGES:
        module = step(module)
        if module.stage == stage:
            break
    text = print_text(module)
    with pytest.raises(
        ProgramError, match=f"MG0104: 1 of 2 arguments have meshgen.{name} at stage '{stage}'"
    ) as caught:
        parse_text(text.replace(f"meshgen.{name} =", f"my.{name} =", 1), "m.mlir")
    assert str(caught.value.diagnostics[0].loc).startswith("m.mlir:")


@pytest.mark.parametrize(
    "old, new, message",
    [
        (
            "meshgen.global = tensor<5x8xf32>",
            "meshgen.global = tensor<5x9xf32>",
            r"MG0104: f32\[5,9\] with sharding .* has tiles f32\[1,9\]",
        ),
        ("meshgen.global = tensor<5x8xf32>", "meshgen.global = tensor<5x8x1xf32>", "MG0204: the sharding has 2 dims"),
    ],
)
def test_inconsistent_signature_is_refused(old: str, new: str, message: str) -> None:
    text = print_text(partition(materialize(propagate(parse_text(UNEVEN)))))
    assert old in text
    with pytest.raises(ProgramError, match=message):
        parse_text(text.replace(old, new, 1), "m.mlir")


def test_module_with_global_arguments_round_trips() -> None:
    module = partition(materialize(propagate(parse_text(UNEVEN))), arguments="global")
    assert_equal(parse_text(print_text(module)), module)


def hand_made(mesh: Mesh, stage: str) -> Module:
    graph = Graph("main")
    return Module(mesh, graph, stage=stage)


def test_mesh_with_link_speeds_and_unknown_size_round_trips() -> None:
    mesh = Mesh((Axis("x", 8, 1.25e10, 1e-05), Axis("y y", None)), "m")
    module = parse_text(print_text(hand_made(mesh, "import")))
    assert module.mesh == mesh


def test_reshard_nodes_keep_attributes_and_notes() -> None:
    module = hand_made(make_mesh({"x": 4}), "partition")
    x = TensorType((2, 8), "f32")
    graph = module.graph
    value = graph.add("constant", [], [x], {"value": np.zeros((2, 8), "f4")}).result
    rows, columns = P(("x:(1)2", "x:(2)2"), None), P(None, "x")
    attrs, notes = {"source": rows, "target": columns, "shape": (7, 8)}, Notes('use "a"', (3, 5))
    moved = graph.add("retile", [value], [TensorType((7, 2), "f32")], attrs, notes=notes).result
    halo = {"sharding": Sharding(((), ("x",)), (), ((0, 0), (1, 0))), "shape": (7, 4)}
    graph.outputs = [graph.add("update_halo", [moved], [moved.type], halo).result]
    module.out_types, module.out_shardings = [TensorType((7, 8), "f32")], [columns]
    parsed = parse_text(print_text(module))
    assert [node.attrs for node in parsed.graph.nodes[1:]] == [attrs, halo]
    assert [node.notes for node in parsed.graph.nodes[1:]] == [notes, NO_NOTES]


def test_schedule_of_launches_round_trips() -> None:
    module = partition(materialize(propagate(parse_text(UNEVEN))))
    module.stage = "schedule"
    for number, node in enumerate(module.graph.nodes):
        slot = Slot(number % 2, (number,), number or None, 1e-05 * number, 0.1, (0.0, 1e-6) if number else None)
        buffers = (Place(number, f'b"{number}', "temporary", number, 256 * number),)
        node.notes = replace(node.notes, slot=slot, places=buffers)
    parsed = parse_text(print_text(module))
    for parsed_node, expected in zip(parsed.graph.nodes, module.graph.nodes, strict=True):
        assert parsed_node.notes == expected.notes


@pytest.mark.parametrize(
    ("seed", "same"), [(24, True), (19, True), (87, False), (28, False)], ids=["while", "two captures", "if", "case"]
)
def test_regions_with_captures_round_trip_through_text(seed: int, same: bool) -> None:
    """In a module built without text, regions capture values. In parsed text, the captures of a branch are operands."""
    module = propagate(random_program(seed, WIDE))
    assert any(captured(node) for node in all_nodes(module.graph) if node.op in ("while", "if", "case"))
    parsed = parse_text(print_text(module))
    assert (print_text(parsed) == print_text(module)) == same
    assert check(parsed, pipeline=lambda propagated: partition(materialize(propagated)), seed=seed).ok
