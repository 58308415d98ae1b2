"""Tests of results written over donated inputs: the choice, the launch order, the bytes saved, and forged schedules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen.api import plan
from meshgen.compiled.executable import Executable
from meshgen.errors import ModuleError, ScheduleError
from meshgen.reports.memory import memory_of
from meshgen.runtime.emulation_options import Emulation
from meshgen.runtime.validation.checker import check
from meshgen.simulator.simulation import Scheduled, simulate
from meshgen.simulator.trace import memory_over_time, peak_of
from tests.runtime.test_module_damage import forged

T = "tensor<16x8xf32>"
SPLIT = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>, ALIAS}'


def step(*lines: str, results: str, w: str = "", m: str = "", types: str = f"{T}, {T}") -> str:
    """Return a step on weights w, moments m and a batch x. `lines` are statements with their types."""
    donated = (SPLIT.replace(", ALIAS", f", {alias}" if alias else "") for alias in (w, m))
    head = "func.func @main(%w: {t} {a}, %m: {t} {b}, %x: tensor<8x6xf32>)".replace("{t}", T)
    for mark, text in zip(("{a}", "{b}"), donated, strict=True):
        head = head.replace(mark, text)
    body = "\n".join(f"  {line}" for line in lines)
    return f'sdy.mesh @mesh = <["x"=2]>\n{head} -> ({types}) {{\n{body}\n  return {results} : {types}\n}}\n'


MOMENT = f"%m2 = stablehlo.add %m, %w : {T}"
UPDATE = f"%w2 = stablehlo.subtract %w, %m2 : {T}"
READ = f"%y = stablehlo.dot_general %w, %x, contracting_dims = [1] x [0] : ({T}, tensor<8x6xf32>) -> tensor<16x6xf32>"
WITH_Y = f"{T}, {T}, tensor<16x6xf32>"
ALIASES = {"w": "tf.aliasing_output = 0 : i32", "m": "tf.aliasing_output = 1 : i32"}


def training(**donated: str) -> Executable:
    """Plan a step that returns w2 = w - (m + w), m2 = m + w and y = w x.

    In the text, the read of `w` for `y` follows the update of `w`.
    """
    return plan(step(MOMENT, UPDATE, READ, results="%w2, %m2, %y", types=WITH_Y, **donated), target="cpu")


def test_parameters_are_updated_in_place_after_their_last_read() -> None:
    before, after = training(), training(**ALIASES)
    assert len(after.plan.overwritten_inputs) == 2 and not before.plan.overwritten_inputs and after.warnings == []
    assert after.memory.peak_bytes == before.memory.peak_bytes - 2 * 8 * 8 * 4
    memory = memory_of(after.plan)
    # two inputs of 256 bytes (w and m), and x and y of 192 bytes each
    assert memory.live_bytes == 2 * 256 + 192 + 192 <= memory.peak_bytes
    (part,) = simulate([Scheduled(after.mesh, after.plan)]).parts
    assert peak_of(memory_over_time(part))[1] == memory.live_bytes
    assert [donation["kept"] for donation in after.record()["donations"]] == ["", ""]
    readers = [n for n, item in enumerate(after.plan.items) if after.plan.inputs[0] in item.inputs]
    (writer,) = (n for n, item in enumerate(after.plan.items) if after.plan.outputs[0] in item.outputs)
    assert max(readers) == writer and len(readers) > 1


REFUSED = {
    "at other places": (step(f"%w2 = stablehlo.reverse %w, dims = [1] : {T}", f"%m2 = stablehlo.add %m, %m : {T}", results="%w2, %m2", **ALIASES), ["'kernel', which computes result 0, reads it at other indices"]),
    "read when it is known": (step(UPDATE.replace("%m2", "%m"), f"%y = stablehlo.reverse %w, dims = [1] : {T}", f"%z = stablehlo.dot_general %w2, %w2, contracting_dims = [1] x [1] : ({T}, {T}) -> tensor<16x16xf32>", f"%v = stablehlo.dot_general %z, %w, contracting_dims = [1] x [0] : (tensor<16x16xf32>, {T}) -> {T}", results="%w2, %v", w=ALIASES["w"]), ["reads it after result 0 is computed"]),
    "an argument is the result": (step(results="%m, %w", **ALIASES), ["shares its value with another result"] * 2),
    "it is a result as well": (step(UPDATE.replace("%m2", "%m"), results="%w2, %w", w=ALIASES["w"]), ["it is a result as well"]),
    "one value twice": (step(UPDATE.replace("%m2", "%m"), results="%w2, %w2", **ALIASES), ["shares its value with another result"]),
    "nothing fits": (step(READ, "%s = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x8xf32>", results="%y, %s", types="tensor<16x6xf32>, tensor<8x8xf32>", w="jax.buffer_donor = true"), ["no remaining result is f32[16,8]"]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_unused_donation_is_a_warning(name: str, tmp_path: Path) -> None:
    text, reasons = REFUSED[name]
    executable = plan(text, target="cpu")
    kept_reasons = [kept_reason["kept"] for kept_reason in executable.record()["donations"] if kept_reason["kept"]]
    assert len(kept_reasons) == len(reasons) and all(
        reason in kept_reason for reason, kept_reason in zip(reasons, kept_reasons, strict=True)
    )
    assert [warning.code for warning in executable.warnings] == ["MG0111"] * len(kept_reasons)
    assert numbers(executable, tmp_path) == numbers(plan(text.replace("tf.", "no."), target="cpu"), tmp_path)


def numbers(executable: Executable, folder: Path) -> list[bytes]:
    """Return the results of a saved module for random arguments. Checks that the arguments are not modified."""
    executable.save(folder / "m.mgx")
    module, rng = mg.load(folder / "m.mgx"), np.random.default_rng(0)
    args = [rng.standard_normal(b.type.sizes).astype(np.float32) for b in module.inputs]
    copies = [array.copy() for array in args]
    results = module.run(args)
    assert all(np.array_equal(a, b) for a, b in zip(args, copies, strict=True))
    return [array.tobytes() for array in results]


def test_donation_does_not_change_results(tmp_path: Path) -> None:
    assert numbers(training(**ALIASES), tmp_path) == numbers(training(), tmp_path)


def test_donated_module_runs_in_place_on_emulated_gpus(tmp_path: Path) -> None:
    text = step(MOMENT, UPDATE, READ, results="%w2, %m2, %y", types=WITH_Y, **ALIASES)
    mg.compile(text, target="cuda:sm_80", precision="highest").save(tmp_path / "m.mgx")
    module, rng = mg.load(tmp_path / "m.mgx"), np.random.default_rng(0)
    args = [rng.standard_normal(b.type.sizes).astype(np.float32) for b in module.inputs]
    for seed in range(3):
        results = module.run(args, Emulation(races=True, order=seed))
        for got, want in zip(results, module.run(args), strict=True):
            assert np.allclose(got, want, rtol=1e-5, atol=1e-5)


CACHE = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%cache: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>, tf.aliasing_output = 0 : i32},
                %row: tensor<4x1x8xf32>, %at: tensor<i32>) -> tensor<4x16x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %next = stablehlo.dynamic_update_slice %cache, %row, %zero, %at, %zero : (tensor<4x16x8xf32>, tensor<4x1x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x16x8xf32>
  return %next : tensor<4x16x8xf32>
}
"""
LOOP = f"""func.func @main(%w: {T} {{tf.aliasing_output = 0 : i32}}, %n: tensor<i32>) -> {T} {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %c = %w) : tensor<i32>, {T}
   cond {{
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %j = stablehlo.add %i, %one : tensor<i32>
    %d = stablehlo.tanh %c : {T}
    stablehlo.return %j, %d : tensor<i32>, {T}
  }}
  return %r#1 : {T}
}}
"""


