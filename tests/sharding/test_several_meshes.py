"""Programs on several meshes: a program per mesh, values that cross, and what is refused."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.api import read
from meshgen.ccl.between import Ends, between, messages
from meshgen.cli import main
from meshgen.errors import MeshgenError, ModuleError, ProgramError, ScheduleError, ShardingError
from meshgen.ir.graph import Module
from meshgen.ir.text import parse_text, print_text
from meshgen.mesh import Mesh, make_mesh
from meshgen.pipeline import STAGES, Options, Timing, make_schedule, run_stages
from meshgen.runtime.checker_parts import check_parts
from meshgen.runtime.manifest import PARTS_FORMAT
from meshgen.runtime.plan import Schedule
from meshgen.runtime.simulate import simulate
from meshgen.sharding.analyze import analyze
from meshgen.sharding.oracle import check
from meshgen.sharding.place import place
from meshgen.spec import Sharding, fit

CPU = Options("cpu")
MESHES = {"a": {"dp": 2, "tp": 2}, "b": {"x": 3}}
TYPES = ["f32[10,7]", "f32[7,6]", "f32[6,5]"]
GRIDS = 'shard.grid @a(shape = 2x2) {axis_names = ["dp", "tp"]}\nshard.grid @b(shape = 3) {axis_names = ["x"]}\n'


def stages_of(module: Module, last: str = "fuse") -> dict[str, Module]:
    return run_stages(module, CPU, Timing(), last)


def assert_right(module: Module) -> dict[str, Module]:
    """The oracle holds at stages partition and fuse."""
    found = stages_of(module)
    for stage in ("partition", "fuse"):
        result = check(module, pipeline=lambda _, stage=stage: found[stage])
        assert result.ok, result.faults
    return found


def on_main(
    body: str, arguments: str = "%x: tensor<10x7xf32>", result: str = "tensor<10x7xf32>", grids: str = GRIDS
) -> Module:
    return parse_text(f"{grids}func.func @main({arguments}) -> {result} {{\n{body}\n}}\n")


def put(name: str, value: str, grid: str, axes: str = "[[0], []]", kind: str = "tensor<10x7xf32>") -> str:
    """Lines that put a value on a grid."""
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


# Numbers ------------------------------------------------------------------------------------------------------------

SOURCES = [mg.P(), mg.P("dp"), mg.P(None, "tp"), mg.P("tp", "dp"), mg.P(("dp", "tp")), mg.P(None, ("tp", "dp"))]
TARGETS = [mg.P(), mg.P("x"), mg.P(None, "x")]


@pytest.mark.parametrize("source, target", [*itertools.product(SOURCES, TARGETS)], ids=str)
def test_any_split_goes_to_any_split(source: Sharding, target: Sharding) -> None:
    def program(x: Any) -> Any:
        h = mg.annotate(x * 2.0, replace(source, mesh="a"))
        return mg.annotate(h, replace(target, mesh="b")) + 1.0

    found = assert_right(traced(program, types=["f32[10,7]"], in_specs=None))
    assert (
        ops(found["materialize"], 0).count("transfer_send") == ops(found["materialize"], 1).count("transfer_recv") == 1
    )


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (3, 5), (4, 6), (0, 4)], ids=str)
@pytest.mark.parametrize("meshes", [{"a": {"x": 1}, "b": {"x": 4}}, {"a": {"x": 4}, "b": {"x": 2, "y": 3}}], ids=str)
def test_small_and_empty_shards_and_unequal_meshes(shape: tuple[int, int], meshes: Any) -> None:
    def program(x: Any) -> Any:
        return mg.annotate(mg.annotate(x, mg.P("x", mesh="a")) + 1.0, mg.P(None, "x", mesh="b")) * 3.0

    assert_right(traced(program, meshes, [f"f32[{shape[0]},{shape[1]}]"], in_specs=None))


@pytest.mark.parametrize("dtype", ["f32[]", "i1[5]", "bf16[5,2]", "i32[3,3,3]"])
def test_types(dtype: str) -> None:
    def program(x: Any) -> Any:
        return mg.annotate(mg.annotate(x, mg.P(mesh="a")), mg.P(mesh="b"))

    assert_right(traced(program, types=[dtype], in_specs=None))


def test_a_value_used_on_both_meshes_crosses_once() -> None:
    def program(x: Any, w0: Any, w1: Any) -> Any:
        h = mg.tanh(x @ w0)
        there = mg.annotate(h, mg.P(mesh="b"))
        again = mg.annotate(h, mg.P("x", mesh="b"))
        return there @ w1, again + 1.0, h - 1.0

    found = assert_right(traced(program))
    assert ops(found["propagate"], 0).count("transfer_send") == 1
    assert [part.attrs["outputs"] for part in found["fuse"].parts] == [[2], [0, 1]]


def test_values_go_there_and_back() -> None:
    body = put("h", "x", "a") + put("g", "h", "b", "[[], [0]]") + "  %t = stablehlo.tanh %g : tensor<10x7xf32>\n"
    body += (
        put("r", "t", "a", "[[1], [0]]")
        + "  %y = stablehlo.add %r, %h : tensor<10x7xf32>\n  return %y : tensor<10x7xf32>"
    )
    found = assert_right(on_main(body))
    assert [op for op in ops(found["propagate"], 0) if "transfer" in op] == ["transfer_send", "transfer_recv"]
    assert [op for op in ops(found["propagate"], 1) if "transfer" in op] == ["transfer_recv", "transfer_send"]


def test_a_partial_sum_is_reduced_before_it_crosses() -> None:
    def program(x: Any, w: Any) -> Any:
        return mg.annotate(x @ w, mg.P(mesh="b")) + 1.0

    specs = {"x": mg.P(None, "dp", mesh="a"), "w": mg.P("dp", mesh="a")}
    found = assert_right(traced(program, types=["f32[10,8]", "f32[8,6]"], in_specs=specs))
    assert any(op in ("all_reduce", "reduce_scatter") for op in ops(found["optimize"], 0))


def test_three_meshes_in_a_ring() -> None:
    meshes = {"a": {"x": 2}, "b": {"x": 3}, "c": {"x": 2, "y": 2}}

    def program(x: Any) -> Any:
        h = mg.annotate(x, mg.P("x", mesh="a"))
        for mesh in ("b", "c", "a", "b"):
            h = mg.annotate(mg.tanh(h), mg.P(None, "x", mesh=mesh))
        return h

    found = assert_right(traced(program, meshes, ["f32[7,5]"], in_specs=None))
    assert [part.mesh.name for part in found["fuse"].parts] == ["a", "b", "c"]


def test_global_arguments_and_inputs_that_cross_directly() -> None:
    def program(x: Any, y: Any) -> Any:
        return mg.annotate(x, mg.P("x", mesh="b")) + y

    module = traced(program, types=["f32[10]", "f32[10]"], in_specs={"x": mg.P("dp", mesh="a")})
    options = Options("cpu", "global")
    found = run_stages(module, options, Timing(), "fuse")
    assert check(module, pipeline=lambda _: found["fuse"]).ok


def test_sdy_and_mesh_spellings() -> None:
    sdy = (
        'sdy.mesh @a = <["x"=2, "y"=2]>\nsdy.mesh @b = <["x"=3]>\nsdy.mesh @unused = <["z"=2]>\n'
        'func.func @main(%x: tensor<10x7xf32> {sdy.sharding = #sdy.sharding<@a, [{"x"}, {}]>}) '
        '-> (tensor<10x7xf32> {sdy.sharding = #sdy.sharding<@b, [{"x"}, {}]>}) {\n'
        "  %h = stablehlo.tanh %x : tensor<10x7xf32>\n  return %h : tensor<10x7xf32>\n}\n"
    )
    module = parse_text(sdy)
    assert [mesh.name for mesh in module.meshes] == ["a", "b"]
    assert_right(module)
    text = (
        "mesh.cluster @m0(rank = 1, dim_sizes = [2])\nmesh.cluster @m1(rank = 1, dim_sizes = [2])\n"
        "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> attributes { mesh_cluster = @m0 } {\n"
        "  %0 = mesh.annotate %x {sharding = [[0]], required = true, as_result = true} : tensor<8xf32> -> tensor<8xf32>\n"
        "  %1 = mesh.annotate %0 {#mesh.shard<@m1, [[0]]>, required = true, as_result = true} : tensor<8xf32> -> tensor<8xf32>\n"
        "  return %1 : tensor<8xf32>\n}\n"
    )
    found = assert_right(parse_text(text))
    assert ops(found["propagate"], 0) == ["annotate", "transfer_send"]


def test_a_program_on_one_of_several_declared_meshes_is_on_that_one() -> None:
    module = on_main(put("y", "x", "b") + "  return %y : tensor<10x7xf32>")
    assert module.mesh.name == "b" and not module.meshes
    assert not stages_of(module)["fuse"].parts


# Where values live --------------------------------------------------------------------------------------------------


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


# What crosses, and how ----------------------------------------------------------------------------------------------


def ends(source: Sharding, target: Sharding, shape: tuple[int, ...]) -> Ends:
    return Ends(shape, source, make_mesh({"dp": 2, "tp": 2}, "a"), target, make_mesh({"x": 3, "y": 2}, "b"))


@pytest.mark.parametrize("shape", [(10, 7), (12, 6), (2, 1)], ids=str)
@pytest.mark.parametrize("source, target", [*itertools.product(SOURCES, [*TARGETS, mg.P("x", "y")])], ids=str)
def test_messages_deliver_every_row_once_and_bytes_are_predicted(
    source: Sharding, target: Sharding, shape: tuple[int, ...]
) -> None:
    source, target = fit(source, 2), fit(target, 2)
    both = ends(source, target, shape)
    sent, received = np.zeros(4), np.zeros(6)
    for message in messages(both):
        sent[message.sender] += message.elements
        received[message.receiver] += message.elements
    for rank in range(6):
        box = target.ranges(shape, both.receiver, rank)
        assert received[rank] == np.prod([b - a for a, b in box])
    most_sent, most_received = between(both)
    assert received.max() == most_received
    assert sent.max() <= most_sent + max(shape)  # cuts round
    assert sent.sum() == received.sum()


def test_replicas_are_gathered_on_the_target_where_the_network_is_slower() -> None:
    def program(x: Any) -> Any:
        return mg.annotate(mg.annotate(x, mg.P("dp", mesh="a")) * 2.0, mg.P(mesh="b")) + 1.0

    small = stages_of(traced(program, types=["f32[12,4]"], in_specs=None))["optimize"]
    large = stages_of(traced(program, types=["f32[4096,1024]"], in_specs=None), "optimize")["optimize"]
    assert "all_gather" not in ops(small, 1) and "all_gather" in ops(large, 1)
    reason = next(n for n in large.parts[1].graph.nodes if n.op == "transfer_recv").attrs["why"]
    assert "from [{dp" in reason and "to [{x}, {}]" in reason


def test_bytes_are_counted_on_both_sides() -> None:
    found = stages_of(traced())
    sender, receiver = (analyze(part) for part in found["optimize"].parts)
    assert sender.counts == {"transfer_send": 1} and receiver.counts == {"transfer_recv": 1}
    assert receiver.ring_bytes == 4 * 6 * 4  # 10 rows on three devices: tiles of 4 rows of 6 floats


# Text, schedules, modules -------------------------------------------------------------------------------------------


def test_every_stage_prints_and_reads_back_and_goes_on() -> None:
    module = traced()
    for stage, found in stages_of(module, "schedule").items():
        text = print_text(found)
        again = parse_text(text)
        assert print_text(again) == text, stage
        if stage not in ("fuse", "schedule"):
            last = stages_of(again)["fuse"]
            assert check(again, pipeline=lambda _, last=last: last).ok, stage


def test_modules_are_saved_loaded_and_run(tmp_path: Path) -> None:
    specs = {"x": mg.P("dp", mesh="a")}
    exe = mg.compile(two_stages, MESHES, args=TYPES, in_specs=specs, target="cpu")
    rng = np.random.default_rng(0)
    x, w0, w1 = (rng.standard_normal(shape).astype("f4") for shape in ((10, 7), (7, 6), (6, 5)))
    path = tmp_path / "p.mgx"
    exe.save(path, weights={"w1": w1})
    loaded = mg.load(path)
    assert [b.name for b in loaded.inputs] == ["x", "w0"] and loaded.ranks == 7
    wanted = np.tanh(x @ w0) @ w1
    for result in (exe(x, w0, w1), loaded(x, w0), loaded.run({"w0": w0, "x": x}, "interpret")[0]):
        np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-5)
    assert set(loaded.stages) == {*STAGES, "import"}
    again = tmp_path / "q.mgx"
    mg.compile(two_stages, MESHES, args=TYPES, in_specs=specs, target="cpu").save(again, weights={"w1": w1})
    assert path.read_bytes() == again.read_bytes()


def test_commands_know_of_several_meshes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "p.mlir", tmp_path / "p.mgx"
    file.write_text(print_text(traced()))
    assert main(["check", str(file), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["check"]["ok"] and record["mesh"] == {"a": {"dp": 2, "tp": 2}, "b": {"x": 3}}
    assert [row["mesh"] for row in record["collectives"]] == ["a", "b"] and len(record["parts"]) == 2
    assert main(["explain", str(file)]) == 0
    text = capsys.readouterr().out
    assert "transfer_send" in text and "@b" in text
    assert main(["compile", str(file), "--target", "cpu", "-o", str(out)]) == 0
    assert main(["inspect", str(out), "--schedule"]) == 0
    assert "transfer_recv from @a" in capsys.readouterr().out
    assert main(["inspect", str(out), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["parts"]) == 2
    assert main(["run", str(out), "--expect", str(file)]) == 0
    assert main(["diff", str(out), str(out)]) == 0
    assert main(["opt", str(file), "--passes", "propagate,materialize"]) == 0
    assert "shard.transfer_send" in capsys.readouterr().out


def test_damaged_programs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.mgx"
    mg.compile(two_stages, MESHES, args=TYPES, in_specs={"x": mg.P("dp", mesh="a")}, target="cpu").save(path)
    content = path.read_bytes()
    assert f'"format": {PARTS_FORMAT}'.encode() in content
    for byte in range(0, len(content), 997):
        broken = bytearray(content)
        broken[byte] ^= 1
        path.write_bytes(bytes(broken))
        with pytest.raises(MeshgenError):
            mg.load(path)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ModuleError):
        mg.load(path)


def plans_of(module: Module) -> tuple[list[Schedule], list[Mesh]]:
    fused = stages_of(module)["fuse"]
    return [make_schedule(part, CPU) for part in fused.parts], [part.mesh for part in fused.parts]


def test_transfers_in_different_orders_are_a_deadlock() -> None:
    def program(x: Any) -> Any:
        h = mg.annotate(x, mg.P(mesh="a"))
        return mg.annotate(mg.tanh(h), mg.P(mesh="b")) + mg.annotate(mg.exp(h), mg.P(mesh="b"))

    plans, meshes = plans_of(traced(program, types=["f32[6]"], in_specs=None))
    assert check_parts(plans, meshes).step_seconds > 0
    items = list(plans[1].items)
    first, second = (n for n, item in enumerate(items) if item.op == "transfer_recv")
    items[first], items[second] = (
        replace(items[first], attrs=items[second].attrs),
        replace(items[second], attrs=items[first].attrs),
    )
    with pytest.raises(ScheduleError) as error:
        check_parts([plans[0], replace(plans[1], items=tuple(items))], meshes)
    assert {fault.code for fault in error.value.diagnostics} == {"MG0401"}
    assert "@a waits" in str(error.value) and "@b waits" in str(error.value)
    with pytest.raises(ScheduleError, match="one sender and one receiver"):
        check_parts([plans[0], replace(plans[1], items=())], meshes)


# Programs written as every device runs them -------------------------------------------------------------------------

SPMD = """
builtin.module {
  builtin.module @a {
    shard.grid @a(shape = 2)
    shard.grid @b(shape = 3)
    func.func @main(%x: tensor<3x4xf32>) {
      %y = stablehlo.tanh %x : tensor<3x4xf32>
      %t = shard.transfer_send %y to @b channel = 0 {shape = array<i64: 6, 4>, source = #shard.split<@a, [[0], []]>, target = #shard.split<@b, [[0], []]>} : tensor<3x4xf32> -> tensor<i1>
      return
    }
  }
  builtin.module @b {
    shard.grid @b(shape = 3)
    shard.grid @a(shape = 2)
    func.func @main() -> tensor<2x4xf32> {
      %y, %t = shard.transfer_recv from @a channel = 0 {shape = array<i64: 6, 4>, source = #shard.split<@a, [[0], []]>, target = #shard.split<@b, [[0], []]>} -> tensor<2x4xf32>, tensor<i1>
      %z = stablehlo.exponential %y : tensor<2x4xf32>
      return %z : tensor<2x4xf32>
    }
  }
}
"""


def test_programs_of_each_device_with_transfers() -> None:
    module = parse_text(SPMD)
    assert module.stage == "partition"
    fused = stages_of(module)["fuse"]
    assert check(module, pipeline=lambda _: fused).ok
    x = np.random.default_rng(1).standard_normal((6, 4)).astype("f4")
    np.testing.assert_allclose(simulate(fused, [x])[0], np.exp(np.tanh(x)), rtol=1e-6)


@pytest.mark.parametrize(
    "old, new, code, text",
    [
        ("from @a channel = 0", "from @a channel = 1", "MG0104", "has no"),
        ("array<i64: 6, 4>, source = #shard.split<@a, [[0], []]>, target = #shard.split<@b, [[0], []]>} ->",
         "array<i64: 6, 4>, source = #shard.split<@a, [[], []]>, target = #shard.split<@b, [[0], []]>} ->", "MG0104", "source"),
        ("builtin.module @b {\n    shard.grid @b(shape = 3)\n    shard.grid @a(shape = 2)",
         "builtin.module @b {\n    shard.grid @a(shape = 2)\n    shard.grid @b(shape = 3)", "MG0209", "one program"),
        ("to @b", "to @c", "MG0201", "no grid @c"),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_together_are_refused(old: str, new: str, code: str, text: str) -> None:
    assert old in SPMD
    with pytest.raises(MeshgenError) as error:
        parse_text(SPMD.replace(old, new, 1))
    assert code in {fault.code for fault in error.value.diagnostics} and text in str(error.value)


def test_the_slides_permute_goes_to_another_mesh() -> None:
    text = (
        "mesh.cluster @mesh0(rank = 1, dim_sizes = [2])\nmesh.cluster @mesh1(rank = 1, dim_sizes = [2])\n"
        "func.func @main(%0: tensor<4xf32, #mesh.shard<@mesh0, [[0]]>>) -> tensor<4xf32, #mesh.shard<@mesh1, [[0]]>> {\n"
        "  %1 = mesh.collective_permute %0 : tensor<4xf32, #mesh.shard<@mesh0, [[0]]>> -> tensor<4xf32, #mesh.shard<@mesh1, [[0]]>>\n"
        "  return %1 : tensor<4xf32, #mesh.shard<@mesh1, [[0]]>>\n}\n"
    )
    module = parse_text(text)
    assert module.stage == "materialize"
    found = assert_right(module)
    assert [ops(found["partition"], part) for part in (0, 1)] == [["transfer_send"], ["transfer_recv"]]


# Refusals -----------------------------------------------------------------------------------------------------------

LOOP = """
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %i0, %v = %x) : tensor<i32>, tensor<10x7xf32>
   cond {
    %c = stablehlo.compare LT, %i, LIMIT : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
   } do {
    %s0 = shard.sharding @a split_axes = [[0], []] : !shard.sharding
    %v0 = shard.shard %v to %s0 : tensor<10x7xf32>
    %t = stablehlo.tanh %v0 : tensor<10x7xf32>
    %s1 = shard.sharding @b split_axes = [[0], []] : !shard.sharding
    %v1 = shard.shard %t to %s1 : tensor<10x7xf32>
    %u = stablehlo.exponential %v1 : tensor<10x7xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %u : tensor<i32>, tensor<10x7xf32>
   }
  return %r#1 : tensor<10x7xf32>"""


def test_a_counted_loop_around_stages_is_written_out() -> None:
    found = assert_right(on_main(LOOP.replace("LIMIT", "%n")))
    assert ops(found["propagate"], 0).count("transfer_send") == 3
    assert ops(found["propagate"], 1).count("transfer_recv") == 3


def test_other_loops_around_stages_are_refused() -> None:
    module = on_main(LOOP.replace("LIMIT", "%m"), "%x: tensor<10x7xf32>, %m: tensor<i32>")
    with pytest.raises(ShardingError) as error:
        stages_of(module)
    (fault,) = error.value.diagnostics
    assert fault.code == "MG0209" and fault.loc is not None and fault.loc.line == 8 and "@a and @b" in fault.message


def test_sizes_must_be_known_and_meshes_named() -> None:
    body = put("h", "x", "a") + put("g", "h", "b", "[[0], []]") + "  return %g : tensor<10x7xf32>"
    with pytest.raises(ShardingError, match="MG0201") as error:
        stages_of(on_main(body, grids=GRIDS.replace("shape = 3", "shape = ?")))
    (fault,) = error.value.diagnostics
    assert fault.loc is not None and fault.loc.line == 7  # where @b is named first
    with pytest.raises(ShardingError, match="MG0209"):
        stages_of(traced(lambda x: mg.annotate(x, mg.P(mesh="c")), types=["f32[4]"], in_specs=None))
    with pytest.raises(MeshgenError, match="MG0202"):
        stages_of(
            traced(lambda x: mg.annotate(x, mg.P("x", mesh="a")), types=["f32[4]"], in_specs={"x": mg.P(mesh="b")})
        )


def test_inputs_stand_for_themselves_in_parts_without_numbers() -> None:
    module = parse_text(SPMD)
    assert [part.attrs["inputs"] for part in module.parts] == [[0], []]
    with pytest.raises(ProgramError, match="each is there once"):
        parse_text(
            SPMD.replace(
                "builtin.module @b {", 'builtin.module @b attributes {meshgen.attrs = "{\\22outputs\\22: [3]}"} {'
            )
        )
