"""Tests of the `split-reduction` pass: results for every part count, and the cost-based choice of the count."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from meshgen import api
from meshgen.codegen.passes import split_reduction as pass_file
from meshgen.codegen.passes.split_reduction import split_reduction
from meshgen.codegen.roofline import kernel_time
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.ops.classes import PRODUCTS, REDUCTIONS
from meshgen.ops.dot_dims import gemm_extents
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.evaluate.evaluator import evaluate
from tests.codegen.bodies import Body, random_args
from tests.codegen.passes.after import after
from tests.codegen.passes.in_parts import in_parts

Dims = tuple[int, ...]
UNITS = {"f32": 2.0**-16, "bf16": 2.0**-7, "f16": 2.0**-9, "f64": 2.0**-44}


def dot(lhs: str, rhs: str, contract: tuple[Dims, Dims], batch: tuple[Dims, Dims] = ((), ())) -> Graph:
    b = Body(lhs, rhs)
    return b.done(b.dot(*b.inputs, contract, batch))


def kernel_gradient(batch: int, side: int, features: int, outputs: int, dtype: str, kernel: str = "IHWO") -> Graph:
    """Return the gradient of a 3 x 3 convolution kernel.

    Its input features are the image's batch, so it contracts over space and batch.
    """
    sizes = {"I": batch, "H": side, "W": side, "O": outputs}
    b = Body(f"{dtype}[{features},{side},{side},{batch}]", f"{dtype}[{','.join(str(sizes[d]) for d in kernel)}]")
    gradient = b.op(
        "convolution", *b.inputs, window_strides=(1, 1), lhs_dilation=(1, 1), rhs_dilation=(1, 1), window_reversal=(False, False),
        low=(1, 1), high=(1, 1), feature_group_count=1, batch_group_count=1, input_batch=0, input_spatial=(1, 2),
        input_feature=3, kernel_input_feature=kernel.index("I"), kernel_output_feature=kernel.index("O"),
        kernel_spatial=(kernel.index("H"), kernel.index("W")), output_batch=2, output_feature=3, output_spatial=(0, 1), precision=(),
    )  # fmt: skip
    return b.done(gradient)


def fold(type_: str, kind: str, *dims: int) -> Graph:
    b = Body(type_)
    return b.done(b.reduce(kind, b.inputs[0], *dims))


def cumulative(type_: str, kind: str, dim: int) -> Graph:
    """Return a scan along `dim` written as a `reduce_window`."""
    b = Body(type_)
    (x,), builder = b.inputs, Builder(b.graph)
    scalar = TensorType((), x.type.dtype)
    init = builder.splat(neutral(kind, scalar.dtype), scalar)
    window = tuple(n if d == dim else 1 for d, n in enumerate(x.type.sizes))
    ones, none = (1,) * x.type.rank, (0,) * x.type.rank
    attrs = {
        "window_dimensions": window, "window_strides": ones, "base_dilations": ones, "window_dilations": ones,
        "low": tuple(n - 1 for n in window), "high": none,
    }  # fmt: skip
    region = Graph("", [Value(scalar), Value(scalar)])
    region.outputs = [region.add(kind, region.inputs, [scalar]).result]
    return b.done(*builder.append("reduce_window", [x, init], [x.type], attrs, (region,)))


def greatest_and_its_index(type_: str, dim: int) -> Graph:
    """Return an argmax written as a `reduce_region`."""
    b = Body(type_)
    builder, (x,) = Builder(b.graph), b.inputs
    indices = builder.emit("iota", [], TensorType(x.type.shape, "i32"), dim=dim)
    scalars = [TensorType((), x.type.dtype), TensorType((), "i32")]
    inits = [builder.splat(-math.inf, scalars[0]), builder.splat(0, scalars[1])]
    region = Builder(Graph("", [Value(kind) for kind in (*scalars, *scalars)]))
    a, i, c, j = region.graph.inputs
    first = region.compare("GE", a, c)
    region.graph.outputs = [region.emit("select", [first, *pair], pair[0].type) for pair in ((a, c), (i, j))]
    result_types = [v.type.with_shape(n for d, n in enumerate(x.type.sizes) if d != dim) for v in (x, indices)]
    return b.done(
        *builder.append("reduce_region", [x, indices, *inits], result_types, {"dims": (dim,)}, (region.graph,))
    )


FOLDS: dict[str, Callable[[], Graph]] = {
    "dot": lambda: dot("bf16[24,1024]", "bf16[1024,16]", ((1,), (0,))),
    "dot, turned": lambda: dot("f32[1536,24]", "f32[16,1536]", ((0,), (1,))),
    "dot, batches": lambda: dot("f64[3,8,512]", "f64[3,512,8]", ((2,), (1,)), ((0,), (0,))),
    "dot, three contracted dims": lambda: dot("f32[4,6,512,3]", "f32[3,512,6,5]", ((3, 2, 1), (0, 1, 2))),
    **{f"convolution, {k}": lambda k=k: kernel_gradient(12, 6, 4, 3, "f32", k) for k in ("IHWO", "OHWI", "HWIO")},
    "convolution, bf16": lambda: kernel_gradient(4, 6, 4, 3, "bf16"),
    "sum of columns": lambda: fold("f32[384,5]", "add", 0),
    "sum of rows": lambda: fold("f32[5,384]", "add", 1),
    "sum of all": lambda: fold("f64[6,8,64]", "add", 0, 1, 2),
    "sum, dims apart": lambda: fold("f32[96,5,8]", "add", 0, 2),
    "maximum": lambda: fold("bf16[3,256]", "maximum", 1),
    "product": lambda: fold("i32[128,2]", "multiply", 0),
    "cumulative maximum": lambda: cumulative("bf16[3,256]", "maximum", 1),
    "cumulative sum": lambda: cumulative("f32[3,256]", "add", 1),
    "argmax": lambda: greatest_and_its_index("f32[3,256]", 1),
}  # fmt: skip


def assert_same(split: Graph, graph: Graph) -> None:
    """Check that both graphs compute the same for random arguments, up to the rounding of the result dtypes."""
    args = random_args(graph, 2)
    for got, want, value in zip(evaluate(split, args), evaluate(graph, args), graph.outputs, strict=True):
        wide, unit = want.astype(np.float64), UNITS.get(value.type.dtype, 0.0)
        np.testing.assert_allclose(got.astype(np.float64), wide, rtol=0, atol=unit * np.abs(wide).max())


@pytest.mark.parametrize("name", FOLDS)
def test_split_fold_matches_unsplit_for_every_part_count(name: str) -> None:
    graph = FOLDS[name]()
    counted = in_parts(graph)
    assert counted
    for count, split in counted:
        assert [v.type for v in split.outputs] == [v.type for v in graph.outputs], count
        assert_same(split, graph)


def parts(graph: Graph, op: str) -> int:
    """Return the count of `op` nodes after the pass."""
    return [node.op for node in after(split_reduction, graph).nodes].count(op)


@pytest.mark.parametrize("graph", [
    dot("bf16[24,8192]", "bf16[8192,16]", ((1,), (0,))),
    dot("f32[8192,24]", "f32[16,8192]", ((0,), (1,))),
    dot("f64[3,8,2048]", "f64[3,2048,8]", ((2,), (1,)), ((0,), (0,))),
    # of several contracted dims, the longest is split
    dot("f32[4,6,2048,3]", "f32[3,2048,6,5]", ((3, 2, 1), (0, 1, 2))),
    fold("f32[4096,96]", "add", 0),
    fold("f32[4194304]", "add", 0),
    fold("bf16[4096,4096]", "add", 0),
    kernel_gradient(12, 48, 4, 3, "f32"),
])  # fmt: skip
def test_long_folds_are_split_in_two_stages(graph: Graph) -> None:
    split = after(split_reduction, graph)
    assert split.outputs == graph.outputs
    folds = [node for node in split.nodes if node.op in PRODUCTS | REDUCTIONS]
    assert [node.op for node in folds] == [graph.nodes[-1].op, "reduce"]
    assert folds[0].result.type.dtype == ("f64" if graph.outputs[0].type.dtype == "f64" else "f32")
    assert_same(split, graph)


@pytest.mark.parametrize(("type_", "dims", "folds"), [
    ("f32[256,64,1024]", ((1,), (0,)), ["f32[256,1024]", "f32[1024]"]),
    # the sum also reduces dims other than the dim that is split into runs
    ("f32[256,8,2,1024]", ((2,), (0, 1)), ["f32[256,8,1024]", "f32[32,1024]", "f32[1024]"]),
])  # fmt: skip
def test_two_stage_sums_split_only_the_second_stage(type_: str, dims: tuple[Dims, Dims], folds: list[str]) -> None:
    b = Body(type_)
    graph = b.done(b.reduce("add", b.reduce("add", b.inputs[0], *dims[0]), *dims[1]))
    split = after(split_reduction, graph)
    assert [str(node.result.type) for node in split.nodes if node.op == "reduce"] == folds


def test_split_convolution_does_not_exceed_one_wave() -> None:
    split = after(split_reduction, kernel_gradient(64, 16, 64, 64, "f32"))
    (node,) = [node for node in split.nodes if node.op == "convolution"]
    tiles = 9 * 64 // DEFAULT.fusion.split_columns
    assert 1 < gemm_extents(node)[0] <= DEFAULT.fusion.programs // tiles


@pytest.mark.parametrize("graph", [
    dot("bf16[8192,8192]", "bf16[8192,8192]", ((1,), (0,))),  # the unsplit GEMM fills the device
    dot("bf16[128,500]", "bf16[500,128]", ((1,), (0,))),  # contracted size too small
    dot("bf16[128,8191]", "bf16[8191,128]", ((1,), (0,))),  # prime
    dot("i32[24,8192]", "i32[8192,16]", ((1,), (0,))),
    dot("bf16[64,128,4096]", "bf16[64,4096,128]", ((2,), (1,)), ((0,), (0,))),  # the batch dim alone fills the device
    fold("f32[40,9]", "add", 0),
    fold("f32[4096,1024]", "add", 1),  # the unsplit kernel has one program per row, which fills the device
    fold("f32[1048573]", "add", 0),  # prime
    fold("f32[0,64]", "add", 0),
    kernel_gradient(1, 48, 4, 3, "f32"),  # one image
    kernel_gradient(8, 4, 4, 3, "f32"),
    kernel_gradient(2, 32, 256, 256, "f32"),  # the unsplit convolution fills the device
])  # fmt: skip
def test_unprofitable_folds_are_not_split(graph: Graph) -> None:
    assert after(split_reduction, graph).nodes == graph.nodes


def test_gemms_with_shared_operand_are_not_split() -> None:
    b = Body("bf16[128,8192]", "bf16[8192,64]", "bf16[8192,64]")
    x, v, w = b.inputs
    graph = b.done(*(b.dot(x, rhs, ((1,), (0,))) for rhs in (v, w)))
    assert after(split_reduction, graph).nodes == graph.nodes


def mock_split_times(monkeypatch: pytest.MonkeyPatch, launch_seconds: float, fold_seconds: float = 0.0) -> None:
    """Mock a device on which a GEMM takes 1 s and its parts 0.5 s. A fold of two parts takes `fold_seconds`."""
    device = replace(kernel_time.device_of("cpu"), launch_seconds=launch_seconds)
    moved = (2 * 4 + 2) * 24 * 16  # bytes that a fold reads (two f32 parts) and writes (one bf16 result)
    for file in (kernel_time, pass_file):
        monkeypatch.setattr(file, "device_of", lambda target: device)
    monkeypatch.setattr(kernel_time, "product_seconds", lambda of, device: 1.0 if of.batch == 1 else 0.5)
    monkeypatch.setattr(
        kernel_time, "memory_seconds", lambda nbytes, device: fold_seconds * nbytes / moved if nbytes < 2**18 else 0.0
    )


@pytest.mark.parametrize(
    ("launch_seconds", "is_followed", "is_split"),
    [(0.0, False, True), (0.49, False, True), (0.51, False, False), (1.0, False, False),
     (0.0, True, True), (0.24, True, True), (0.26, True, False), (1.0, True, False)],
)  # fmt: skip
def test_split_is_charged_for_launches_of_fold_and_user(
    launch_seconds: float, is_followed: bool, is_split: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that splitting, which saves 0.5 s, is charged one launch for the fold and another for an unfused user."""
    mock_split_times(monkeypatch, launch_seconds)
    b = Body("bf16[24,8192]", "bf16[8192,16]")
    product = b.dot(*b.inputs, ((1,), (0,)))
    graph = b.done(b.op("tanh", product) if is_followed else product)
    assert parts(graph, "reduce") == is_split


