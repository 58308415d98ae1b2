"""Tests of separate update kernels for donated inputs that the fused kernel would read at other indices too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen.api import plan
from meshgen.compiled.executable import Executable
from meshgen.ir.predicates import is_kernel
from meshgen.runtime.emulation_options import Emulation

ROWS, SCALES = "tensor<8x16xf32>", "tensor<16xf32>"
DONATED = " {tf.aliasing_output = 0 : i32}"
SPREAD = f"%b = stablehlo.broadcast_in_dim %w, dims = [1] : ({SCALES}) -> {ROWS}"
TYPES = f"{SCALES}, {ROWS}"
RATE = [
    "%r = stablehlo.constant dense<0.1> : tensor<f32>",
    f"%rates = stablehlo.broadcast_in_dim %r, dims = [] : (tensor<f32>) -> {SCALES}",
    f"%s = stablehlo.multiply %g, %rates : {SCALES}",
]
# An update of a normalization's scale: all rows read the scale, and a sum over the rows updates it.
SCALE = (
    [
        SPREAD,
        f"%y = stablehlo.multiply %x, %b : {ROWS}",
        "%zero = stablehlo.constant dense<0.0> : tensor<f32>",
        f"%g = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : ({ROWS}, tensor<f32>) -> {SCALES}",
        *RATE,
        f"%d = stablehlo.multiply %w, %rates : {SCALES}",
        f"%u = stablehlo.add %s, %d : {SCALES}",
        f"%v = stablehlo.subtract %w, %u : {SCALES}",
    ],
    "%v, %y",
    TYPES,
)
# The same update, but another result of the same kernel reads the new scale.
READ_AGAIN = (
    [
        *SCALE[0],
        f"%c = stablehlo.broadcast_in_dim %v, dims = [1] : ({SCALES}) -> {ROWS}",
        f"%z = stablehlo.add %y, %c : {ROWS}",
    ],
    "%v, %z",
    TYPES,
)
REVERSED = (
    [f"%b = stablehlo.reverse %w, dims = [0] : {SCALES}", f"%v = stablehlo.subtract %w, %b : {SCALES}"],
    "%v",
    SCALES,
)
ONLY_REVERSED = ([f"%v = stablehlo.reverse %w, dims = [0] : {SCALES}"], "%v", SCALES)
PRODUCT = (
    [
        f"%p = stablehlo.dot_general %m, %w, contracting_dims = [1] x [0] : (tensor<16x16xf32>, {SCALES}) -> {SCALES}",
        f"%v = stablehlo.subtract %w, %p : {SCALES}",
    ],
    "%v",
    SCALES,
)
IN_PLACE = {"scale": SCALE, "reversed": REVERSED, "product": PRODUCT}
COPIED = {"only reversed": ONLY_REVERSED}


def program(lines: list[str], results: str, types: str, donated: str) -> str:
    arguments = f"%w: {SCALES}{donated}, %x: {ROWS}, %m: tensor<16x16xf32>"
    body = "\n".join(f"  {line}" for line in lines)
    return f"func.func @main({arguments}) -> ({types}) {{\n{body}\n  return {results} : {types}\n}}\n"


def numbers(executable: Executable, path: Path, emulation: Emulation | None = None) -> list[np.ndarray]:
    executable.save(path)
    module, rng = mg.load(path), np.random.default_rng(0)
    args = [rng.standard_normal(b.type.sizes).astype(np.float32) for b in module.inputs]
    return module.run(args, emulation) if emulation else module.run(args)


@pytest.mark.parametrize("name", IN_PLACE)
def test_update_overwrites_its_input(name: str, tmp_path: Path) -> None:
    executable = plan(program(*IN_PLACE[name], DONATED), target="cpu")
    assert executable.warnings == [] and len(executable.plan.overwritten_inputs) == 1
    want = numbers(plan(program(*IN_PLACE[name], ""), target="cpu"), tmp_path / "n.mgx")
    for got, expected in zip(numbers(executable, tmp_path / "m.mgx"), want, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", COPIED)
def test_update_stays_fused_if_every_op_reads_other_indices(name: str) -> None:
    executable = plan(program(*COPIED[name], DONATED), target="cpu")
    assert [warning.code for warning in executable.warnings] == ["MG0111"]
    assert launches(executable) == launches(plan(program(*COPIED[name], ""), target="cpu"))


def test_result_with_two_donors_overwrites_one() -> None:
    text = f"""func.func @main(%w: {SCALES}{DONATED}, %m: {SCALES} {{tf.aliasing_output = 1 : i32}}) -> ({SCALES}, {SCALES}) {{
  %b = stablehlo.reverse %w, dims = [0] : {SCALES}
  %c = stablehlo.reverse %m, dims = [0] : {SCALES}
  %u = stablehlo.add %b, %c : {SCALES}
  %d = stablehlo.subtract %w, %m : {SCALES}
  %v = stablehlo.subtract %d, %u : {SCALES}
  return %v, %v : {SCALES}, {SCALES}
}}
"""
    executable = plan(text, target="cpu")
    assert [warning.message.partition(":")[0] for warning in executable.warnings] == [
        "memory of donated argument 'm' is not reused"
    ]


def launches(executable: Executable) -> int:
    return sum(map(is_kernel, executable.fused.graph.nodes))


def test_scale_update_is_split_off_only_if_donated() -> None:
    assert launches(plan(program(*SCALE, ""), target="cpu")) == 1
    assert launches(plan(program(*SCALE, DONATED), target="cpu")) == 2


def test_updated_scale_with_another_user_is_correct(tmp_path: Path) -> None:
    want = numbers(plan(program(*READ_AGAIN, ""), target="cpu"), tmp_path / "n.mgx")
    got = numbers(plan(program(*READ_AGAIN, DONATED), target="cpu"), tmp_path / "m.mgx")
    for result, expected in zip(got, want, strict=True):
        np.testing.assert_array_equal(result, expected)


def test_session_steps_equal_calls_on_emulated_gpus(tmp_path: Path) -> None:
    """Check that two session steps, which carry the scale from step to step, equal two calls.

    The emulator would report a race between programs of the in-place kernel.
    """
    mg.compile(program(*SCALE, DONATED), target="cuda:sm_80", precision="highest").save(tmp_path / "m.mgx")
    module, rng = mg.load(tmp_path / "m.mgx"), np.random.default_rng(0)
    w, x, m = (rng.standard_normal(b.type.sizes).astype(np.float32) for b in module.inputs)
    want = w
    for seed in range(2):
        result, _ = module.run([want, x, m], Emulation(races=True, order=seed))
        expected = want - (x.sum(0) * np.float32(0.1) + want * np.float32(0.1))
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
        want = result
