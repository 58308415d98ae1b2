"""Tests of loading and running modules: correct results, detected damage, and no compiler needed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from meshgen.errors import ArgumentError, MissingError, UsageError
from meshgen.ir.graph import DTYPES, Graph, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.runtime.launch import evaluated
from meshgen.runtime.module_file import tensors
from meshgen.runtime.reference import run_plan
from meshgen.runtime.validation.checker import happens_before
from meshgen.spec import P
from tests.codegen.programs import body, f32, layers, mixed, module
from tests.codegen.test_package import code
from tests.runtime.module_files import normal, saved


def expected_layers(x, count, parts):
    """Compute `layers` on the global array. An all-reduce sums the tiles of all devices."""
    outputs, h = [], x
    for _ in range(count):
        h = np.tanh(h)
        outputs.append(2 * np.tile(h.reshape(parts, -1, 3).sum(0), (parts, 1)))
    return [h, *outputs]


@pytest.mark.parametrize("shape", [(3, 2), (), (0, 4)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_constants_of_every_dtype_round_trip(dtype, shape):
    """This includes dtypes for which safetensors has no name, such as sub-byte integers and complex128."""
    kind = DTYPES[dtype]
    array = np.arange(1, 1 + int(np.prod(shape))).astype(np.float32).astype(kind).reshape(shape)
    (decoded,) = tensors.decode(memoryview(tensors.encode({"3": array}))).values()
    assert (decoded.dtype, decoded.shape, decoded.tobytes()) == (kind, shape, array.tobytes())


@pytest.mark.parametrize(("count", "parts"), [(4, 4), (1, 3), (3, 1)])
def test_saved_module_computes_program(tmp_path, count, parts):
    loaded = saved(tmp_path / "m.mgx", layers(count, 8, parts))
    x = normal(*loaded.inputs[0].type.sizes)
    outputs = loaded(x)
    # tanh is within 2 ulp of f32 per layer. The sum of `parts` values below 1 rounds `parts` - 1 times.
    for output, expected in zip(outputs, expected_layers(x, count, parts), strict=True):
        np.testing.assert_allclose(output, expected, rtol=0, atol=2 * parts * (2 * count + parts) * 2.0**-24)


def test_module_handles_views_constants_scalars_and_forwarded_inputs(tmp_path):
    loaded = saved(tmp_path / "m.mgx", mixed())
    a, s = normal(4, 3), np.float32(0.5)
    o, g, same = loaded(a, s)
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    total = a + np.tile(table, (2, 1))
    np.testing.assert_array_equal(g, total)
    np.testing.assert_array_equal(o, (total * s).reshape(6, 2))
    np.testing.assert_array_equal(same, a)


def rank_program():
    """Return a program with all ops that depend on the rank. It has 5 rows over 3 devices, so the last tile is padded."""
    mesh, local = make_mesh({"x": 3}), TensorType((2, 4), "bf16")
    graph = Graph("masked", [Value(local, "x")])
    masked = graph.add("mask_padding", graph.inputs, [local], {"dim": 0, "axes": ("x",), "size": 5, "fill": 0.0})
    index = graph.add("process_index", [], [TensorType((), "i32")], {"axes": ("x",)}).result
    number = graph.add("convert", [index], [TensorType((), "bf16")]).result
    wide = graph.add("broadcast_in_dim", [number], [local], {"dims": ()}).result
    graph.outputs = [graph.add("add", [masked.result, wide], [local]).result]
    main = Graph("main", [Value(local, "x")])
    out = main.add("kernel", main.inputs, [local], {"kernel": "masked"}).result
    total = main.add("all_reduce", [out], [local], {"axes": ("x",), "kind": "sum"}).result
    main.outputs = [out, total]
    return module(
        main, {"masked": graph}, mesh, [P("x", None)], [P("x", None), P(None, None)], [(5, 4)], [(5, 4), (2, 4)]
    )


def test_kernel_reads_rank_and_masks_padding(tmp_path):
    x = normal(5, 4).astype(ml_dtypes.bfloat16)
    out, total = saved(tmp_path / "m.mgx", rank_program())(x)
    expected = (x.astype(np.float32) + np.repeat([0, 1, 2], 2)[:5, None]).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(out, expected)
    padded = np.concatenate([expected, np.full((1, 4), 2, ml_dtypes.bfloat16)]).astype(np.float32)
    np.testing.assert_array_equal(total, padded.reshape(3, 2, 4).sum(0).astype(ml_dtypes.bfloat16))


def test_every_legal_issue_order_gives_same_results(tmp_path):
    loaded = saved(tmp_path / "m.mgx", layers(5, 8, 2))
    x = normal(8, 3)
    expected = loaded.run([x])
    happens_before_order, _ = happens_before(loaded.schedule.items)
    rng = random.Random(5)
    orders = set()
    for _ in range(10):
        order, remaining = [], list(range(len(happens_before_order.done)))
        while remaining:
            ready = [n for n in remaining if not any(happens_before_order.is_before(m, n) for m in remaining)]
            order.append(rng.choice(ready))
            remaining.remove(order[-1])
        orders.add(tuple(order))
        outputs = run_plan(loaded.manifest, {}, [x], evaluated(loaded.manifest), order)
        for left_array, right in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(left_array, right)
    assert len(orders) > 1


def overwritten(plan):
    """Return a temporary with several uses, and another buffer that an item writes between these uses."""
    for temporary, buffer in enumerate(plan.buffers):
        uses = [n for n, i in enumerate(plan.items) if temporary in (*i.inputs, *i.outputs)]
        between = [
            i for i in plan.items[uses[0] + 1 : uses[-1]] if buffer.kind == "temporary" and i.outputs[0] != temporary
        ]
        for item in between if uses else ():
            return temporary, item.outputs[0]
    raise AssertionError("the schedule has no such pair")


def test_wrong_buffer_offset_changes_results(tmp_path):
    """The reference device uses the planned offsets, so a plan that the checker would reject changes the results."""
    loaded = saved(tmp_path / "m.mgx", layers(4, 8, 2))
    plan = loaded.schedule
    temporary, moved = overwritten(plan)
    buffers = list(plan.buffers)
    buffers[moved] = buffers[moved]._replace(offset=buffers[temporary].offset)
    broken = replace(loaded.manifest, plan=replace(plan, buffers=tuple(buffers)))
    x = normal(8, 3)
    outputs = run_plan(broken, {}, [x], evaluated(loaded.manifest))
    assert any(not np.array_equal(a, b) for a, b in zip(outputs, loaded.run([x]), strict=True))


def test_global_arguments_are_sliced_by_program(tmp_path):
    mesh, whole, local = make_mesh({"x": 4}), f32(10, 3), f32(3, 3)
    cut = Graph("cut", [Value(whole, "x")])
    piece = cut.add("all_slice", cut.inputs, [local], {"axes": ("x",), "dim": 0}).result
    cut.outputs = [cut.add("negate", [piece], [local]).result]
    main = Graph("main", [Value(whole, "x")])
    main.outputs = [main.add("kernel", main.inputs, [local], {"kernel": "cut"}).result]
    program = module(main, {"cut": cut}, mesh, [P("x", None)], [P("x", None)], [(10, 3)], [(10, 3)])
    program.arguments = "global"
    x = normal(10, 3)
    np.testing.assert_array_equal(saved(tmp_path / "m.mgx", program)(x), -x)


def test_single_output_is_array_and_arguments_may_be_named(tmp_path):
    loaded = saved(tmp_path / "m.mgx", layers(0, 8, 2))
    x = normal(8, 3)
    np.testing.assert_array_equal(loaded(x), x)
    np.testing.assert_array_equal(loaded.run({"h": x})[0], x)


def test_stored_weights_are_not_arguments(tmp_path):
    loaded = saved(tmp_path / "m.mgx", mixed(), weights={"a": normal(4, 3)})
    assert [b.name for b in loaded.inputs] == ["s"]
    np.testing.assert_array_equal(loaded(np.float32(1))[2], normal(4, 3))


def test_all_argument_mismatches_are_reported_at_once(tmp_path):
    loaded = saved(tmp_path / "m.mgx", mixed())
    with pytest.raises(ArgumentError) as caught:
        loaded(normal(3, 4), np.float64(1))
    assert [d.code for d in caught.value.diagnostics] == ["MG0601", "MG0601"]
    assert "argument 'a' has type f32[3,4], but the program takes f32[4,3]" in str(caught.value)
    assert "argument 's' has type f64[], but the program takes f32[]" in str(caught.value)
    with pytest.raises(ArgumentError, match="argument 's' is missing"):
        loaded(normal(4, 3))
    with pytest.raises(ArgumentError, match="3 arguments were given by position, but the program takes 2: a, s"):
        loaded(1, 2, 3)
    with pytest.raises(ArgumentError, match="unknown argument 'b'"):
        loaded.run({"a": normal(4, 3), "s": np.float32(1), "b": 1})
    with pytest.raises(ArgumentError, match="elements of"):
        loaded(np.array(["x"] * 12).reshape(4, 3), np.float32(1))


def test_unavailable_and_unknown_devices_are_rejected(tmp_path):
    loaded = saved(tmp_path / "m.mgx", mixed())
    args = [normal(4, 3), np.float32(1)]
    with pytest.raises(MissingError, match="MG0602"):
        loaded.run(args, device="cuda")
    with pytest.raises(UsageError, match="unknown device 'tpu'"):
        loaded.run(args, device="tpu")


def test_sources_binaries_and_stages_are_read_back(tmp_path):
    loaded = saved(tmp_path / "m.mgx", mixed(), **code())
    assert loaded.source("add") == "# add\n"
    assert (loaded.cubin("add", "sm_80"), loaded.cubin("scale", "sm_90")) == (b"other", b"same")
    assert loaded.stages == {"import": "// a\n", "fuse": "// b\n"}
    with pytest.raises(MissingError, match=r"not compiled for sm_100, but for sm_80, sm_90"):
        loaded.cubin("add", "sm_100")


TRITON = {
    "add": """\
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, index, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < 6
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask) + BIAS * index, mask=mask)
""",
    "scale": """\
