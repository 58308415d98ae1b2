"""Tests of the roofline cost model: operations, bytes and seconds of kernels."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from bodies import Body

from bench.products import PUBLISHED, predicted
from meshgen.codegen.emit.matmul_tiles import rank_tiles, specialized_tiles
from meshgen.codegen.roofline.kernel_time import DEVICES, device_of, kernel_bytes, kernel_seconds
from meshgen.codegen.roofline.nest_work import nest_operations
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph, Module
from meshgen.kernels.matmul import Tile, candidates, specialized
from meshgen.kernels.matmul_time import Product, product_seconds, tile_seconds
from meshgen.mesh import make_mesh
from meshgen.ops.flops import graph_flops
from meshgen.ops.precision import with_precision


def product(m: int, k: int, n: int, dtype: str = "bf16") -> Graph:
    b = Body(f"{dtype}[{m},{k}]", f"{dtype}[{k},{n}]")
    return b.done(b.dot(*b.inputs, ((1,), (0,))))


def test_gemm_counts_multiply_adds_twice_and_operands_once() -> None:
    body = product(64, 128, 32)
    assert graph_flops(body) == 2 * 64 * 128 * 32
    assert kernel_bytes(body) == 2 * (64 * 128 + 128 * 32 + 64 * 32)


def test_kernel_bytes_count_each_read_element_once() -> None:
    b = Body("f32[8,4]", "f32[1000,4]")
    x, table = b.inputs
    part = b.op("slice", table, start=(0, 0), limit=(8, 4), stride=(1, 1))
    body = b.done(b.op("add", b.op("multiply", x, x), part))
    assert kernel_bytes(body) == 3 * 8 * 4 * 4
    assert graph_flops(body) == 2 * 8 * 4


def test_gemm_peak_depends_on_precision() -> None:
    """Check the peak rates of f32 GEMMs.

    TF32 has half the peak of bf16, three TF32 MMAs per product have a third of that, and exact f32 has the rate of the
    FMA pipes.
    """
    module = Module(make_mesh({"x": 1}), product(8192, 8192, 8192, "f32"))
    for device in DEVICES.values():
        seconds = [
            kernel_seconds(with_precision(module, precision).graph, device.name) - device.launch_seconds
            for precision in ("default", "high", "highest")
        ]
        fast = kernel_seconds(product(8192, 8192, 8192), device.name) - device.launch_seconds
        assert seconds[0] == pytest.approx(2 * fast, rel=0.1)
        assert seconds[1] == pytest.approx(3 * seconds[0], rel=0.1)
        assert seconds[2] > 2 * seconds[1]


def test_kernel_seconds_grow_with_work_and_include_the_launch() -> None:
    small, large = (kernel_seconds(product(s, s, s), "cuda:sm_90") for s in (256, 8192))
    assert DEVICES["sm_90"].launch_seconds < small < large
    assert large > 2 * 8192**3 / 989e12
    assert kernel_seconds(product(8192, 8192, 8192), "sm_80") > large


def test_predicted_gemm_times_match_published_measurements() -> None:
    """Require errors within 7 %, except for 4096^3, where cuBLAS reached 569 TFLOP/s in the same run."""
    errors = {(row.m, row.k): predicted(row) / row.tflops - 1 for row in PUBLISHED}
    assert errors.pop((4096, 4096)) < 0.18
    assert all(abs(error) < 0.07 for error in errors.values()), errors
    assert all(abs(predicted(row) / row.tflops - 1) < 0.03 for row in PUBLISHED if row.is_fitted)


def test_gemm_with_few_tiles_is_slower_than_its_flops() -> None:
    device = DEVICES["sm_90"]
    tall = Product(1, 128, 128, 16384, "bf16")
    assert product_seconds(tall, device) > 20 * tall.flops / device.peaks["bf16"]
    parts = Product(16, 128, 128, 1024, "bf16")
    assert product_seconds(parts, device) < 0.2 * product_seconds(tall, device)


def test_tile_time_includes_copy_latency() -> None:
    """Check that two stages expose the copy latency. Warp-specialized variants do not wait longer than the usual tile."""
    device, product = DEVICES["sm_90"], Product(1, 8192, 8192, 8192, "bf16")
    usual = fastest(product, device)
    assert tile_seconds(replace(usual, num_stages=2), product, device) > 1.1 * tile_seconds(usual, product, device)
    variants = specialized_tiles(usual, [product], device, is_wide=False)
    assert [(tile.k, tile.num_stages) for tile in variants] == [(128, 2), (128, 2), (64, 4), (64, 3)]
    assert [tile.k for tile in specialized_tiles(usual, [product._replace(k=8256)], device, is_wide=False)] == [
        64,
        64,
    ]  # with k = 128, the last iteration would be half empty
    wide = specialized_tiles(usual, [product], device, is_wide=True)
    assert [(tile.m, tile.n, tile.parts) for tile in wide] == [(256, 128, 1), (128, 256, 2)]


def test_f8_tiles_accumulate_at_most_128_products() -> None:
    """Check tiles for 8-bit floats: their partial accumulator lets one 128 x 128 block fill a multiprocessor."""
    device, product = DEVICES["sm_90"], Product(1, 8192, 8192, 8192, "f8E4M3FN")
    usual = fastest(product, device)
    variants = specialized_tiles(usual, [product], device, is_wide=False)
    assert [(tile.m, tile.n, tile.num_stages, tile.parts) for tile in variants] == [
        (128, 256, 4, 2),
        (128, 256, 3, 2),
        (128, 128, 4, 1),
    ]
    assert tile_seconds(variants[0], product, device) < 0.9 * tile_seconds(usual, product, device)
    all_tiles = [
        form
        for tile in candidates("f8E4M3FN", "sm_90")
        for wide in (False, True)
        for form in (tile, *specialized(tile, "f8E5M2", wide))
    ]
    assert max(tile.k for tile in all_tiles) == 128


def test_top_k_cost_is_quadratic_in_row_length() -> None:
    """Check top-k, which compares each element with all of its row: twice the length takes four times as long."""
    (body, double_body) = (top(size) for size in (1 << 15, 1 << 16))
    assert nest_operations(double_body.nodes[0], double_body) == 4 * nest_operations(body.nodes[0], body)
    short = DEVICES["sm_90"].launch_seconds
    times = [kernel_seconds(graph, "cuda:sm_90") - short for graph in (body, double_body)]
    assert times[1] / times[0] == pytest.approx(4)


def top(size: int) -> Graph:
    b = Body(f"f32[{size}]")
    return b.done(b.op("top_k", b.inputs[0], to="f32[4]", k=4))


def test_device_of_target_is_the_closest_known_gpu() -> None:
    assert device_of("cuda:sm_80,sm_90").name == "sm_80"
    assert device_of("cpu").name == "sm_90"
    assert device_of("cuda:sm_89").name == "sm_80"  # the known GPU with the same tensor cores as sm_89


def fastest(product: Product, device: Device) -> Tile:
    return rank_tiles([product], device)[0][1]


def test_fastest_tile_depends_on_the_gemm() -> None:
    device = DEVICES["sm_90"]
    big = fastest(Product(1, 8192, 8192, 8192, "bf16"), device)
    assert (big.m, big.n, big.k, big.num_warps, big.num_stages) == (128, 256, 64, 8, 3)
    assert fastest(Product(1, 1, 4096, 4096, "bf16"), device).m == 64  # the fewest rows of a warp group's MMA
    assert fastest(Product(1, 1, 4096, 4096, "bf16"), DEVICES["sm_80"]).m == 16
    few = fastest(Product(1, 512, 512, 512, "bf16"), device)
    assert few.m * few.n < big.m * big.n
    for device in DEVICES.values():
        for dtype, size in (("bf16", 2), ("tf32", 4), ("tf32x3", 4), ("f32", 4), ("f64", 8)):
            for tile in candidates(dtype, device.architecture):
                assert (tile.m + tile.n) * tile.k * size * tile.num_stages <= device.shared_bytes


def test_live_accumulators_reduce_the_tiles_that_fit() -> None:
    gemms = [Product(1, 4096, 4096, 4096, "bf16")]
    fitting = [{tile for _, tile in rank_tiles(gemms, device_of("cuda:sm_90"), held)} for held in range(4)]
    assert all(with_fewer_held >= with_more_held for with_fewer_held, with_more_held in itertools.pairwise(fitting))
    assert len(fitting[0]) > len(fitting[-1])
