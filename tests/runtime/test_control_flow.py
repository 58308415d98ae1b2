"""Tests of loops and branches with collectives as schedule items: executed, checked, saved and loaded."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import meshgen as mg
from meshgen.cli import main
from meshgen.codegen.scheduling.costs import default_costs
from meshgen.commands.inspect import schedule_record
from meshgen.errors import CodegenError, RuntimeFailure, ScheduleError
from meshgen.mlir.text import parse_text, print_text
from meshgen.runtime.plan import Schedule
from meshgen.runtime.validation.checker import check

MESH = "sdy.mesh @mesh = <[{devices}]>"
ROWS = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'
# Condition and body both sum over x, because their constraints request replicated values. The loop captures %scale.
# %base and the first %old are constants, and the loop forwards %new to %old without computation.
SUMS = """
module {
  MESH
  func.func @main(%a: tensor<8x8xf32> ROWS, %scale: tensor<8x8xf32> ROWS, %most: tensor<i32>) -> (tensor<8x8xf32> ROWS, tensor<8xf32>, tensor<8xf32>, tensor<i32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %far = stablehlo.constant dense<[1., 2., 3., 4., 5., 6., 7., 8.]> : tensor<8xf32>
    %r:4 = stablehlo.while(%x = %a, %old = %far, %new = %far, %i = %zero) : tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<i32>
    cond {
      %c0 = stablehlo.constant dense<0.0> : tensor<f32>
      %small = stablehlo.constant dense<1.0e-3> : tensor<f32>
      %p = sdy.sharding_constraint %x <@mesh, [{"x"}, {}]> : tensor<8x8xf32>
      %n = stablehlo.multiply %p, %p : tensor<8x8xf32>
      %sum = stablehlo.reduce(%n init: %c0) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<f32>
      %large = stablehlo.compare GT, %sum, %small : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %early = stablehlo.compare LT, %i, %most : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %go = stablehlo.and %large, %early : tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %c0 = stablehlo.constant dense<0.0> : tensor<f32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %base = stablehlo.constant dense<[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]> : tensor<8xf32>
      %p = sdy.sharding_constraint %x <@mesh, [{"x"}, {}]> : tensor<8x8xf32>
      %s = stablehlo.reduce(%p init: %c0) applies stablehlo.add across dimensions = [0] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
      %t = stablehlo.tanh %s : tensor<8xf32>
      %u = stablehlo.add %t, %base : tensor<8xf32>
      %w = stablehlo.broadcast_in_dim %u, dims = [1] : (tensor<8xf32>) -> tensor<8x8xf32>
      %y = stablehlo.multiply %p, %w : tensor<8x8xf32>
      %z = stablehlo.multiply %y, %scale : tensor<8x8xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %z, %new, %u, %next : tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<i32>
    }
    func.return %r#0, %r#1, %r#2, %r#3 : tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<i32>
  }
}
""".replace("MESH", MESH.format(devices='"x"=4')).replace("ROWS", ROWS)  # fmt: skip
A, SCALE = (np.random.default_rng(n).standard_normal((8, 8)).astype(np.float32) for n in (1, 2))


def sums(most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Compute the results of `SUMS` with NumPy for at most `most` iterations."""
    far = np.arange(1, 9, dtype=np.float32)
    x, old, new, i = A, far, far, 0
    while (x**2).sum() > 1e-3 and i < most:
        u = np.tanh(x.sum(0)) + far / 10
        x, old, new, i = x * u * SCALE, new, u, i + 1
    return x, old, new, i


@pytest.fixture(scope="module")
def compiled() -> mg.Executable:
    return mg.compile(SUMS, target="cpu")


def loop_of(plan: Schedule) -> int:
    return next(n for n, item in enumerate(plan.items) if item.op == "while")


