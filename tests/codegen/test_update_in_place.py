"""Windows written into caches in place: when, what a launch then moves, and that modules which would need other bytes are refused."""

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
from meshgen.runtime.emulation import Emulation
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
    """A row of sums over the rows of a cache."""
    scores = f"%s = stablehlo.dot_general %{cache}, %{row}, batching_dims = [0] x [0], contracting_dims = [2] x [2] : ({CACHE}, {ROW}) -> tensor<4x16x1xf32>"
    return (
        scores,
        f"%{result} = stablehlo.dot_general %s, %{cache}, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x16x1xf32>, {CACHE}) -> {ROW}",
    )


def step(*lines: str, results: str, types: str, donated: str = "") -> str:
    """A step on two caches and a row at a place; `donated` are the letters of the caches that are, to results in this order."""
    marks = {c: f", tf.aliasing_output = {donated.index(c)} : i32" if c in donated else "" for c in "kv"}
    caches = "".join(f"%{c}: {CACHE} {SPLIT.replace('DONATED', mark)}, " for c, mark in marks.items())
    head = f"func.func @main({caches}%row: {ROW} {SPLIT.replace('DONATED', '')}, %at: tensor<i32>) -> ({types})"
    body = "\n".join(("  %zero = stablehlo.constant dense<0> : tensor<i32>", *(f"  {line}" for line in lines)))
    return f'sdy.mesh @mesh = <["x"=2]>\n{head} {{\n{body}\n  return {results} : {types}\n}}\n'


def decoding(donated: str) -> str:
    """Both caches take a row, and are read after that."""
    lines = (
        updated("k2", "k", "row"),
        "%half = stablehlo.tanh %row : " + ROW,
        updated("v2", "v", "half"),
        read("y", "k2"),
    )
    return step(*lines, results="%k2, %v2, %y", types=f"{CACHE}, {CACHE}, {WIDE}", donated=donated)


def in_place(schedule: Schedule) -> dict[str, Graph]:
    """The kernels that update in place, those of regions too."""
    return {name: body for name, body in schedule.kernels.items() if updates(body)}


def ran(executable: Executable, folder: Path) -> None:
    """The shipped code computes what the reference does, in several orders of what may run at once, and without races."""
    executable.save(folder / "m.mgx")
    module, rng = mg.load(folder / "m.mgx"), np.random.default_rng(0)
    args = [np.asarray(rng.integers(0, 18) if b.type.rank == 0 else rng.standard_normal(b.type.sizes) * 0.2) for b in module.inputs]  # fmt: skip
    args = [array.astype(b.type.numpy_dtype) for array, b in zip(args, module.inputs, strict=True)]
    wanted = module.run(args, device="reference")
    for seed in range(2):
        for own, want in zip(module.run(args, Emulation(races=True, order=seed)), wanted, strict=True):
            np.testing.assert_allclose(own, want, rtol=1e-4, atol=1e-5)


def test_a_window_of_a_donated_cache_is_all_that_is_written(tmp_path: Path) -> None:
    executable = mg.compile(decoding("kv"), target="cuda:sm_90", precision="highest")
    ((name, body),) = in_place(executable.plan).items()
    assert len(updates(body)) == 2 and executable.sources[name].template == "segmented"
    assert kernel_bytes(body) <= 4 * WINDOW + 16, "two windows and two rows, and where they are"
    ran(executable, tmp_path)


@pytest.mark.parametrize("donated", ["k", ""])
def test_windows_one_after_the_other_are_all_that_is_written(donated: str, tmp_path: Path) -> None:
    """A row at a place and another one three after it: at the end of the cache both are the last row."""
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
    found = in_place(executable.plan)
    assert len(found) == len(donated)
    assert all(kernel_bytes(body) <= 4 * WINDOW + 8 for body in found.values())
    ran(executable, tmp_path)


def test_a_cache_that_stays_is_copied_with_its_window(tmp_path: Path) -> None:
    executable = mg.compile(decoding(""), target="cuda:sm_90", precision="highest")
    assert not in_place(executable.plan)
    assert max(map(kernel_bytes, executable.plan.kernels.values())) >= 4 * LOCAL
    ran(executable, tmp_path)