@pytest.mark.parametrize(("fold_seconds", "is_split"), [(0.3, True), (0.6, False)])
def test_split_is_charged_for_bytes_of_partial_sums(
    fold_seconds: float, is_split: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the memory traffic of the fold is charged. The traffic grows with the part count, so two parts are
    optimal.
    """
    mock_split_times(monkeypatch, 0.0, fold_seconds)
    split = after(split_reduction, dot("bf16[24,8192]", "bf16[8192,16]", ((1,), (0,))))
    (product,) = [node.result.type for node in split.nodes if node.op == "dot_general"]
    assert str(product) == ("f32[2,24,16]" if is_split else "bf16[24,16]")


@pytest.mark.parametrize(("graph", "count"), [
    # several part counts are near-optimal; the largest is chosen
    (dot("bf16[24,8192]", "bf16[8192,16]", ((1,), (0,))), 32),
    # several part counts are near-optimal; the smallest is chosen, since partial results write many bytes
    (dot("bf16[256,4096]", "bf16[4096,256]", ((1,), (0,))), 4),
])  # fmt: skip
def test_part_count_depends_on_partial_result_bytes(graph: Graph, count: int) -> None:
    (product,) = [node.result.type for node in after(split_reduction, graph).nodes if node.op == "dot_general"]
    assert product.sizes[0] == count


def distances(count: int, others: int, *, is_read: bool) -> Graph:
    """Return, for each of `count` values, the sum of its cubed differences to `others` values.

    If `is_read`, the program also returns the cubed differences.
    """
    b = Body(f"f32[{count}]", f"f32[{others}]")
    x, y = b.inputs
    all_pairs = Value(TensorType((count, others), "f32"))
    difference = b.op("subtract", *(b.wide(value, all_pairs, (dim,)) for dim, value in enumerate((x, y))))
    cubes = b.op("multiply", difference, b.op("multiply", difference, difference))
    return b.done(b.reduce("add", cubes, 1), *([cubes] if is_read else []))


def test_fused_producer_reduces_part_count() -> None:
    """Check that a fused producer limits the parts: partial results must be few relative to the bytes the kernel reads."""
    from_memory = after(split_reduction, fold("f32[32,65536]", "add", 1))
    computed = after(split_reduction, distances(32, 65536, is_read=False))
    (many, _), (few, _) = ([n.result.type.size for n in g.nodes if n.op == "reduce"] for g in (from_memory, computed))
    assert 32 < few < many


def test_shared_producer_does_not_change_part_count() -> None:
    counted = [
        [node.result.type.size for node in after(split_reduction, graph).nodes if node.op == "reduce"]
        for graph in (distances(32, 65536, is_read=True), fold("f32[32,65536]", "add", 1))
    ]
    assert counted[0] == counted[1]


def test_sums_over_equal_shapes_have_equal_part_counts() -> None:
    """Check a sum that reads twice the bytes of another: kernels are fused only if their loops are equal."""
    b = Body("f32[100352,256]", "f32[100352,256]")
    x, y = b.inputs
    graph = b.done(b.reduce("add", x, 0), b.reduce("add", b.op("multiply", x, y), 0))
    first, second = [
        n.result.type for n in after(split_reduction, graph).nodes if n.op == "reduce" and n.result.type.rank == 2
    ]
    assert first == second


def test_fold_cheaper_than_two_launches_is_not_split(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = pass_file.device_of("cpu").launch_seconds
    monkeypatch.setattr(pass_file, "kernel_seconds", lambda body, target: 2 * launch)
    assert parts(fold("f32[4096,96]", "add", 0), "reduce") == 1


@pytest.mark.parametrize(
    ("shape", "kept_dim"),
    [("8192x64", 1), ("16x16x4096", 0), ("16x16x4096", 1), ("1048576", 0), ("32x65536", 0), ("4096x4096", 1)],
)
def test_split_does_not_increase_predicted_step_time(shape: str, kept_dim: int) -> None:
    """Check a program like a norm: a sum with element-wise ops before and after it."""
    rank = shape.count("x") + 1
    dims = [d for d in range(rank) if rank == 1 or d != kept_dim]
    kind = shape.split("x")[kept_dim] + "xf32" if rank > 1 else "f32"
    wide = f"tensor<{shape}xf32>"
    text = f"""func.func @f(%x: {wide}) -> {wide} {{
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.tanh %x : {wide}
      %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = {dims} : ({wide}, tensor<f32>) -> tensor<{kind}>
      %2 = stablehlo.broadcast_in_dim %1, dims = {[kept_dim] if rank > 1 else []} : (tensor<{kind}>) -> {wide}
      %3 = stablehlo.subtract %0, %2 : {wide}
      return %3 : {wide}
    }}"""
    split, unsplit = api.plan(text), api.plan(text, skip=["split-reduction"])
    assert split.passes["split-reduction"].kept
    assert split.cost.step_seconds <= unsplit.cost.step_seconds


@pytest.mark.parametrize(("kind", "dtypes"), [("maximum", {"bf16"}), ("add", {"bf16", "f32"})])
def test_narrow_floats_are_widened_only_for_rounding_folds(kind: str, dtypes: set[str]) -> None:
    for graph in (fold("bf16[3,256]", kind, 1), cumulative("bf16[3,256]", kind, 1)):
        for count, split in in_parts(graph):
            assert {value.type.dtype for node in split.nodes for value in node.results} == dtypes, count
