"""The pass `fft-to-pencils`: multi-dim transforms are computed one dim at a time, with sharded dims."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen import api
from meshgen.compilation import Compilation
from meshgen.ir.graph import Annotation, Graph, Module, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.mlir.text import parse_text
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.candidates.fft_pencils import pencils
from meshgen.sharding.candidates.search import Search
from meshgen.sharding.propagation.solve import solve_as_written
from meshgen.sharding.rewrites.fft_to_pencils import fft_to_pencils
from meshgen.spec import P
from meshgen.testing.oracle import check

MESH = {"x": 4, "y": 2}
SHAPES = {
    "RFFT": ("f32", (6, 4, 8), "c64", (6, 4, 5)),
    "IRFFT": ("c64", (6, 4, 5), "f32", (6, 4, 8)),
    "FFT": ("c64", (6, 4, 8), "c64", (6, 4, 8)),
    "IFFT": ("c128", (6, 4, 8), "c128", (6, 4, 8)),
}


def fft_graph(kind: str, dims: int) -> Graph:
    dtype, shape, other, result = SHAPES[kind]
    graph = Graph("main", [Value(TensorType(shape, dtype), "x")])
    length = (result if kind == "IRFFT" else shape)[3 - dims :]
    attrs = {"kind": kind, "length": length}
    graph.outputs = [graph.add("fft", graph.inputs, [TensorType(result, other)], attrs).result]
    return graph


def random_values(kind: TensorType) -> np.ndarray:
    rng = np.random.default_rng(0)
    parts = rng.standard_normal((2, *kind.sizes))
    return (parts[0] + 1j * parts[1] if kind.dtype.startswith("c") else parts[0]).astype(kind.numpy_dtype)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("kind", SHAPES)
def test_fft_by_dims_computes_same_result(kind: str, dims: int) -> None:
    graph = fft_graph(kind, dims)
    other = fft_to_pencils.rewrite(graph)
    assert other and all(len(node.attrs.length) == 1 for node in other.nodes if node.op == "fft")
    args = [random_values(graph.inputs[0].type)]
    (expected,), (result,) = evaluate(graph, args), evaluate(other, args)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("kind", SHAPES)
def test_sharded_fft_by_dims_computes_same_result(kind: str) -> None:
    pencils_graph = fft_to_pencils.rewrite(fft_graph(kind, 3))
    assert pencils_graph
    spec = Annotation(P("x", "y", None))
    module = Module(make_mesh(MESH), pencils_graph, in_annotations=[spec], out_annotations=[spec])
    assert check(
        module, pipeline=lambda fft_module: run_stages(fft_module, Options("cpu"), Timing(), "partition")["partition"]
    ).ok


def test_one_dim_fft_and_fft_with_option_are_unchanged() -> None:
    assert fft_to_pencils.rewrite(fft_graph("FFT", 1)) is None
    graph = fft_graph("FFT", 2)
    graph.nodes[0].option = ((), (), (), (), ())
    assert fft_to_pencils.rewrite(graph) is None


def grid(sizes: tuple[int, ...], axes: tuple[str | None, ...]) -> str:
    """Return a forward and inverse transform of a grid sharded over axes of the mesh."""
    half = (*sizes[:-1], sizes[-1] // 2 + 1)
    kinds = [
        f"tensor<{'x'.join(map(str, shape))}x{dtype}>" for shape, dtype in ((sizes, "f32"), (half, "complex<f32>"))
    ]
    split = ", ".join(f'{{"{axis}"}}' if axis else "{}" for axis in axes)
    sharding = f"{{sdy.sharding = #sdy.sharding<@mesh, [{split}]>}}"
    return f"""
      sdy.mesh @mesh = <["x"=4, "y"=2]>
      func.func @main(%x: {kinds[0]} {sharding}) -> ({kinds[0]} {sharding}) {{
        %a = stablehlo.fft %x, type = RFFT, length = {[*sizes]} : ({kinds[0]}) -> {kinds[1]}
        %b = stablehlo.multiply %a, %a : {kinds[1]}
        %c = stablehlo.fft %b, type = IRFFT, length = {[*sizes]} : ({kinds[1]}) -> {kinds[0]}
        return %c : {kinds[0]}
      }}"""


@pytest.mark.parametrize(
    ("sizes", "axes"), [((8192, 8192), ("x", "y")), ((512, 512, 512), ("x", "y", None))], ids=["2d", "3d"]
)
def test_large_grid_fft_uses_all_to_all(sizes: tuple[int, ...], axes: tuple[str | None, ...]) -> None:
    executable = api.plan(grid(sizes, axes))
    cost = executable.cost
    assert {kind for kind, count in executable.comms.counts.items() if count} == {"all_to_all"}
    assert cost.redundant_flops is not None and cost.redundant_flops < 0.01 * cost.flops


def test_small_grid_fft_is_unchanged() -> None:
    """The all-to-all would take longer than transforming the entire grid on each device."""
    executable = api.plan(grid((64, 64), ("x", "y")))
    (transform, *_) = [node for node in executable.stages["propagate"].graph.nodes if node.op == "fft"]
    assert len(transform.attrs.length) == 2


def test_pass_timer_stops_before_candidate_is_compared() -> None:
    """Check that the time of the comparison, which has its own timer, is not also counted for the pass."""
    search = Search(Compilation(), ())
    solved = solve_as_written(parse_text(grid((512, 512, 512), ("x", "y", None))))
    # Keep a reference to the generator: Python closes a dropped generator and leaves its `with` blocks, which would
    # also stop the timer.
    candidates = pencils(search, solved)
    assert next(candidates).passes == (fft_to_pencils,)
    assert search.context.record(fft_to_pencils.name).seconds > 0
