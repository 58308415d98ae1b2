"""Tests of the `expand-complex` pass: complex numbers become pairs, and Fourier transforms become GEMMs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen.codegen.algebra.fourier import LARGEST_PRIME, LONGEST, can_transform
from meshgen.codegen.fuse import fuse
from meshgen.codegen.passes.expand_complex import expand_complex
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value, is_complex
from meshgen.ir.regions import all_nodes
from meshgen.mlir.text import parse_text
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.spec import P
from meshgen.testing import oracle
from tests.codegen.bodies import ONE, Body, check, random_args, tensor
from tests.codegen.passes.after import after

SIZES = (1, 2, 3, 8, 45, 97, 131, 360, 512, 768, 1024)
UNIT = {"f32": 2.0**-24, "f64": 2.0**-53}


def check_expansion(graph: Graph, dtype: str, ulps: float) -> Graph:
    """Check that the expanded graph has no complex values, and its results within `ulps` units of the largest element."""
    expanded = after(expand_complex, graph)
    assert not any(is_complex(value.type.dtype) for value in expanded.values())
    args = random_args(graph, 3)
    for got, want in zip(evaluate(expanded, args), evaluate(graph, args), strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        scale = max(1.0, float(np.abs(want).max(initial=0)))
        np.testing.assert_allclose(got, want, rtol=0, atol=ulps * UNIT[dtype] * scale)
    return expanded


def transformed(kind: str, dtype: str, *length: int, batch: int = 2) -> Graph:
    half = (*length[:-1], length[-1] // 2 + 1)
    sizes = ",".join(map(str, (batch, *(half if kind == "IRFFT" else length))))
    b = Body(*[f"{dtype}[{sizes}]"] * (1 if kind == "RFFT" else 2))
    operand = b.inputs[0] if kind == "RFFT" else b.op("complex", *b.inputs)
    spectrum = b.op("fft", operand, kind=kind, length=length)
    return b.done(*([spectrum] if kind == "IRFFT" else [b.op("real", spectrum), b.op("imag", spectrum)]))


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize("size", SIZES)
def test_expanded_transforms_of_rows_match_numpy(size: int, kind: str) -> None:
    check_expansion(transformed(kind, "f32", size), "f32", ulps=16)
    check_expansion(transformed(kind, "f64", size), "f64", ulps=32)


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
def test_expanded_transforms_of_several_dims_match_numpy(kind: str) -> None:
    check_expansion(transformed(kind, "f64", 6, 10), "f64", ulps=16)
    check_expansion(transformed(kind, "f32", 4, 3, 70), "f32", ulps=16)


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "IRFFT"])
@pytest.mark.parametrize("length", [(1,), (2,), (8,), (768,), (4, 6)])
def test_expanded_transforms_of_real_numbers_match_numpy(length: tuple[int, ...], kind: str) -> None:
    """Check transforms of real numbers that are converted to complex, as in `jnp.fft.irfft`."""
    sizes = (3, *length[:-1], length[-1] // 2 + 1 if kind == "IRFFT" else length[-1])
    b = Body(f"f64[{','.join(map(str, sizes))}]")
    spectrum = b.op(
        "fft", b.op("convert", b.inputs[0], to=f"c128[{','.join(map(str, sizes))}]"), kind=kind, length=length
    )
    check_expansion(
        b.done(*([spectrum] if kind == "IRFFT" else [b.op("real", spectrum), b.op("imag", spectrum)])), "f64", ulps=32
    )


def test_transform_of_large_prime_length_is_not_expanded() -> None:
    assert can_transform((LARGEST_PRIME, 7)) and not can_transform((4099,)) and not can_transform((8, 2 * 4099))
    graph = transformed("RFFT", "f32", 4099)
    assert after(expand_complex, graph) is graph


def pairs() -> tuple[Body, Value, Value]:
    b = Body(*["f32[3,5]"] * 4)
    return b, b.op("complex", *b.inputs[:2]), b.op("complex", *b.inputs[2:])


@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "divide"])
def test_expanded_complex_arithmetic_matches_numpy(op: str) -> None:
    b, x, y = pairs()
    z = b.op(op, x, y)
    check_expansion(b.done(b.op("real", z), b.op("imag", z), b.op("abs", z)), "f32", ulps=16)


def test_complex_matmuls_are_expanded() -> None:
    b = Body(*["f32[3,5]"] * 3)
    x, real = b.op("complex", *b.inputs[:2]), b.op("convert", b.inputs[2], to="c64[3,5]")
    products = [b.dot(x, rhs, ((1,), (1,))) for rhs in (x, real)] + [b.dot(real, x, ((1,), (1,)))]
    check_expansion(b.done(*(b.op(part, z) for z in products for part in ("real", "imag"))), "f32", ulps=16)


def test_complex_data_movement_and_reductions_are_expanded() -> None:
    b, x, y = pairs()
    z = b.op("concatenate", b.op("exponential", x), b.op("negate", y), dim=0)
    z = b.op("slice", b.op("transpose", z, perm=(1, 0)), start=(0, 1), limit=(5, 6), stride=(2, 1))
    z = b.op("pad", z, b.constant(1 + 2j, "c64"), low=(1, 0), high=(0, 1), interior=(0, 0))
    flags = b.op("compare", *(b.op(part, z) for part in ("real", "imag")), direction="LT", compare_type="FLOAT")
    total = b.op(
        "reduce", b.op("select", flags, z, b.op("multiply", z, z)), b.constant(0.5j, "c64"), dims=(1,), kind="add"
    )
    wide = b.op("convert", b.op("convert", total, to="c128[4]"), to="c64[4]")
    check_expansion(b.done(b.op("real", wide), b.op("imag", wide)), "f32", ulps=64)


def test_converted_real_number_computes_no_imaginary_part() -> None:
    b = Body("f32[4]")
    z = b.op("convert", b.inputs[0], to="c64[4]")
    expanded = check_expansion(b.done(b.op("real", b.op("multiply", z, z))), "f32", ulps=1)
    assert [node.op for node in expanded.nodes] == ["multiply", "reshape"]


def test_complex_abs_does_not_overflow() -> None:
    b = Body("f32[4]", "f32[4]")
    graph = b.done(b.op("abs", b.op("complex", *b.inputs)))
    args = [np.array([3e30, 0, 1e-30, np.inf], np.float32), np.array([4e30, 0, 1e-30, 1], np.float32)]
    (got,) = evaluate(after(expand_complex, graph), args)
    np.testing.assert_allclose(got, np.abs(args[0] + 1j * args[1].astype(np.complex128)), rtol=1e-6)


def complex_args(graph: Graph, seed: int = 0) -> list[np.ndarray]:
    """Return random arguments for the complex inputs."""
    rng, args = np.random.default_rng(seed), []
    for value in (input_value for input_value in graph.inputs if is_complex(input_value.type.dtype)):
        parts = rng.standard_normal((2, *value.type.sizes))
        args.append((parts[0] + 1j * parts[1]).astype(value.type.numpy_dtype))
    return args


def check_complex_interface(graph: Graph, args: list[np.ndarray] | None = None, ulps: float = 64) -> Graph:
    """Check that only views touch complex arguments and results after the pass, and that the results are the same."""
    expanded, args = after(expand_complex, graph), complex_args(graph) if args is None else args
    assert [value.type for value in expanded.outputs] == [value.type for value in graph.outputs]
    touched = [n for n in all_nodes(expanded) if any(is_complex(v.type.dtype) for v in (*n.operands, *n.results))]
    assert {node.op for node in touched} <= {"view"}
    with np.errstate(all="ignore"):
        results, expected = evaluate(expanded, args), evaluate(graph, args)
    for got, want in zip(results, expected, strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        unit = UNIT["f64" if want.dtype in (np.complex128, np.float64) else "f32"]
        scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0)))
        np.testing.assert_allclose(got, want, rtol=0, atol=ulps * unit * scale)
    return expanded


FUNCTIONS = (
    "negate", "sign", "exponential", "exponential_minus_one", "log", "log_plus_one", "sqrt", "rsqrt", "sine", "cosine", "tan",
    "sinh", "cosh", "tanh", "asin", "acos", "asinh", "acosh", "atanh", "logistic",
)  # fmt: skip


@pytest.mark.parametrize("op", FUNCTIONS)
def test_unary_complex_functions_are_expanded(op: str) -> None:
    b = Body("c128[40]")
    graph = b.done(b.op(op, b.inputs[0]))
    (z,) = complex_args(graph)
    axis = np.array([0, 1e-9, 1e-3j, -0.5 + 1e-9j, 2, -2 - 0.5j, 3j, -30j, 30 + 1j, -30 + 1j], np.complex128)
    poles = {"log": 1, "rsqrt": 1}.get(op, 0)  # 0 is one of the poles
    check_complex_interface(graph, [np.concatenate([2 * z[:30], axis[poles:], [1.5 + 1j] * poles])], ulps=1024)


@pytest.mark.parametrize("op", ["add", "multiply", "divide", "power", "atan2"])
def test_binary_complex_functions_are_expanded(op: str) -> None:
    b = Body("c128[40]", "c128[40]")
    check_complex_interface(b.done(b.op(op, *b.inputs)), ulps=1024)


def test_complex_comparisons_are_expanded() -> None:
    b = Body("c64[4]", "c64[4]")
    graph = b.done(*(b.op("compare", *b.inputs, direction=d, compare_type="FLOAT") for d in ("EQ", "NE")))
    args = [np.array([1, 1j, 2 + 1j, 0], np.complex64), np.array([1, -1j, 2 + 2j, 0], np.complex64)]
    assert [x.tolist() for x in evaluate(after(expand_complex, graph), args)] == [[True, False, False, True], [False, True, True, False]]  # fmt: skip


def test_returned_complex_argument_is_not_copied() -> None:
    b = Body("c64[4]")
    graph = b.done(b.inputs[0], b.op("real", b.inputs[0]))
    assert after(expand_complex, graph).outputs[0] is graph.inputs[0]
    check_complex_interface(graph)


REGIONS = """
func.func @main(%z: tensor<4x6xcomplex<f64>>, %i: tensor<4x1xi32>) -> (tensor<4x6xcomplex<f64>>, tensor<6xcomplex<f64>>, tensor<4x6xcomplex<f64>>,
    tensor<4x6xcomplex<f64>>, tensor<4x6xcomplex<f64>>) {
  %n = stablehlo.constant dense<0> : tensor<i32>
  %w:2 = stablehlo.while(%k = %n, %x = %z) : tensor<i32>, tensor<4x6xcomplex<f64>>
  cond {
    %five = stablehlo.constant dense<5> : tensor<i32>
    %c = stablehlo.compare LT, %k, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %half = stablehlo.constant dense<(0.25, 0.5)> : tensor<4x6xcomplex<f64>>
    %y = stablehlo.multiply %x, %half : tensor<4x6xcomplex<f64>>
    %more = stablehlo.add %y, %z : tensor<4x6xcomplex<f64>>
    stablehlo.return %next, %more : tensor<i32>, tensor<4x6xcomplex<f64>>
  }
  %unit = stablehlo.constant dense<(1.0, 0.0)> : tensor<complex<f64>>
  %p = stablehlo.reduce(%z init: %unit) applies stablehlo.multiply across dimensions = [0] : (tensor<4x6xcomplex<f64>>, tensor<complex<f64>>) -> tensor<6xcomplex<f64>>
  %s = "stablehlo.scatter"(%z, %i, %z) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<complex<f64>>, %b: tensor<complex<f64>>):
    %t = stablehlo.add %a, %b : tensor<complex<f64>>
    stablehlo.return %t : tensor<complex<f64>>
  }) : (tensor<4x6xcomplex<f64>>, tensor<4x1xi32>, tensor<4x6xcomplex<f64>>) -> tensor<4x6xcomplex<f64>>
  %o = "stablehlo.sort"(%z) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<complex<f64>>, %b: tensor<complex<f64>>):
    %l = stablehlo.real %a : (tensor<complex<f64>>) -> tensor<f64>
    %r = stablehlo.real %b : (tensor<complex<f64>>) -> tensor<f64>
    %c = stablehlo.compare LT, %l, %r : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<4x6xcomplex<f64>>) -> tensor<4x6xcomplex<f64>>
  %yes = stablehlo.compare EQ, %n, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %e = "stablehlo.if"(%yes) ({
    %m = stablehlo.multiply %z, %o : tensor<4x6xcomplex<f64>>
    stablehlo.return %m : tensor<4x6xcomplex<f64>>
  }, {
    stablehlo.return %z : tensor<4x6xcomplex<f64>>
  }) : (tensor<i1>) -> tensor<4x6xcomplex<f64>>
  return %w#1, %p, %s, %o, %e : tensor<4x6xcomplex<f64>>, tensor<6xcomplex<f64>>, tensor<4x6xcomplex<f64>>, tensor<4x6xcomplex<f64>>, tensor<4x6xcomplex<f64>>
}
"""


def test_complex_values_in_regions_are_expanded() -> None:
    graph = parse_text(REGIONS).graph
    (z,) = complex_args(graph)
    check_complex_interface(graph, [z, np.array([[1], [3], [1], [0]], np.int32)])


PRODUCTS = """sdy.mesh @mesh = <["x"=3]>
func.func @main(%z: tensor<5x4xcomplex<f32>>, %i: tensor<8xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<complex<f32>>, tensor<5xcomplex<f32>>) {
  %c = stablehlo.constant dense<(2.0, 1.0)> : tensor<complex<f32>>
  %0 = stablehlo.reduce(%i init: %c) applies stablehlo.multiply across dimensions = [0] : (tensor<8xcomplex<f32>>, tensor<complex<f32>>) -> tensor<complex<f32>>
  %w = sdy.sharding_constraint %z <@mesh, [{}, {"x"}]> : tensor<5x4xcomplex<f32>>
  %1 = stablehlo.reduce(%w init: %c) applies stablehlo.multiply across dimensions = [1] : (tensor<5x4xcomplex<f32>>, tensor<complex<f32>>) -> tensor<5xcomplex<f32>>
  return %0, %1 : tensor<complex<f32>>, tensor<5xcomplex<f32>>
}
"""


def test_complex_products_over_uneven_tiles_use_one_as_padding() -> None:
    """Check that the padding of a tile, and the initial value on all devices but one, is 1 without an imaginary part."""
    module = parse_text(PRODUCTS)
    stages = run_stages(module, Options("cuda:sm_80"), Timing(), "fuse")
    assert {"mask_padding", "to_partial"} <= {node.op for node in stages["partition"].graph.nodes}
    result = oracle.check(module, pipeline=lambda _: stages["fuse"])
    assert result.ok, result.faults


def test_scans_over_complex_rows_are_expanded() -> None:
    """Check that the body of an expanded scan has separate rows for the real and imaginary parts."""
    b = Body("c64[6]", "c64[4,6]")
    body = Graph("body", [Value(TensorType((6,), "c64")), Value(TensorType((1, 6), "c64"))])
    inside = Builder(body)
    row = inside.reshape(body.inputs[1], (6,))
    total = inside.elementwise("multiply", body.inputs[0], row)
    body.outputs = [total, inside.reshape(total, (1, 6))]
    attrs = {"trips": 4, "sliced": (1,), "offsets": (0,), "strides": (1,)}
    results = [Value(value.type) for value in b.inputs]
    b.graph.nodes.append(Node("scan", list(b.inputs), results, attrs, regions=(body,)))
    expanded = check_complex_interface(b.done(*results))
    (scan,) = (node for node in expanded.nodes if node.op == "scan")
    assert scan.attrs.sliced == (2, 3) and len(scan.operands) == 4


def test_complex_op_without_a_rule_is_not_expanded() -> None:
    b = Body("f64[3,3]")
    values, _, left, right, info = b.graph.add("lapack", b.inputs, [tensor(t) for t in ("f64[3]", "f64[3]", "c128[3,3]", "c128[3,3]", "i32[]")], {"routine": "geev", "options": ""}).results  # fmt: skip
    graph = b.done(values, b.op("multiply", left, right), info)
    assert after(expand_complex, graph) is graph


SENT = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4x6xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %b: tensor<6x4xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<4x4xcomplex<f32>>, tensor<4x6xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
  %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x6xcomplex<f32>>, tensor<6x4xcomplex<f32>>) -> tensor<4x4xcomplex<f32>>
  %f = stablehlo.fft %a, type = FFT, length = [6] : (tensor<4x6xcomplex<f32>>) -> tensor<4x6xcomplex<f32>>
  return %c, %f : tensor<4x4xcomplex<f32>>, tensor<4x6xcomplex<f32>>
}
"""


