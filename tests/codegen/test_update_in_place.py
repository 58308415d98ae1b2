"""Tests of windows written into caches in place: conditions, bytes moved, and rejected modules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen.api import plan
from meshgen.codegen.roofline.kernel_time import kernel_bytes
from meshgen.compiled.executable import Executable
from meshgen.errors import ScheduleError
from meshgen.ir.graph import Graph
from meshgen.mesh import make_mesh
from meshgen.runtime.emulation_options import Emulation
from meshgen.runtime.in_place import UPDATE, overwrites, update_fault, updates
from meshgen.runtime.plan import Schedule
from meshgen.runtime.validation.bodies import body_fault
from meshgen.runtime.validation.checker import check as check_plan
from tests.codegen.bodies import Body, check

CACHE, ROW, WIDE = "tensor<4x16x8xf32>", "tensor<4x1x8xf32>", "tensor<4x16x16xf32>"
SPLIT = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>DONATED}'
OUT = 'sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>'
INDEX = "tensor<i32>, tensor<i32>, tensor<i32>"
LOCAL = 2 * 16 * 8 * 4  # bytes of a cache on a device
WINDOW = 2 * 8 * 4
ONE = make_mesh({"x": 1})


def updated(result: str, cache: str, row: str) -> str:
    return f"%{result} = stablehlo.dynamic_update_slice %{cache}, %{row}, %zero, %at, %zero : ({CACHE}, {ROW}, {INDEX}) -> {CACHE}"


def read(result: str, cache: str) -> str:
    contracted = "batching_dims = [0] x [0], contracting_dims = [2] x [2]"
    return f"%{result} = stablehlo.dot_general %{cache}, %{cache}, {contracted} : ({CACHE}, {CACHE}) -> {WIDE}"


def attended(result: str, cache: str, row: str = "row") -> tuple[str, str]:
    """Return the statements of an attention of one row over the rows of a cache."""
    scores = f"%s = stablehlo.dot_general %{cache}, %{row}, batching_dims = [0] x [0], contracting_dims = [2] x [2] : ({CACHE}, {ROW}) -> tensor<4x16x1xf32>"
    return (
        scores,
        f"%{result} = stablehlo.dot_general %s, %{cache}, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x16x1xf32>, {CACHE}) -> {ROW}",
    )


def step(*lines: str, results: str, types: str, donated: str = "") -> str:
    """Return a step on two caches and a row with its index.

    `donated` lists the donated caches, aliased to results in this order.
    """
    marks = {c: f", tf.aliasing_output = {donated.index(c)} : i32" if c in donated else "" for c in "kv"}
    caches = "".join(f"%{c}: {CACHE} {SPLIT.replace('DONATED', mark)}, " for c, mark in marks.items())
    head = f"func.func @main({caches}%row: {ROW} {SPLIT.replace('DONATED', '')}, %at: tensor<i32>) -> ({types})"
    body = "\n".join(("  %zero = stablehlo.constant dense<0> : tensor<i32>", *(f"  {line}" for line in lines)))
    return f'sdy.mesh @mesh = <["x"=2]>\n{head} {{\n{body}\n  return {results} : {types}\n}}\n'


def decoding(donated: str) -> str:
    """Return a step that writes a row into both caches and then reads one of them."""
    lines = (
        updated("k2", "k", "row"),
        "%half = stablehlo.tanh %row : " + ROW,
        updated("v2", "v", "half"),
        read("y", "k2"),
    )
    return step(*lines, results="%k2, %v2, %y", types=f"{CACHE}, {CACHE}, {WIDE}", donated=donated)


def in_place(schedule: Schedule) -> dict[str, Graph]:
    """Return the kernels that update in place."""
    return {name: body for name, body in schedule.kernels.items() if updates(body)}


def check_on_emulated_gpu(executable: Executable, folder: Path) -> None:
    """Check that the shipped code computes what the reference does, for several interleavings and without races."""
    executable.save(folder / "m.mgx")
    module, rng = mg.load(folder / "m.mgx"), np.random.default_rng(0)
    args = [np.asarray(rng.integers(0, 18) if b.type.rank == 0 else rng.standard_normal(b.type.sizes) * 0.2) for b in module.inputs]  # fmt: skip
    args = [array.astype(b.type.numpy_dtype) for array, b in zip(args, module.inputs, strict=True)]
    references = module.run(args, device="reference")
    for seed in range(2):
        for result, reference in zip(module.run(args, Emulation(races=True, order=seed)), references, strict=True):
            np.testing.assert_allclose(result, reference, rtol=1e-4, atol=1e-5)


def test_donated_cache_update_writes_only_its_window(tmp_path: Path) -> None:
    executable = mg.compile(decoding("kv"), target="cuda:sm_90", precision="highest")
    ((name, body),) = in_place(executable.plan).items()
    assert len(updates(body)) == 2 and executable.sources[name].template == "segmented"
    assert kernel_bytes(body) <= 4 * WINDOW + 16, "two windows, two rows and their start indices"
    check_on_emulated_gpu(executable, tmp_path)


@pytest.mark.parametrize("donated", ["k", ""])
def test_chained_cache_updates_write_only_their_windows(donated: str, tmp_path: Path) -> None:
    """Check two rows three apart; at the end of the cache, both are clamped to the last row."""
    lines = (
        updated("k1", "k", "row"),
        "%three = stablehlo.constant dense<3> : tensor<i32>",
        "%next = stablehlo.add %at, %three : tensor<i32>",
        updated("k2", "k1", "new").replace("%at", "%next"),
        read("y", "k2"),
    )
    lines = ("%new = stablehlo.tanh %row : " + ROW, *lines)
    text = step(*lines, results="%k2, %y", types=f"{CACHE}, {WIDE}", donated=donated)
    executable = mg.compile(text, target="cuda:sm_90", precision="highest")
    updating_kernels = in_place(executable.plan)
    assert len(updating_kernels) == len(donated)
    assert all(kernel_bytes(body) <= 4 * WINDOW + 8 for body in updating_kernels.values())
    check_on_emulated_gpu(executable, tmp_path)


def test_undonated_cache_is_copied(tmp_path: Path) -> None:
    executable = mg.compile(decoding(""), target="cuda:sm_90", precision="highest")
    assert not in_place(executable.plan)
    assert max(map(kernel_bytes, executable.plan.kernels.values())) >= 4 * LOCAL
    check_on_emulated_gpu(executable, tmp_path)


def test_equal_kernels_update_in_place_only_if_donated(tmp_path: Path) -> None:
    """Check two launches of equal kernels, one on a donated cache and one on a cache that is not donated."""
    lines = updated("k2", "k", "row"), *attended("h", "k2"), updated("v2", "v", "h")
    text = step(*lines, results="%k2, %v2", types=f"{CACHE}, {CACHE}", donated="k")
    executable = mg.compile(text, target="cuda:sm_90", precision="highest")
    (name,) = in_place(executable.plan)
    assert name.endswith("_in_place") and name.removesuffix("_in_place") in executable.plan.kernels
    check_on_emulated_gpu(executable, tmp_path)


KEPT = {
    "read later": ((updated("k2", "k", "row"), read("y", "k2"), f"%h = stablehlo.slice %y [0:4, 0:1, 0:8] : ({WIDE}) -> {ROW}",
                    f"%z = stablehlo.dot_general %h, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2] : ({ROW}, {CACHE}) -> tensor<4x1x16xf32>"),
                   "%k2, %z", f"{CACHE}, tensor<4x1x16xf32>"),
    "a result is made of all of it": ((updated("k2", "k", "row"), f"%z = stablehlo.add %k2, %k : {CACHE}"), "%z", CACHE),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_cache_with_other_users_is_not_updated_in_place(name: str, tmp_path: Path) -> None:
    lines, results, types = KEPT[name]
    executable = mg.compile(step(*lines, results=results, types=types, donated="k"), target="cuda:sm_90", precision="highest")  # fmt: skip
    assert not in_place(executable.plan)
    check_on_emulated_gpu(executable, tmp_path)


def test_dead_temporary_is_updated_in_place(tmp_path: Path) -> None:
    lines = f"%c = stablehlo.dot_general %k, %v, batching_dims = [0] x [0], contracting_dims = [1] x [1] : ({CACHE}, {CACHE}) -> tensor<4x8x8xf32>", f"%u = stablehlo.dynamic_update_slice %c, %row, %zero, %at, %zero : (tensor<4x8x8xf32>, {ROW}, {INDEX}) -> tensor<4x8x8xf32>", "%y = stablehlo.dot_general %u, %u, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>"  # fmt: skip
    executable = mg.compile(step(*lines, results="%y", types="tensor<4x8x8xf32>"), target="cuda:sm_90", precision="highest")  # fmt: skip
    assert len(in_place(executable.plan)) == 1
    check_on_emulated_gpu(executable, tmp_path)


LOOP = f"""%one = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<9> : tensor<i32>
  %r:4 = stablehlo.while(%i = %zero, %c = %k, %h = %row, %place = %at) : tensor<i32>, {CACHE}, {ROW}, tensor<i32>
   cond {{
    %p = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %j = stablehlo.add %i, %one : tensor<i32>
    %next = stablehlo.add %place, %one : tensor<i32>
    {updated("d", "c", "h").replace("%at", "%place")}
    {" ".join(attended("o", "d", "h"))}
    stablehlo.return %j, %d, %o, %next : tensor<i32>, {CACHE}, {ROW}, tensor<i32>
  }}"""


@pytest.mark.parametrize("donated", ["k", ""])
def test_scan_of_decode_steps_updates_its_cache_in_place(donated: str, tmp_path: Path) -> None:
    text = step(LOOP, results="%r#1, %r#2", types=f"{CACHE}, {ROW}", donated=donated)
    executable = mg.compile(text, target="cuda:sm_90", precision="highest")
    (scan,) = (item for item in executable.plan.items if item.regions)
    (body,) = in_place(scan.regions[0]).values()
    assert kernel_bytes(body) <= 2 * WINDOW + 8
    check_on_emulated_gpu(executable, tmp_path)


def test_session_updates_its_cache_in_place(tmp_path: Path) -> None:
    executable = mg.compile(decoding("kv"), target="cuda:sm_90", precision="highest")
    executable.save(tmp_path / "m.mgx")
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((5, 4, 1, 8)).astype(np.float32)
    with mg.load(tmp_path / "m.mgx").session("emulate") as session:
        session["k"], session["v"] = np.zeros((2, 4, 16, 8), np.float32)
        for step_index, row in enumerate(rows):
            session.main(row=row, at=np.int32(step_index + 3))
        cache = np.asarray(session["k"])
    expected = np.zeros((4, 16, 8), np.float32)
    expected[:, 3:8] = rows[:, :, 0].swapaxes(0, 1)
    np.testing.assert_array_equal(cache, expected)


def test_checker_rejects_in_place_update_without_aliasing() -> None:
    """Check a forged plan whose cache is not donated: outside the window, its result would be garbage."""
    copied_plan = plan(decoding(""), target="cuda:sm_90").plan
    donated_plan = plan(decoding("kv"), target="cuda:sm_90")
    ((name, body),) = in_place(donated_plan.plan).items()
    check_plan(donated_plan.plan, donated_plan.mesh)
    bodies = {kernel_name: replace(body, name=kernel_name) if kernel_name == name.removesuffix("_in_place") else kernel_body for kernel_name, kernel_body in copied_plan.kernels.items()}  # fmt: skip
    with pytest.raises(
        ScheduleError, match=r"MG0402.*updates buffer .* in place, but it does not have the bytes of buffer"
    ):
        check_plan(replace(copied_plan, kernels=bodies), donated_plan.mesh)


# --- update kernels ----------------------------------------------------------------------------------------------


def test_update_kernel_supports_any_start_and_dtype() -> None:
    b = Body("bf16[8,9]", "f32[2,3]", "i64[]", "i64[]")
    x, u, i, j = b.inputs
    body = b.done(b.op(UPDATE, x, b.op("convert", b.op("tanh", u), to="bf16[2,3]"), i, j))
    for start in ((0, 0), (3, 4), (6, 6), (-1, 50)):
        args = [np.ones((8, 9)), np.full((2, 3), 0.5), np.asarray(start[0], np.int64), np.asarray(start[1], np.int64)]
        assert check(body, args=args).grid == (1, 1, 1)
    assert overwrites(body) == {0: (0,)}


@pytest.mark.parametrize(
    "start_indices", [(0, 0, 1, 2, 5, 5), (4, 4, 4, 4, 4, 4), (2, 2, 9, 9, 3, 3), (5, 0, 0, 5, 5, 1)]
)
def test_overlapping_updates_keep_the_last_window(start_indices: tuple[int, ...]) -> None:
    b = Body("f32[8,9]", *["f32[3,4]"] * 3, *["i32[]"] * 6)
    value, windows, starts = b.inputs[0], b.inputs[1:4], b.inputs[4:]
    for index, window in enumerate(windows):
        value = b.op(UPDATE, value, window, *starts[2 * index : 2 * index + 2])
    body = b.done(value)
    windows_of = [np.full((3, 4), index + 1.0) for index in range(3)]
    check(body, args=[np.zeros((8, 9)), *windows_of, *(np.asarray(start, np.int32) for start in start_indices)])


def test_overwritten_window_is_not_stored() -> None:
    b = Body("f32[3,4]", "f32[3,4]", "f32[3,4]", "i32[]")
    x, u, v, i = b.inputs
    source = check(b.done(b.op(UPDATE, b.op(UPDATE, x, u, i, i), v, i, i)))
    assert source.text.count("tl.store") == 1


def test_transposed_update_uses_square_tiles() -> None:
    b = Body("f32[4,128,96]", "f32[96,64]", "i32[]")
    x, u, i = b.inputs
    zero = b.constant(0, "i32")
    transposed = b.op("reshape", b.op("transpose", u, perm=(1, 0)), to="f32[1,64,96]")
    source = check(b.done(b.op(UPDATE, x, transposed, i, zero, zero)), args=None)
    assert source.grid == (6, 1, 1) and "SIDE" in source.constants


def faulty(reads: str) -> Graph:
    b = Body("f32[8]", "f32[2]", "i32[]", "f32[3]")
    x, u, i, w = b.inputs
    operand = b.op("tanh", x) if reads == "made" else b.op(UPDATE, x, w, i) if reads == "shapes" else x
    updated_value = b.op(
        UPDATE, operand, b.op("slice", x, start=(0,), limit=(2,), stride=(1,)) if reads == "again" else u, i
    )
    last = b.op(UPDATE, updated_value, u, i) if reads == "between" else updated_value
    return {"result": lambda: b.done(b.op("tanh", updated_value)), "twice": lambda: b.done(updated_value, updated_value), "operand": lambda: b.done(updated_value, x), "between": lambda: b.done(last, updated_value)}.get(reads, lambda: b.done(updated_value))()  # fmt: skip


@pytest.mark.parametrize(
    "reads, fault",
    [("result", "make a result"), ("shapes", "of one shape"), *((n, "nothing else") for n in ("made", "again", "twice", "operand", "between"))],
)  # fmt: skip
def test_update_bodies_with_other_uses_are_rejected(reads: str, fault: str) -> None:
    assert not update_fault(faulty("")) and not body_fault(faulty(""), ONE)
    assert fault in update_fault(faulty(reads)) and body_fault(faulty(reads), ONE)