def agree(results, most: int) -> None:
    for result, expected in zip(results, sums(most), strict=True):
        np.testing.assert_allclose(result, expected, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("most", [0, 1, 2, 7])
def test_loop_with_unknown_trip_count_runs_collectives(compiled, most):
    item = compiled.plan.items[loop_of(compiled.plan)]
    assert [any(i.is_collective for i in region.items) for region in item.regions] == [True, True]
    agree(compiled(A, SCALE, np.int32(most)), most)


def test_loop_is_saved_and_loaded(compiled, tmp_path):
    compiled.save(tmp_path / "a.mgx")
    compiled.save(tmp_path / "b.mgx")
    assert (tmp_path / "a.mgx").read_bytes() == (tmp_path / "b.mgx").read_bytes()
    loaded = mg.load(tmp_path / "a.mgx")
    assert schedule_record(loaded.schedule) == schedule_record(compiled.plan)
    assert loaded.schedule.buffers == compiled.plan.buffers
    agree(loaded(A, SCALE, np.int32(5)), 5)
    agree(loaded.run([A, SCALE, np.int32(2)], "interpret"), 2)


def test_every_stage_of_loop_parses_back(compiled):
    for stage in ("fuse", "schedule"):
        text = compiled.as_text(stage)
        again = parse_text(text)
        assert again.stage == stage and "stablehlo.while" in text and "all_reduce" in text
        assert print_text(again) == text


def test_loop_with_unknown_trip_count_counts_one_iteration(compiled):
    (item,) = (item for item in compiled.plan.items if item.op == "while")
    condition, body = item.regions
    assert [launch.times for launch in compiled.plan.launches() if launch.plan is condition] == [2] * len(
        condition.items
    )
    assert [launch.times for launch in compiled.plan.launches() if launch.plan is body] == [1] * len(body.items)
    assert compiled.comms.count("all_reduce") + compiled.comms.count("all_gather") >= 2
    assert compiled.cost.kernels == sum(compiled.plan.launch_counts().values())


@pytest.mark.parametrize("trips", [2, 10])
def test_loop_too_long_to_unroll_counts_its_iterations(monkeypatch, trips):
    monkeypatch.setattr("meshgen.codegen.passes.loop_unroll.MOST_NODES", 10)
    text = SUMS.replace("%go = stablehlo.and %large, %early : tensor<i1>", "").replace("return %go", "return %early")
    text = text.replace("LT, %i, %most", "LT, %i, %ten").replace(
        "cond {", f"cond {{\n%ten = stablehlo.constant dense<{trips}> : tensor<i32>"
    )
    executable = mg.compile(text, target="cpu")
    (item,) = [item for item in executable.plan.items if item.op == "scan"]
    (body,) = item.regions
    copy = default_costs("cuda:sm_90").copy
    pairs = zip(body.outputs, body.inputs, strict=False)
    copied_bytes = [body.buffers[n].type.nbytes for n, parameter in pairs if body.buffers[n].storage != parameter]
    assert item.times == trips and item.seconds == pytest.approx(
        trips * (body.step_seconds + sum(map(copy, copied_bytes)))
    )
    (body,) = [row for row in executable.comms if row.times == trips][:1]
    assert executable.comms.ring_bytes >= trips * body.ring_bytes
    assert np.isfinite(executable(A, SCALE, np.int32(0))[0]).all()
    (reparsed,) = [node for node in parse_text(executable.as_text("fuse")).graph.nodes if node.op == "scan"]
    assert reparsed.attrs.trips == trips


BRANCH = """
module {
  MESH
  func.func @main(%a: tensor<8x8xf32> ROWS, %most: tensor<i32>, %which: tensor<TYPE>) -> tensor<f32> {
    %c0 = stablehlo.constant dense<0.0> : tensor<f32>
    %r = "stablehlo.OP"(%which) ({
      %p = sdy.sharding_constraint %a <@mesh, [{"x"}, {}]> : tensor<8x8xf32>
      %s = stablehlo.reduce(%p init: %c0) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<f32>
      stablehlo.return %s : tensor<f32>
    }, {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %q:2 = stablehlo.while(%x = %c0, %i = %zero) : tensor<f32>, tensor<i32>
      cond {
        %go = stablehlo.compare LT, %i, %most : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      } do {
        %w = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
        %y = stablehlo.add %a, %w : tensor<8x8xf32>
        %t = stablehlo.tanh %y : tensor<8x8xf32>
        %p = sdy.sharding_constraint %t <@mesh, [{"x"}, {}]> : tensor<8x8xf32>
        %s = stablehlo.reduce(%p init: %c0) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<f32>
        %n = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %s, %n : tensor<f32>, tensor<i32>
      }
      stablehlo.return %q#0 : tensor<f32>
    }) : (tensor<TYPE>) -> tensor<f32>
    func.return %r : tensor<f32>
  }
}
""".replace("MESH", MESH.format(devices='"x"=4')).replace("ROWS", ROWS)  # fmt: skip


@pytest.mark.parametrize(("op", "kind", "which"), [("if", "i1", True), ("if", "i1", False), ("case", "i32", 0), ("case", "i32", 1), ("case", "i32", 9)])  # fmt: skip
def test_branch_around_loop_runs_selected_region(op, kind, which):
    executable = mg.compile(BRANCH.replace("OP", op).replace("TYPE", kind), target="cpu")
    (item,) = [item for item in executable.plan.items if item.op == op]
    assert [inner.op for inner in item.regions[1].items if inner.regions] == ["while"]
    first = bool(which) if op == "if" else which == 0
    expected = A.sum()
    if not first:
        expected = np.float32(0)
        for _ in range(3):
            expected = np.tanh(A + expected).sum()
    result = executable(A, np.int32(3), np.array(which, np.bool_ if op == "if" else np.int32))
    np.testing.assert_allclose(result, expected, rtol=1e-3)


def test_no_collective_runs_concurrently_with_communicating_loop():
    """The reductions do not depend on the loop, but the checker rejects a plan in which the first does not wait for it."""
    total = """%first = stablehlo.reduce(%scale init: %nil) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<f32>
    %last = stablehlo.reduce(%scale init: %nil) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<f32>"""
    text = SUMS.replace("func.return %r#0", f"{total}\n    func.return %first, %last, %r#0").replace(
        ": tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<i32>\n  }\n}",
        ": tensor<f32>, tensor<f32>, tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<i32>\n  }\n}",
    )
    text = text.replace("-> (tensor<8x8xf32> {", "-> (tensor<f32>, tensor<f32>, tensor<8x8xf32> {").replace(
        "%zero =", "%nil = stablehlo.constant dense<0.0> : tensor<f32>\n    %zero =", 1
    )
    executable = mg.compile(text, target="cpu")
    communicating = [n for n, item in enumerate(executable.plan.items) if item.communicates]
    assert [executable.plan.items[n].op for n in communicating] == ["while", "all_reduce", "all_reduce"]
    for index in communicating[1:2]:
        items = [replace(item, waits=()) if n == index else item for n, item in enumerate(executable.plan.items)]
        with pytest.raises(ScheduleError, match=r"nothing orders collective|without waiting"):
            check(replace(executable.plan, items=tuple(items)), executable.mesh)


def with_region(plan: Schedule, which: int, **changes) -> Schedule:
    """Return the plan with `changes` applied to region `which` of its loop."""
    index = loop_of(plan)
    item = plan.items[index]
    regions = tuple(replace(r, **changes) if n == which else r for n, r in enumerate(item.regions))
    return with_loop(plan, regions=regions)


def with_loop(plan: Schedule, **changes) -> Schedule:
    index = loop_of(plan)
    items = [replace(item, **changes) if n == index else item for n, item in enumerate(plan.items)]
    return replace(plan, items=tuple(items))


def test_checker_rejects_wrong_region(compiled):
    plan = compiled.plan
    item = plan.items[loop_of(plan)]
    condition, body = item.regions
    unsynchronized = tuple(replace(inner_item, waits=()) for inner_item in body.items)
    for changed_plan, pattern in [
        (with_region(plan, 1, items=unsynchronized), r"in 'while': .*without waiting"),
        (with_region(plan, 1, arena_bytes=body.arena_bytes + 10**6), r"arena has|needs"),
        (with_region(plan, 1, outputs=body.outputs[::-1]), "region 1 does not match its operands and results"),
        (with_region(plan, 0, inputs=condition.inputs[::-1]), "region 0 does not match its operands and results"),
        (with_region(plan, 0, outputs=condition.inputs[:1]), "region 0 does not match its operands and results"),
        (with_loop(plan, regions=(body,)), "it has 1 regions"),
        (with_loop(plan, scratch=None), "has 0 B for a region that needs"),
        (with_loop(plan, scratch=10**6), "uses a buffer that does not exist"),
        (with_loop(plan, scratch=item.outputs[0]), "not a temporary|B for a region"),
        (with_loop(plan, inputs=item.inputs[::-1]), "its carried values do not match its results"),
        (with_loop(plan, attrs={"trips": -1}), "cannot run -1 times"),
    ]:
        with pytest.raises(ScheduleError, match=pattern):
            check(changed_plan, compiled.mesh)
    buffers_as_inputs = tuple(b._replace(kind="input") if b.kind == "given" else b for b in body.buffers)
    with pytest.raises(ScheduleError, match="MG0402"):
        check(with_region(plan, 1, buffers=buffers_as_inputs), compiled.mesh)
    buffers_as_given = tuple(b._replace(kind="given") if b.kind == "input" else b for b in plan.buffers)
    with pytest.raises(ScheduleError, match="MG0402"):
        check(replace(plan, buffers=buffers_as_given), compiled.mesh)


PER_DEVICE = """
module {
  MESH
  func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    %r = sdy.manual_computation(%a) in_shardings = [<@mesh, [{"x"}]>] out_shardings = [<@mesh, [{"x"}]>] manual_axes = {"x"} (%t: tensor<2xf32>) {
      %w = stablehlo.while(%i = %t) : tensor<2xf32>
      cond {
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        %ten = stablehlo.constant dense<100.0> : tensor<f32>
        %s = stablehlo.reduce(%i init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
        %all = "stablehlo.all_reduce"(%s) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> ({
        ^bb0(%p: tensor<f32>, %q: tensor<f32>):
          %u = stablehlo.add %p, %q : tensor<f32>
          stablehlo.return %u : tensor<f32>
        }) : (tensor<f32>) -> tensor<f32>
        %mix = stablehlo.add %s, %all : tensor<f32>
        %go = stablehlo.compare LT, WHICH, %ten : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1.5> : tensor<2xf32>
        %n = stablehlo.multiply %i, %one : tensor<2xf32>
        stablehlo.return %n : tensor<2xf32>
      }
      sdy.return %w : tensor<2xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    func.return %r : tensor<8xf32>
  }
}
""".replace("MESH", MESH.format(devices='"x"=4'))  # fmt: skip


def test_loop_with_collectives_requires_uniform_condition():
    x = np.arange(1, 9, dtype=np.float32)
    expected = x
    while expected.sum() < 100:
        expected = expected * np.float32(1.5)
    np.testing.assert_allclose(mg.compile(PER_DEVICE.replace("WHICH", "%all"), target="cpu")(x), expected)
    with pytest.raises(
        CodegenError, match=r"MG0401.*'while' holds collectives, but the condition may differ between devices along x"
    ):
        mg.compile(PER_DEVICE.replace("WHICH", "%mix"), target="cpu")


def test_diverging_ranks_are_reported_without_hang(monkeypatch, tmp_path):
    """The compiler proves that ranks agree on the condition. A module without this proof (a forged one) must not hang."""
    monkeypatch.setattr("meshgen.codegen.planner.require_agreement", lambda module: None)
    mg.compile(PER_DEVICE.replace("WHICH", "%mix"), target="cpu").save(tmp_path / "m.mgx")
    with pytest.raises(
        RuntimeFailure, match=r"MG0604: 'while' holds collectives.* differently: \[1, 1, 1, 0\]; .*:\d+\)"
    ):
        mg.load(tmp_path / "m.mgx")(np.float32([1, 1, 2, 2, 1, 1, 40, 40]))


def test_inspect_shows_items_of_regions(compiled, tmp_path, capsys):
    compiled.save(tmp_path / "m.mgx")
    assert main(["inspect", str(tmp_path / "m.mgx"), "--schedule"]) == 0
    index = loop_of(compiled.plan)
    assert f"{index}.1.0 " in capsys.readouterr().out
    assert main(["inspect", str(tmp_path / "m.mgx"), "--json"]) == 0
    row = json.loads(capsys.readouterr().out)["schedule"][index]
    assert [len(region) for region in row["regions"]] == [
        len(region.items) for region in compiled.plan.items[index].regions
    ]