def test_complex_program_runs_on_emulated_gpus(tmp_path: Path) -> None:
    """Check complex arguments, results and messages with the module's machine code on emulated GPUs."""
    (tmp_path / "p.mlir").write_text(SENT)
    executable = mg.compile(tmp_path / "p.mlir", target="cuda:sm_90", precision="highest")
    assert executable.comms
    executable.save(tmp_path / "m.mgx")
    rng = np.random.default_rng(0)
    a, b = ((rng.standard_normal(s) + 1j * rng.standard_normal(s)).astype(np.complex64) for s in ((4, 6), (6, 4)))
    product, spectrum = mg.load(tmp_path / "m.mgx").run([a, b], device="emulate")
    np.testing.assert_allclose(product, a @ b, atol=1e-5)
    np.testing.assert_allclose(spectrum, np.fft.fft(a), atol=1e-5)


def test_kernels_of_expanded_transforms_match_reference() -> None:
    """Check the PTX of each kernel of a program that transforms rows. The transformed value needs no complex buffer."""
    graph = transformed("RFFT", "f32", 96, batch=8)
    types = [value.type for value in graph.inputs]
    out_types = [value.type for value in graph.outputs]
    module = Module(ONE, graph, "partition", "main", in_types=types, out_types=out_types,
                    in_shardings=[P(None, None)], out_shardings=[P(None, None)] * 2)  # fmt: skip
    fused = fuse(module)
    assert len(fused.kernels) > 1
    for body in fused.kernels.values():
        check(body, length=16, ulps=32)


def test_too_long_transforms_are_not_expanded() -> None:
    assert can_transform((LONGEST,))
    for length in (2 * LONGEST, 2**61 - 1):  # 2**61 - 1 is prime: trial division would take hours.
        assert not can_transform((length,))
