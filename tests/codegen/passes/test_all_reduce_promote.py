"""Tests of the `all-reduce-promote` pass: floating-point reductions over devices keep NaN, infinities and zeros."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen.ccl.lower_groups import native_reduction
from meshgen.codegen.passes.all_reduce_promote import all_reduce_promote
from meshgen.ir.graph import DTYPES, Graph, Module, TensorType, Value, is_float
from meshgen.ir.notes import NO_NOTES, Notes
from meshgen.mesh import make_mesh
from meshgen.ops.types.inference import verify_graph
from meshgen.runtime.simulate import simulate
from meshgen.spec import P
from tests.codegen.passes.after import after

MESH = make_mesh({"x": 4})
FLOATS = [dtype for dtype in DTYPES if is_float(dtype)]
SPECIAL = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5]


def reduced(op: str, dtype: str, kind: str) -> Module:
    """Return a program that reduces an argument f[4, 8] over the devices."""
    rows = {"all_reduce": 4, "reduce_scatter": 1}[op]
    source, target = TensorType((4, 8), dtype), TensorType((rows, 8), dtype)
    graph = Graph("main", [Value(source, "x")])
    attrs = {"axes": ("x",), "kind": kind, **({"dim": 0} if op == "reduce_scatter" else {})}
    graph.outputs = [graph.add(op, graph.inputs, [target], attrs, notes=Notes(why="asked for")).result]
    types = [kind.with_shape((kind.sizes[0] * MESH.size, 8)) for kind in (source, target)]
    shardings = [P("x", None)]
    return Module(
        MESH,
        graph,
        "partition",
        in_types=types[:1],
        out_types=types[1:],
        in_shardings=shardings,
        out_shardings=shardings,
    )


def special(dtype: str) -> np.ndarray:
    """Return special values such that every pair of them meets on two of the devices."""
    rng = np.random.default_rng(3)
    return np.stack([rng.permutation(SPECIAL) for _ in range(16)]).astype(TensorType((), dtype).numpy_dtype)


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("op", ["all_reduce", "reduce_scatter"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_float_extremes_are_reduced_as_ordered_integers(op: str, dtype: str, kind: str) -> None:
    """Check max and min over floats as reductions of ordered integers. For zeros of both signs, either sign is correct."""
    module = reduced(op, dtype, kind)
    rewritten = after(all_reduce_promote, module.graph, MESH)
    assert verify_graph(rewritten, MESH) == []
    (sent,) = (node for node in rewritten.nodes if node.op == op)
    assert sent.result.type.dtype == ("i64" if dtype == "f64" else "i32")
    assert sent.notes == module.graph.nodes[0].notes != NO_NOTES
    expected = simulate(module, [special(dtype)])[0].astype(np.float64)
    module.graph = rewritten
    results = simulate(module, [special(dtype)])[0].astype(np.float64)
    np.testing.assert_array_equal(results, expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_sums_are_promoted_only_for_dtypes_nccl_lacks(dtype: str) -> None:
    module = reduced("all_reduce", dtype, "sum")
    rewritten = after(all_reduce_promote, module.graph, MESH)
    is_same = native_reduction("sum", dtype, dtype) is not None
    (sent,) = (node for node in rewritten.nodes if node.op == "all_reduce")
    assert (sent is module.graph.nodes[0]) == is_same and sent.result.type.dtype == (dtype if is_same else "f32")


def test_float_max_is_not_a_native_nccl_reduction() -> None:
    """Check that max of floats is not a native reduction: NCCL would drop a NaN."""
    assert native_reduction("max", "f32", "f32") is None and native_reduction("max", "i32", "i32") is not None


def test_promotion_skips_single_device_groups_and_other_reductions() -> None:
    for module in (reduced("all_reduce", "i32", "max"), reduced("all_reduce", "f32", "product")):
        assert after(all_reduce_promote, module.graph, MESH).nodes == module.graph.nodes
    alone = reduced("all_reduce", "f32", "max")
    assert after(all_reduce_promote, alone.graph, make_mesh({"x": 1})).nodes == alone.graph.nodes


TEXT = """module { sdy.mesh @mesh = <["x"=4]>
  func.func @main(%a: tensor<8x8xTYPE> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8xTYPE> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %c = stablehlo.constant dense<START> : tensor<TYPE>
    %m = stablehlo.reduce(%a init: %c) applies stablehlo.OP across dimensions = [0] : (tensor<8x8xTYPE>, tensor<TYPE>) -> tensor<8xTYPE>
    return %m : tensor<8xTYPE>
  }
}
"""


@pytest.mark.parametrize(
    ("dtype", "op", "start"),
    [("f32", "maximum", "0xFF800000"), ("bf16", "minimum", "0x7F80"), ("f8E5M2", "maximum", "0xFC"), ("f8E5M2", "add", "0.0")],
)  # fmt: skip
def test_gpu_reductions_keep_nan_and_support_8_bit_floats(dtype: str, op: str, start: str, tmp_path: Path) -> None:
    """Check results where NCCL's own reduction fails: the emulated NCCL drops NaN and has no sums of 8-bit floats."""
    (tmp_path / "p.mlir").write_text(TEXT.replace("TYPE", dtype).replace("OP", op).replace("START", start))
    mg.compile(tmp_path / "p.mlir", target="cuda:sm_90").save(tmp_path / "p.mgx")
    argument = np.zeros((8, 8), TensorType((), dtype).numpy_dtype)
    argument[3, 1], argument[5, 2], argument[0, 3], argument[:, 4] = np.nan, -np.inf, np.inf, 0.25
    result = mg.load(tmp_path / "p.mgx").run([argument], "emulate")[0].astype(np.float64)
    fold = {"maximum": np.maximum, "minimum": np.minimum, "add": np.add}[op]
    np.testing.assert_array_equal(result, fold.reduce(argument.astype(np.float64), axis=0))


@pytest.mark.parametrize("kind", ["max", "min"])
def test_reduce_to_root_is_not_promoted(kind: str) -> None:
    """Check `reduce_to`, whose result is defined on one device only.

    The other devices hold garbage. Converted back from an integer, garbage could look like a valid float.
    """
    tile = TensorType((4, 8), "f32")
    graph = Graph("main", [Value(tile, "x")])
    graph.outputs = [graph.add("reduce_to", graph.inputs, [tile], {"axes": ("x",), "kind": kind, "root": 0}).result]
    assert [node.op for node in after(all_reduce_promote, graph, MESH).nodes] == ["reduce_to"]
