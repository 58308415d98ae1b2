"""Complex numbers as pairs, and Fourier transforms as products: the same numbers, and programs that stay."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.codegen.fourier import LARGEST_PRIME, can_transform
from meshgen.codegen.fuse import fuse
from meshgen.codegen.passes.expand_complex import expand_complex
from meshgen.ir.graph import Graph, Module, Value, is_complex
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.spec import P
from tests.codegen.bodies import ONE, Body, check, random_args
from tests.codegen.passes.after import after

SIZES = (1, 2, 3, 8, 45, 97, 131, 360, 512, 768, 1024)
UNIT = {"f32": 2.0**-24, "f64": 2.0**-53}


def agree(graph: Graph, dtype: str, ulps: float) -> Graph:
    """The pass leaves no complex number, and results within some units of the largest element."""
    found = after(expand_complex, graph)
    assert not any(is_complex(value.type.dtype) for value in found.values())
    args = random_args(graph, 3)
    for got, want in zip(evaluate(found, args), evaluate(graph, args), strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        scale = max(1.0, float(np.abs(want).max(initial=0)))
        np.testing.assert_allclose(got, want, rtol=0, atol=ulps * UNIT[dtype] * scale)
    return found


def transformed(kind: str, dtype: str, *length: int, batch: int = 2) -> Graph:
    half = (*length[:-1], length[-1] // 2 + 1)
    sizes = ",".join(map(str, (batch, *(half if kind == "IRFFT" else length))))
    b = Body(*[f"{dtype}[{sizes}]"] * (1 if kind == "RFFT" else 2))
    whole = b.inputs[0] if kind == "RFFT" else b.op("complex", *b.inputs)
    found = b.op("fft", whole, kind=kind, length=length)
    return b.done(*([found] if kind == "IRFFT" else [b.op("real", found), b.op("imag", found)]))


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize("size", SIZES)
def test_transforms_of_rows(size: int, kind: str) -> None:
    agree(transformed(kind, "f32", size), "f32", ulps=16)
    agree(transformed(kind, "f64", size), "f64", ulps=32)


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
def test_transforms_of_several_dims(kind: str) -> None:
    agree(transformed(kind, "f64", 6, 10), "f64", ulps=16)
    agree(transformed(kind, "f32", 4, 3, 70), "f32", ulps=16)


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "IRFFT"])
@pytest.mark.parametrize("length", [(1,), (2,), (8,), (768,), (4, 6)])
def test_transforms_of_numbers_without_an_imaginary_part(length: tuple[int, ...], kind: str) -> None:
    """As `jnp.fft.irfft` of real numbers, which are made complex by a conversion."""
    sizes = (3, *length[:-1], length[-1] // 2 + 1 if kind == "IRFFT" else length[-1])
    b = Body(f"f64[{','.join(map(str, sizes))}]")
    found = b.op("fft", b.op("convert", b.inputs[0], to=f"c128[{','.join(map(str, sizes))}]"), kind=kind, length=length)
    agree(b.done(*([found] if kind == "IRFFT" else [b.op("real", found), b.op("imag", found)])), "f64", ulps=32)


def test_a_large_prime_is_no_product() -> None:
    assert can_transform((LARGEST_PRIME, 7)) and not can_transform((4099,)) and not can_transform((8, 2 * 4099))
    graph = transformed("RFFT", "f32", 4099)
    assert after(expand_complex, graph) is graph


def pairs() -> tuple[Body, Value, Value]:
    b = Body(*["f32[3,5]"] * 4)
    return b, b.op("complex", *b.inputs[:2]), b.op("complex", *b.inputs[2:])


@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "divide"])
def test_arithmetic(op: str) -> None:
    b, x, y = pairs()
    z = b.op(op, x, y)
    agree(b.done(b.op("real", z), b.op("imag", z), b.op("abs", z)), "f32", ulps=16)


def test_products_of_matrices() -> None:
    b = Body(*["f32[3,5]"] * 3)
    x, real = b.op("complex", *b.inputs[:2]), b.op("convert", b.inputs[2], to="c64[3,5]")
    both = [b.dot(x, each, ((1,), (1,))) for each in (x, real)] + [b.dot(real, x, ((1,), (1,)))]
    agree(b.done(*(b.op(part, z) for z in both for part in ("real", "imag"))), "f32", ulps=16)


def test_moves_sums_and_choices() -> None:
    b, x, y = pairs()
    z = b.op("concatenate", b.op("exponential", x), b.op("negate", y), dim=0)
    z = b.op("slice", b.op("transpose", z, perm=(1, 0)), start=(0, 1), limit=(5, 6), stride=(2, 1))
    z = b.op("pad", z, b.constant(1 + 2j, "c64"), low=(1, 0), high=(0, 1), interior=(0, 0))
    flags = b.op("compare", *(b.op(part, z) for part in ("real", "imag")), direction="LT", compare_type="FLOAT")
    total = b.op(
        "reduce", b.op("select", flags, z, b.op("multiply", z, z)), b.constant(0.5j, "c64"), dims=(1,), kind="add"
    )
    wide = b.op("convert", b.op("convert", total, to="c128[4]"), to="c64[4]")
    agree(b.done(b.op("real", wide), b.op("imag", wide)), "f32", ulps=64)


def test_a_real_number_has_no_imaginary_part() -> None:
    b = Body("f32[4]")
    z = b.op("convert", b.inputs[0], to="c64[4]")
    found = agree(b.done(b.op("real", b.op("multiply", z, z))), "f32", ulps=1)
    assert [node.op for node in found.nodes] == ["multiply", "reshape"]


def test_absolute_values_do_not_overflow() -> None:
    b = Body("f32[4]", "f32[4]")
    graph = b.done(b.op("abs", b.op("complex", *b.inputs)))
    args = [np.array([3e30, 0, 1e-30, np.inf], np.float32), np.array([4e30, 0, 1e-30, 1], np.float32)]
    (got,) = evaluate(after(expand_complex, graph), args)
    np.testing.assert_allclose(got, np.abs(args[0] + 1j * args[1].astype(np.complex128)), rtol=1e-6)


def test_what_takes_or_returns_complex_numbers_stays() -> None:
    b, x, _ = pairs()
    graph = b.done(x)
    assert after(expand_complex, graph) is graph
    given = Body("c64[4]")
    graph = given.done(given.op("real", given.inputs[0]))
    assert after(expand_complex, graph) is graph


def test_kernels_of_transforms() -> None:
    """Each stage of a spectrum of rows, as PTX; what is transformed needs no complex buffer."""
    graph = transformed("RFFT", "f32", 96, batch=8)
    types = [value.type for value in graph.inputs]
    out_types = [value.type for value in graph.outputs]
    module = Module(ONE, graph, "partition", "main", in_types=types, out_types=out_types,
                    in_shardings=[P(None, None)], out_shardings=[P(None, None)] * 2)  # fmt: skip
    fused = fuse(module)
    assert len(fused.kernels) > 1
    for body in fused.kernels.values():
        check(body, length=16, ulps=32)