import triton
import triton.language as tl


@triton.jit
def scale(x, s, out, index, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < 6) * tl.load(s), mask=i < 6)
""",
}


@pytest.mark.parametrize("bias", [0, 1])
def test_interpreter_runs_kernel_source_of_module(tmp_path, bias):
    """With a bias, the source differs from the kernel body and depends on the rank."""
    triton = pytest.importorskip("triton")
    assert triton
    kernel_code = code()
    for name, source in kernel_code["sources"].items():
        source.text, source.grid, source.constants = TRITON[name].replace("BIAS", str(bias)), (2,), {"BLOCK": 4}
    loaded = saved(tmp_path / "m.mgx", mixed(), **kernel_code)
    args = [normal(4, 3), np.float32(0.5)]
    o, g, _ = loaded.run(args, device="interpret")
    want_o, want_g, _ = loaded.run(args)
    rank = bias * np.repeat(np.arange(2, dtype=np.float32), 2)[:, None]
    np.testing.assert_array_equal(g, want_g + rank)
    np.testing.assert_array_equal(o.reshape(4, 3), want_o.reshape(4, 3) + rank * np.float32(0.5))


DEPLOYED = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("xdsl", "triton", "jax", "jaxlib", "scipy", "jinja2", "torch"):
            raise ImportError(f"{name} is not on this machine")

sys.meta_path.insert(0, Refuse())
import numpy as np
from meshgen.runtime.launch import evaluated
from meshgen.runtime.loading import load
out = load(sys.argv[1])(np.ones((4, 3), np.float32), np.float32(2))
assert out[1].shape == (4, 3) and out[1][0, 1] == 2, out
assert not [m for m in sys.modules if m.startswith("meshgen.codegen")]
"""


def test_loading_and_running_needs_only_numpy(tmp_path):
    saved(tmp_path / "m.mgx", mixed(), **code())
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
    command = [sys.executable, "-c", DEPLOYED, str(tmp_path / "m.mgx")]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_module_accepts_empty_tensors(tmp_path):
    mesh, local = make_mesh({"x": 2}), f32(0, 3)
    graph = Graph("main", [Value(local, "e")])
    graph.outputs = [graph.add("kernel", graph.inputs, [local], {"kernel": "tanh"}).result]
    program = module(
        graph, {"tanh": body("tanh", "tanh", [local], local)}, mesh, [P("x", None)], [P("x", None)], [(0, 3)], [(0, 3)]
    )
    assert saved(tmp_path / "m.mgx", program)(np.zeros((0, 3), np.float32)).shape == (0, 3)
