"""Mesh axis sizes that are unknown until load, and the sizes that `check` tries for them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen.cli import main
from meshgen.cost_model.model import DEFAULT
from meshgen.errors import MeshgenError, ProgramError, ShardingError
from meshgen.ir.graph import Module
from meshgen.mesh import make_mesh
from meshgen.mlir.text import parse_text, print_text
from meshgen.sharding.materialize import materialize
from meshgen.sharding.optimize import optimize
from meshgen.sharding.partition import partition
from meshgen.sharding.propagate import propagate
from meshgen.sharding.unknown_axes import (
    MOST_TRIAL_DEVICES,
    TRIAL_SIZES,
    nominal_mesh,
    trial_meshes,
    trial_shapes,
    unknown_axes,
)
from meshgen.testing.oracle import check

UNUSED = """
shard.grid @g(shape = ?x2)
func.func @f(%x: tensor<7x12xf32>) -> tensor<7x12xf32> {
  %s = shard.sharding @g split_axes = [[1]] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<7x12xf32>
  %a = stablehlo.abs %xs : tensor<7x12xf32>
  return %a : tensor<7x12xf32>
}
"""
USED = UNUSED.replace("[[1]]", "[[1], [0]]").replace("stablehlo.abs", "stablehlo.tanh")


def lowered(module: Module) -> Module:
    return partition(optimize(materialize(propagate(module))))


def codes(error: pytest.ExceptionInfo[MeshgenError]) -> list[str]:
    return [d.code for d in error.value.diagnostics]


def test_mesh_sizes_complete_or_replace_open_mesh() -> None:
    mesh = make_mesh({"x": None, "y": 2})
    assert mesh.completed(make_mesh({"x": 3})).shape == (3, 2)
    assert mesh.completed(make_mesh({"y": 4})).shape == (None, 4)
    assert mesh.completed(make_mesh({"y": 4, "x": 1})).names == ("y", "x")
    assert mesh.completed(make_mesh({"z": 4})).names == ("z",)


def test_only_used_open_axes_are_unknown() -> None:
    assert unknown_axes(parse_text(UNUSED)) == {}
    (location,) = unknown_axes(parse_text(USED, "f.mlir")).values()
    assert location is not None and location.line == 5
    assert nominal_mesh(parse_text(UNUSED)).sizes == (1, 2)
    assert nominal_mesh(parse_text(USED)).sizes == (DEFAULT.propagation.nominal_size, 2)


def test_trial_meshes_use_each_size_once_per_axis() -> None:
    module = replace(parse_text(UNUSED), mesh=make_mesh({"0": None, "1": 2, "2": None}))
    sizes = [mesh.sizes for mesh in trial_meshes(module)]
    assert sorted(first for first, _, _ in sizes) == sorted(last for _, _, last in sizes) == list(TRIAL_SIZES)
    assert all(first != last and middle == 2 for first, middle, last in sizes)
    static_module = parse_text(UNUSED.replace("?", "3"))
    assert trial_meshes(static_module) == [static_module.mesh]


def test_trial_meshes_with_many_axes_have_few_devices() -> None:
    axes = {"0": None, "1": 2, **{str(number): None for number in range(2, 16)}}
    module = replace(parse_text(USED), mesh=make_mesh(axes))
    trials = trial_meshes(module)
    assert [mesh.axis_size("0") for mesh in trials] == list(TRIAL_SIZES)  # The program uses only axis 0.
    assert max(mesh.size for mesh in trials) <= MOST_TRIAL_DEVICES


def test_sub_axes_bound_size_of_open_axis() -> None:
    text = UNUSED.replace("[[1]]", "[[1]]").replace("?x2", "?x?")
    module = parse_text(text)
    graph = replace(module.graph)
    for node in graph.nodes:
        if node.op == "annotate":
            node.attrs = replace(node.attrs, sharding=mg.P("1:(2)3", None))
    module = replace(module, in_annotations=[None], out_annotations=[None])
    assert nominal_mesh(module).shape == (1, 6)
    assert [mesh.sizes[1] for mesh in trial_meshes(module)] == [12, 18, 6]


def test_unused_open_axis_does_not_change_local_program() -> None:
    local = lowered(parse_text(UNUSED))
    assert local.mesh.shape == (None, 2) and local.graph.inputs[0].type.shape == (4, 12)
    static_local = lowered(parse_text(UNUSED.replace("?", "3")))
    assert [n.op for n in local.graph.nodes] == [n.op for n in static_local.graph.nodes]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 13])
def test_used_open_axis_works_for_every_size(size: int) -> None:
    module = parse_text(USED, meshes=[make_mesh({"0": size})])
    assert module.mesh.sizes == (size, 2)
    assert check(module, pipeline=lowered).ok


def test_stages_before_partition_keep_axis_open() -> None:
    module = parse_text(USED, "used.mlir")
    for stage in (propagate, materialize, optimize):
        module = stage(module)
        assert module.mesh.shape == (None, 2)
        assert module.nominal_sizes == {"0": DEFAULT.propagation.nominal_size}
        reparsed = parse_text(print_text(module))
        assert reparsed.mesh.shape == (None, 2) and print_text(reparsed) == print_text(module)
    assert propagate(parse_text(USED)).in_shardings[0] == mg.P("1", "0")
    with pytest.raises(ShardingError) as error:
        partition(module)
    (fault,) = error.value.diagnostics
    assert fault.code == "MG0201" and "'0'" in fault.message and "--mesh 0=" in fault.hint


def test_partition_of_open_axis_reports_its_first_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "used.mlir"
    file.write_text(USED)
    assert main(["opt", str(file), "--passes", "propagate,materialize,optimize,partition"]) == 1
    error = capsys.readouterr().err
    assert "used.mlir:5" in error and "MG0201" in error and "--mesh 0=4" in error
    assert main(["check", str(file), "--mesh", "0=5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mesh"] == {"0": 5, "1": 2}


def test_check_command_tries_several_axis_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "used.mlir"
    file.write_text(USED)
    assert main(["check", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [trial["mesh"]["0"] for trial in document["trials"]] == list(TRIAL_SIZES)
    assert all(trial["check"]["ok"] for trial in document["trials"])


def test_offsets_over_open_axis_are_rejected() -> None:
    text = USED.replace("[[1], [0]]", "[[0]]").replace(
        "split_axes = [[0]]", "split_axes = [[0]] sharded_dims_offsets = [0, 3, 7]"
    )
    with pytest.raises(ProgramError) as error:
        parse_text(text)
    assert set(codes(error)) == {"MG0201"}
    assert check(parse_text(text, meshes=[make_mesh({"0": 2})]), pipeline=lowered).ok


def test_module_keeps_unused_axis_open_until_load(tmp_path: Path) -> None:
    path = tmp_path / "m.mgx"
    mg.compile(UNUSED, target="cpu").save(path)
    x = np.arange(84, dtype=np.float32).reshape(7, 12) - 40
    assert mg.load(path).mesh.shape == (None, 2)
    with pytest.raises(ShardingError, match="unknown until load"):
        mg.load(path)(x)
    for size in (1, 3):
        loaded = mg.load(path, mesh={"0": size})
        assert loaded.mesh.size == 2 * size
        np.testing.assert_array_equal(loaded(x), np.abs(x))
    with pytest.raises(ShardingError, match="compiled for 2 devices"):
        mg.load(path, mesh={"1": 3})
    with pytest.raises(ShardingError, match="not in the module's"):
        mg.load(path, mesh={"z": 3})


def test_run_command_accepts_axis_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.mgx"
    mg.compile(UNUSED, target="cpu").save(path)
    assert main(["run", str(path)]) == 1 and "--mesh 0=2" in capsys.readouterr().err
    assert main(["run", str(path), "--mesh", "0=2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ranks"] == 4
    assert main(["inspect", str(path)]) == 0
    assert "? ranks" in capsys.readouterr().out


TIED = """shard.grid @g(shape = 2)
func.func @main(%a: tensor<?x?xf32>, %b: tensor<?x4xf32>) -> tensor<?x4xf32> {{
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %as = shard.shard %a to %s : tensor<?x?xf32>
  %r = stablehlo.dot_general %as, %b, contracting_dims = [1] x [0] : (tensor<?x?xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  {last}
}}"""
OPEN_SLICE = """shard.grid @g(shape = 4)
func.func @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %r = shard.all_slice %x on @g grid_axes = [0] slice_axis = 0 : tensor<?x3xf32> -> tensor<?x3xf32>
  return %r : tensor<?x3xf32>
}"""
ENDS = {
    # Each dim may have another size, so the contracted dims can differ.
    "any": ("return %r : tensor<?x4xf32>", ["8x8,8x4", "7x7,7x4"]),
    "even": (
        "%e = stablehlo.reshape %r : (tensor<?x4xf32>) -> tensor<?x8xf32>\n  return %r : tensor<?x4xf32>",
        ["8x8,8x4"],
    ),
}


@pytest.mark.parametrize("case", ENDS)
def test_check_command_tries_valid_shapes_of_open_dims(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    last, shapes = ENDS[case]
    module = parse_text(TIED.format(last=last))
    trial_texts = [
        f"{'x'.join(map(str, shapes_by_input['a']))},{'x'.join(map(str, shapes_by_input['b']))}"
        for shapes_by_input in trial_shapes(module)
    ]
    assert trial_texts[: len(shapes)] == shapes
    file = tmp_path / "p.mlir"
    file.write_text(TIED.format(last=last))
    assert main(["check", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document.get("trials", [document])) == len(shapes)


def test_check_command_tries_divisible_open_tiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.mlir"
    file.write_text(OPEN_SLICE)
    assert main(["check", str(file), "--json"]) == 0
    assert [trial["check"]["ok"] for trial in json.loads(capsys.readouterr().out).get("trials", [])] in ([], [True] * 3)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_open_module_runs_on_any_device_count(size: int, tmp_path: Path) -> None:
    path = tmp_path / "m.mgx"
    mg.compile(UNUSED, target="cpu", arguments="global").save(path)
    x = np.arange(84, dtype=np.float32).reshape(7, 12) - 40
    np.testing.assert_array_equal(mg.load(path, mesh={"0": size})(x), np.abs(x))