def test_donated_cache_is_updated_in_place() -> None:
    executable = plan(CACHE, target="cpu")
    assert executable.plan.overwritten_inputs and executable.warnings == []


def test_loop_state_is_carried_in_the_donated_input(tmp_path: Path) -> None:
    executable = plan(LOOP, target="cpu")
    assert executable.plan.overwritten_inputs and executable.warnings == []
    executable.save(tmp_path / "m.mgx")
    w = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
    (result,) = mg.load(tmp_path / "m.mgx").run([w, np.int32(3)])
    assert np.allclose(result, np.tanh(np.tanh(np.tanh(w))), rtol=1e-5)


def test_checker_rejects_overwriting_undonated_inputs() -> None:
    executable = training(**ALIASES)
    with pytest.raises(ScheduleError, match=r"MG0402.*share bytes"):
        check(replace(executable.plan, donated={}), executable.mesh)
    weights, moments = executable.plan.inputs[:2]
    first, second = executable.plan.outputs[:2]
    with pytest.raises(ScheduleError, match=r"MG0402.*share bytes"):
        check(replace(executable.plan, donated={weights: second, moments: first}), executable.mesh)
    with pytest.raises(ScheduleError, match=r"MG0402.*not an input and an output"):
        check(replace(executable.plan, donated={first: weights}), executable.mesh)


def test_checker_rejects_read_after_donated_write() -> None:
    executable = training(**ALIASES)
    items = executable.plan.items
    (writer,) = (n for n, item in enumerate(items) if executable.plan.outputs[0] in item.outputs)
    reordered = (*items[:writer], *items[writer + 1 :], items[writer])[::-1]
    assert len(items) == 2, "only the read and the update"
    with pytest.raises(ScheduleError, match=r"MG0402.*share bytes"):
        check(replace(executable.plan, items=reordered), executable.mesh)


def test_checker_rejects_in_place_kernel_that_reads_other_indices() -> None:
    """Check a forged plan that places the result of such a kernel over its operand."""
    text, _ = REFUSED["at other places"]
    executable = plan(text, target="cpu")
    plan_ = executable.plan
    operand, result = plan_.inputs[0], plan_.outputs[0]
    buffers = [
        b._replace(offset=plan_.buffers[operand].offset) if n == result else b for n, b in enumerate(plan_.buffers)
    ]
    with pytest.raises(ScheduleError, match=r"MG0402.*share bytes"):
        check(replace(plan_, buffers=tuple(buffers)), executable.mesh)


def test_module_stores_donations_and_rejects_invalid_ones(tmp_path: Path) -> None:
    path = tmp_path / "m.mgx"
    training(**ALIASES).save(path)
    assert [b.donated_to for b in mg.load(path).inputs] == [0, 1, None]
    for index, value in ((1, 0), (1, 7), (1, 2), (2, 0), (0, -1), (0, "w"), (0, None)):
        bad = forged(path, lambda manifest, n=index, v=value: manifest["inputs"][n].update(donated_to=v))
        with pytest.raises((ModuleError, ScheduleError), match=r"MG0502|MG0402"):
            mg.load(bad)
