"""Transforms over several dims, split along a dim at a time."""

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
from meshgen.sharding.candidates.pencils import pencils
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


def transformed(kind: str, dims: int) -> Graph:
    dtype, shape, other, result = SHAPES[kind]
    graph = Graph("main", [Value(TensorType(shape, dtype), "x")])
    length = (result if kind == "IRFFT" else shape)[3 - dims :]
    attrs = {"kind": kind, "length": length}
    graph.outputs = [graph.add("fft", graph.inputs, [TensorType(result, other)], attrs).result]
    return graph


def numbers(kind: TensorType) -> np.ndarray:
    rng = np.random.default_rng(0)
    parts = rng.standard_normal((2, *kind.sizes))
    return (parts[0] + 1j * parts[1] if kind.dtype.startswith("c") else parts[0]).astype(kind.numpy_dtype)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("kind", SHAPES)
def test_transforms_along_one_dim_at_a_time_compute_the_same(kind: str, dims: int) -> None:
    graph = transformed(kind, dims)
    other = fft_to_pencils.rewrite(graph)
    assert other and all(len(node.attrs.length) == 1 for node in other.nodes if node.op == "fft")
    args = [numbers(graph.inputs[0].type)]
    (expected,), (found,) = evaluate(graph, args), evaluate(other, args)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("kind", SHAPES)
def test_devices_compute_the_same_of_their_tiles(kind: str) -> None:
    found = fft_to_pencils.rewrite(transformed(kind, 3))
    assert found
    spec = Annotation(P("x", "y", None))
    module = Module(make_mesh(MESH), found, in_annotations=[spec], out_annotations=[spec])
    assert check(module, pipeline=lambda each: run_stages(each, Options("cpu"), Timing(), "partition")["partition"]).ok


def test_one_dim_and_an_option_stay() -> None:
    assert fft_to_pencils.rewrite(transformed("FFT", 1)) is None
    graph = transformed("FFT", 2)
    graph.nodes[0].option = ((), (), (), (), ())
    assert fft_to_pencils.rewrite(graph) is None


def grid(sizes: tuple[int, ...], axes: tuple[str | None, ...]) -> str:
    """A transform there and back of a grid, split over axes of the mesh."""
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
def test_a_large_grid_is_transformed_in_parts(sizes: tuple[int, ...], axes: tuple[str | None, ...]) -> None:
    found = api.plan(grid(sizes, axes))
    cost = found.cost
    assert {kind for kind, count in found.comms.counts.items() if count} == {"all_to_all"}
    assert cost.redundant_flops is not None and cost.redundant_flops < 0.01 * cost.flops


def test_a_small_grid_is_transformed_as_it_is() -> None:
    """An exchange takes longer than to transform all of it."""
    found = api.plan(grid((64, 64), ("x", "y")))
    (transform, *_) = [node for node in found.stages["propagate"].graph.nodes if node.op == "fft"]
    assert len(transform.attrs.length) == 2


def test_clock_of_the_pass_stops_before_its_candidate_is_compared() -> None:
    """The comparison is timed as well, so its seconds would count twice."""
    search = Search(Compilation(), ())
    solved = solve_as_written(parse_text(grid((512, 512, 512), ("x", "y", None))))
    candidates = pencils(search, solved)  # a generator that is dropped leaves its blocks, which stops clocks too
    assert next(candidates).passes == (fft_to_pencils,)
    assert search.context.record(fft_to_pencils.name).seconds > 0
