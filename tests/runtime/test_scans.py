"""Tests of loops with a known trip count as scans: rows of stacks in place, on every engine, checked and loaded."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.api import plan
from meshgen.codegen.passes import loop_unroll
from meshgen.compiled.executable import Executable
from meshgen.errors import ScheduleError
from meshgen.ir.graph import Module
from meshgen.mlir.text import parse_text, print_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.runtime.emulation_options import Emulation
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.plan import Item, Schedule
from meshgen.runtime.validation.checker import check
from meshgen.testing.oracle import check as checked
from tests.cost_models import use
from tests.counting import steps
from tests.runtime.cuda.steps import arguments, assert_same_bits, on_gpus, planned

# States are stacked in forward and in reverse order, and added up with the iteration index. Layers are read in forward
# order, biases in reverse.
LAYERS = """
module {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}, %w: tensor<TRIPSx16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}, %b: tensor<TRIPSx16xf32>) -> (tensor<8x16xf32>, tensor<TRIPSx8x16xf32>, tensor<TRIPSx8x16xf32>, tensor<i32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %empty = stablehlo.constant dense<0.0> : tensor<TRIPSx8x16xf32>
    %r:5 = stablehlo.while(%i = %zero, %h = %x, %ys = %empty, %zs = %empty, %sum = %x) : tensor<i32>, tensor<8x16xf32>, tensor<TRIPSx8x16xf32>, tensor<TRIPSx8x16xf32>, tensor<8x16xf32>
    cond {
      %n = stablehlo.constant dense<TRIPS> : tensor<i32>
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %last = stablehlo.constant dense<LAST> : tensor<i32>
      %n = stablehlo.constant dense<TRIPS> : tensor<i32>
      %negative = stablehlo.compare LT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %above = stablehlo.add %i, %n : tensor<i32>
      %at = stablehlo.select %negative, %above, %i : tensor<i1>, tensor<i32>
      %back = stablehlo.subtract %last, %i : tensor<i32>
      %w1 = stablehlo.dynamic_slice %w, %at, %zero, %zero, sizes = [1, 16, 16] : (tensor<TRIPSx16x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x16xf32>
      %w2 = stablehlo.reshape %w1 : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
      %b1 = stablehlo.dynamic_slice %b, %back, %zero, sizes = [1, 16] : (tensor<TRIPSx16xf32>, tensor<i32>, tensor<i32>) -> tensor<1x16xf32>
      %b2 = stablehlo.reshape %b1 : (tensor<1x16xf32>) -> tensor<16xf32>
      %b3 = stablehlo.broadcast_in_dim %b2, dims = [1] : (tensor<16xf32>) -> tensor<8x16xf32>
      %y = stablehlo.dot_general %h, %w2, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
      %s = stablehlo.add %y, %b3 : tensor<8x16xf32>
      %t = stablehlo.tanh %s : tensor<8x16xf32>
      %f = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %g = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
      %part = stablehlo.add %t, %g : tensor<8x16xf32>
      %sum2 = stablehlo.add %sum, %part : tensor<8x16xf32>
      %tr = stablehlo.reshape %t : (tensor<8x16xf32>) -> tensor<1x8x16xf32>
      %ys2 = stablehlo.dynamic_update_slice %ys, %tr, %at, %zero, %zero : (tensor<TRIPSx8x16xf32>, tensor<1x8x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<TRIPSx8x16xf32>
      %hr = stablehlo.reshape %h : (tensor<8x16xf32>) -> tensor<1x8x16xf32>
      %zs2 = stablehlo.dynamic_update_slice %zs, %hr, %back, %zero, %zero : (tensor<TRIPSx8x16xf32>, tensor<1x8x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<TRIPSx8x16xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %t, %ys2, %zs2, %sum2 : tensor<i32>, tensor<8x16xf32>, tensor<TRIPSx8x16xf32>, tensor<TRIPSx8x16xf32>, tensor<8x16xf32>
    }
    func.return %r#4, %r#2, %r#3, %r#0 : tensor<8x16xf32>, tensor<TRIPSx8x16xf32>, tensor<TRIPSx8x16xf32>, tensor<i32>
  }
}
"""
TRIPS = 6
Array = np.ndarray[Any, Any]


def layers(trips: int = TRIPS) -> str:
    return LAYERS.replace("TRIPS", str(trips)).replace("LAST", str(trips - 1))


def numbers(x: Array, w: Array, b: Array) -> tuple[Array | np.int32, ...]:
    """Compute the results of `LAYERS` with NumPy."""
    h, total, ys = x, x, np.zeros((len(w), *x.shape), np.float32)
    zs = ys.copy()
    for i in range(len(w)):
        zs[len(w) - 1 - i] = h
        h = np.tanh(h @ w[i] + b[len(w) - 1 - i])
        ys[i], total = h, total + (h + i)
    return total, ys, zs, np.int32(len(w))


@pytest.fixture(autouse=True)
def _no_unrolling(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {"fusion.unrolled_messages": 0}, loop_unroll)


def fused(module: Module) -> Module:
    return run_stages(module, Options("cpu"), Timing(), "fuse")["fuse"]


def scan_of(plan: Schedule) -> Item:
    return next(item for item in plan.items if item.op == "scan")


def in_place(body: Schedule) -> list[bool]:
    """Return for each result of the scan's body whether it aliases the corresponding body input."""
    return [body.buffers[n].storage == carried for n, carried in zip(body.outputs, body.inputs, strict=False)]


@cache
def _compiled() -> Executable:
    return plan(layers(), target="cuda:sm_90")


@pytest.fixture
def compiled() -> Executable:
    """The program compiled with loop unrolling disabled; cached, since no test changes it."""
    return _compiled()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("layers")


@cache
def _module(folder: Path) -> LoadedModule:
    return planned(layers(), folder)


@pytest.fixture
def module(folder: Path) -> LoadedModule:
    return _module(folder)


def test_scan_rows_are_read_and_written_in_place(compiled: Executable) -> None:
    item = scan_of(compiled.plan)
    (body,) = item.regions
    assert item.times == TRIPS
    assert in_place(body) == [
        True,
        False,
        True,
        False,
        True,
    ]  # the state and the previous state are computed in rows of stacks, and copied from there
    assert not [name for name in compiled.plan.kernels if "slice" in name.replace("all_slice", "")]
    strides = {body.buffers[body.inputs[n]].type.shape: row for n, row in item.attrs.steps.items()}
    assert strides[1, 8] == (TRIPS - 1, -1) and strides[1, 8, 16] == (0, 1)


@pytest.mark.parametrize("engine", ["reference", "interpret"])
def test_scan_matches_numpy_loop(engine: str, module: LoadedModule) -> None:
    inputs = arguments(module)
    for result, expected in zip(module.run(inputs, engine), numbers(**inputs), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_simulated_scan_matches_program_on_one_device() -> None:
    assert checked(parse_text(layers()), pipeline=fused).ok


def test_scan_matches_reference_bitwise_in_every_order(module: LoadedModule) -> None:
    inputs = arguments(module)
    for seed in range(3):
        assert_same_bits(on_gpus(module, inputs, seed), module.run(inputs))
    assert_same_bits(on_gpus(module, inputs, steps=2, use_graphs=False), module.run(inputs))


def test_scan_kernels_run_on_emulated_gpu(tmp_path: Path) -> None:
    mg.compile(layers(), target="cuda:sm_90", precision="highest").save(tmp_path / "m.mgx")
    module = mg.load(tmp_path / "m.mgx")
    inputs = arguments(module)
    for result, expected in zip(module.run(inputs, Emulation("sm_90")), numbers(**inputs), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_scan_kernel_count_is_independent_of_trip_count(compiled: Executable) -> None:
    assert len(plan(layers(4 * TRIPS)).plan.kernels) == len(compiled.plan.kernels)


def test_every_stage_of_scan_parses_back(compiled: Executable) -> None:
    for stage in ("fuse", "schedule"):
        text = compiled.as_text(stage)
        assert "sched.scan" in text and print_text(parse_text(text)) == text


def test_simulated_scan_time_includes_all_iterations(compiled: Executable) -> None:
    assert (
        mg.simulate(compiled, "dgx-h100").step_seconds >= TRIPS * scan_of(compiled.plan).regions[0].step_seconds * 0.9
    )


def test_nested_scan_matches_reference(tmp_path: Path) -> None:
    inner = "%s = stablehlo.add %y, %b3 : tensor<8x16xf32>"
    nested = """%q:2 = stablehlo.while(%j = %zero, %s = %y) : tensor<i32>, tensor<8x16xf32>
      cond {
        %eight = stablehlo.constant dense<8> : tensor<i32>
        %p = stablehlo.compare LT, %j, %eight : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      } do {
        %row = stablehlo.dynamic_slice %h, %j, %zero, sizes = [1, 16] : (tensor<8x16xf32>, tensor<i32>, tensor<i32>) -> tensor<1x16xf32>
        %flat = stablehlo.reshape %row : (tensor<1x16xf32>) -> tensor<16xf32>
        %wide = stablehlo.broadcast_in_dim %flat, dims = [1] : (tensor<16xf32>) -> tensor<8x16xf32>
        %z = stablehlo.dot_general %s, %w2, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
        %more = stablehlo.add %z, %wide : tensor<8x16xf32>
        %small = stablehlo.tanh %more : tensor<8x16xf32>
        %k = stablehlo.add %j, %one : tensor<i32>
        stablehlo.return %k, %small : tensor<i32>, tensor<8x16xf32>
      }
      %s = stablehlo.add %q#1, %b3 : tensor<8x16xf32>"""
    text = layers().replace(inner, nested)
    assert checked(parse_text(text), pipeline=fused).ok
    module = planned(text, tmp_path)
    inputs = arguments(module)
    body = scan_of(module.schedule).regions[0]
    assert "scan" in [item.op for item in body.items]
    assert_same_bits(on_gpus(module, inputs, seed=1), module.run(inputs))


def with_body(plan: Schedule, body: Schedule | None = None, **attrs: Any) -> Schedule:
    """Return the plan with another body, or with other attributes, of the scan in it."""
    items = list(plan.items)
    index = next(n for n, item in enumerate(items) if item.op == "scan")
    regions = items[index].regions if body is None else (body,)
    items[index] = replace(items[index], regions=regions, attrs={**items[index].attrs, **attrs})
    return replace(plan, items=tuple(items))


@pytest.mark.parametrize(("attrs", "fault"), [
    ({"trips": TRIPS + 1}, "not inside it"),
    ({"trips": 0}, "do not fit"),
    ({"sliced": (0,), "offsets": (0,), "strides": (1,)}, "has no rows|region 0 takes"),
    ({"offsets": (0,)}, "do not fit"),
])  # fmt: skip
def test_checker_rejects_forged_scan_rows(compiled: Executable, attrs: dict[str, Any], fault: str) -> None:
    with pytest.raises(ScheduleError, match=fault):
        check(with_body(compiled.plan, **attrs), compiled.mesh)


def test_checker_rejects_rows_written_twice(compiled: Executable) -> None:
    strides = tuple(0 for _ in scan_of(compiled.plan).attrs.strides)
    with pytest.raises(ScheduleError, match="written twice"):
        check(with_body(compiled.plan, strides=strides), compiled.mesh)


def test_checker_rejects_early_overwrite_of_carried_value(compiled: Executable) -> None:
    """The forged body increments the loop counter before a kernel that still reads the old value."""
    (body,) = scan_of(compiled.plan).regions
    counter = body.inputs[0]
    (writer,) = [n for n, item in enumerate(body.items) if body.buffers[item.outputs[0]].storage == counter]
    reader = next(n for n, item in enumerate(body.items) if counter in item.inputs and n != writer)
    items = list(body.items)
    items[reader], items[writer] = items[writer], items[reader]
    with pytest.raises(ScheduleError, match=r"nothing orders that and .*, which overwrites it"):
        check(with_body(compiled.plan, replace(body, items=tuple(items))), compiled.mesh)


def test_checker_work_is_linear_in_overwrites_of_carried_value(compiled: Executable) -> None:
    (body,) = scan_of(compiled.plan).regions
    counter = body.inputs[0]
    writer = next(item for item in body.items if body.buffers[item.outputs[0]].storage == counter)
    reader = next(item for item in body.items if counter in item.inputs and item is not writer)

    def refused(count: int) -> None:
        plan = with_body(compiled.plan, replace(body, items=(*body.items, *[writer] * count, *[reader] * count)))
        with pytest.raises(ScheduleError):
            check(plan, compiled.mesh)

    few, many = (steps(lambda count=count: refused(count)) for count in (200, 800))
    assert many < 1.4 * 4 * few


def test_checker_rejects_overwritten_loop_invariant(compiled: Executable) -> None:
    item = scan_of(compiled.plan)
    (body,) = item.regions
    invariant = body.inputs[len(item.outputs)]
    last = body.items[-1]
    forged = replace(last, outputs=(invariant, *last.outputs[1:]))
    with pytest.raises(ScheduleError, match=r"overwrites given|has type .*, but its buffer"):
        check(with_body(compiled.plan, replace(body, items=(*body.items[:-1], forged))), compiled.mesh)