def test_a_kernel_updates_in_place_only_where_it_may(tmp_path: Path) -> None:
    """One of two equal launches has a donated cache."""
    lines = updated("k2", "k", "row"), *attended("h", "k2"), updated("v2", "v", "h")
    text = step(*lines, results="%k2, %v2", types=f"{CACHE}, {CACHE}", donated="k")
    executable = mg.compile(text, target="cuda:sm_90", precision="highest")
    (name,) = in_place(executable.plan)
    assert name.endswith("_in_place") and name.removesuffix("_in_place") in executable.plan.kernels
    ran(executable, tmp_path)


KEPT = {
    "read later": ((updated("k2", "k", "row"), read("y", "k2"), f"%h = stablehlo.slice %y [0:4, 0:1, 0:8] : ({WIDE}) -> {ROW}",
                    f"%z = stablehlo.dot_general %h, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2] : ({ROW}, {CACHE}) -> tensor<4x1x16xf32>"),
                   "%k2, %z", f"{CACHE}, tensor<4x1x16xf32>"),
    "a result is made of all of it": ((updated("k2", "k", "row"), f"%z = stablehlo.add %k2, %k : {CACHE}"), "%z", CACHE),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_what_others_need_stays(name: str, tmp_path: Path) -> None:
    lines, results, types = KEPT[name]
    executable = mg.compile(step(*lines, results=results, types=types, donated="k"), target="cuda:sm_90", precision="highest")  # fmt: skip
    assert not in_place(executable.plan)
    ran(executable, tmp_path)


def test_a_value_of_the_step_that_is_dead_is_updated_in_place(tmp_path: Path) -> None:
    lines = f"%c = stablehlo.dot_general %k, %v, batching_dims = [0] x [0], contracting_dims = [1] x [1] : ({CACHE}, {CACHE}) -> tensor<4x8x8xf32>", f"%u = stablehlo.dynamic_update_slice %c, %row, %zero, %at, %zero : (tensor<4x8x8xf32>, {ROW}, {INDEX}) -> tensor<4x8x8xf32>", "%y = stablehlo.dot_general %u, %u, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>"  # fmt: skip
    executable = mg.compile(step(*lines, results="%y", types="tensor<4x8x8xf32>"), target="cuda:sm_90", precision="highest")  # fmt: skip
    assert len(in_place(executable.plan)) == 1
    ran(executable, tmp_path)


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
def test_a_scan_of_decode_steps_carries_its_cache_in_place(donated: str, tmp_path: Path) -> None:
    text = step(LOOP, results="%r#1, %r#2", types=f"{CACHE}, {ROW}", donated=donated)
    executable = mg.compile(text, target="cuda:sm_90", precision="highest")
    (scan,) = (item for item in executable.plan.items if item.regions)
    (body,) = in_place(scan.regions[0]).values()
    assert kernel_bytes(body) <= 2 * WINDOW + 8
    ran(executable, tmp_path)


def test_a_session_keeps_its_cache_in_place(tmp_path: Path) -> None:
    executable = mg.compile(decoding("kv"), target="cuda:sm_90", precision="highest")
    executable.save(tmp_path / "m.mgx")
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((5, 4, 1, 8)).astype(np.float32)
    with mg.load(tmp_path / "m.mgx").session("emulate") as session:
        session["k"], session["v"] = np.zeros((2, 4, 16, 8), np.float32)
        for place, row in enumerate(rows):
            session.main(row=row, at=np.int32(place + 3))
        found = np.asarray(session["k"])
    wanted = np.zeros((4, 16, 8), np.float32)
    wanted[:, 3:8] = rows[:, :, 0].swapaxes(0, 1)
    np.testing.assert_array_equal(found, wanted)


def test_a_result_with_other_bytes_than_its_operand_is_refused() -> None:
    """Forged: the cache is donated no more, so its result is elsewhere, and all but the window would be garbage."""
    kept = plan(decoding(""), target="cuda:sm_90").plan
    given = plan(decoding("kv"), target="cuda:sm_90")
    ((name, body),) = in_place(given.plan).items()
    check_plan(given.plan, given.mesh)
    bodies = {each: replace(body, name=each) if each == name.removesuffix("_in_place") else own for each, own in kept.kernels.items()}  # fmt: skip
    with pytest.raises(
        ScheduleError, match=r"MG0402.*updates buffer .* in place, but it does not have the bytes of buffer"
    ):
        check_plan(replace(kept, kernels=bodies), given.mesh)


# --- the kernels themselves ----------------------------------------------------------------------------------------------


def test_the_window_may_be_anywhere_and_of_any_type() -> None:
    b = Body("bf16[8,9]", "f32[2,3]", "i64[]", "i64[]")
    x, u, i, j = b.inputs
    body = b.done(b.op(UPDATE, x, b.op("convert", b.op("tanh", u), to="bf16[2,3]"), i, j))
    for place in ((0, 0), (3, 4), (6, 6), (-1, 50)):
        args = [np.ones((8, 9)), np.full((2, 3), 0.5), np.asarray(place[0], np.int64), np.asarray(place[1], np.int64)]
        assert check(body, args=args).grid == (1, 1, 1)
    assert overwrites(body) == {0: (0,)}


@pytest.mark.parametrize("places", [(0, 0, 1, 2, 5, 5), (4, 4, 4, 4, 4, 4), (2, 2, 9, 9, 3, 3), (5, 0, 0, 5, 5, 1)])
def test_an_element_of_several_windows_is_that_of_the_last(places: tuple[int, ...]) -> None:
    b = Body("f32[8,9]", *["f32[3,4]"] * 3, *["i32[]"] * 6)
    value, windows, starts = b.inputs[0], b.inputs[1:4], b.inputs[4:]
    for number, window in enumerate(windows):
        value = b.op(UPDATE, value, window, *starts[2 * number : 2 * number + 2])
    body = b.done(value)
    windows_of = [np.full((3, 4), number + 1.0) for number in range(3)]
    check(body, args=[np.zeros((8, 9)), *windows_of, *(np.asarray(place, np.int32) for place in places)])


def test_a_window_that_a_later_one_covers_is_not_written() -> None:
    b = Body("f32[3,4]", "f32[3,4]", "f32[3,4]", "i32[]")
    x, u, v, i = b.inputs
    source = check(b.done(b.op(UPDATE, b.op(UPDATE, x, u, i, i), v, i, i)))
    assert source.text.count("tl.store") == 1


def test_a_transposed_update_is_read_by_squares() -> None:
    b = Body("f32[4,128,96]", "f32[96,64]", "i32[]")
    x, u, i = b.inputs
    zero = b.constant(0, "i32")
    turned = b.op("reshape", b.op("transpose", u, perm=(1, 0)), to="f32[1,64,96]")
    source = check(b.done(b.op(UPDATE, x, turned, i, zero, zero)), args=None)
    assert source.grid == (6, 1, 1) and "SIDE" in source.constants


def faulty(reads: str) -> Graph:
    b = Body("f32[8]", "f32[2]", "i32[]", "f32[3]")
    x, u, i, w = b.inputs
    of = b.op("tanh", x) if reads == "made" else b.op(UPDATE, x, w, i) if reads == "shapes" else x
    new = b.op(UPDATE, of, b.op("slice", x, start=(0,), limit=(2,), stride=(1,)) if reads == "again" else u, i)
    last = b.op(UPDATE, new, u, i) if reads == "between" else new
    return {"result": lambda: b.done(b.op("tanh", new)), "twice": lambda: b.done(new, new), "operand": lambda: b.done(new, x), "between": lambda: b.done(last, new)}.get(reads, lambda: b.done(new))()  # fmt: skip


@pytest.mark.parametrize(
    "reads, fault",
    [("result", "make a result"), ("shapes", "of one shape"), *((n, "nothing else") for n in ("made", "again", "twice", "operand", "between"))],
)  # fmt: skip
def test_updates_that_others_depend_on_are_refused(reads: str, fault: str) -> None:
    assert not update_fault(faulty("")) and not body_fault(faulty(""), ONE)
    assert fault in update_fault(faulty(reads)) and body_fault(faulty(reads), ONE)
