"""Tests of reduction kinds of partial values: supported dtypes compute correctly, others are refused with a location."""

from __future__ import annotations

import pytest

import meshgen as mg
from meshgen.errors import MeshgenError, ProgramError, ShardingError
from meshgen.mlir.text import parse_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.testing.oracle import check

GRID = 'shard.grid @g(shape = 2x2) {axis_names = ["x", "y"]}\n'
NUMBERS = ("sum", "product", "max", "min")
BITS = ("and", "or", "xor")
ALLOWED = [
    *((dtype, kind) for dtype in ("i1", "i4", "ui8", "i64") for kind in (*NUMBERS, *BITS)),
    *((dtype, kind) for dtype in ("f8E5M2", "bf16", "f64") for kind in NUMBERS),
    *(("complex<f32>", kind) for kind in ("sum", "product")),
]
REFUSED = [("f16", "and"), ("f32", "xor"), ("f8E4M3FN", "or"), ("complex<f32>", "max"), ("complex<f32>", "xor")]


def argument(dtype: str, kind: str) -> str:
    """Return a program that adds to the transpose of an argument, which is unevenly sharded and partial of `kind`."""
    type = f"tensor<5x3x{dtype}>"
    return f"""{GRID}
func.func @f(%x: {type} {{meshgen.sharding = #meshgen.split<@g, [["y"], []] partial = {kind}["x"]>}}, %y: {type})
    -> (tensor<3x5x{dtype}>, {type} {{meshgen.sharding = #meshgen.split<@g, [[], ["y"]] partial = {kind}["x"]>}}) {{
  %a = stablehlo.transpose %x, dims = [1, 0] : ({type}) -> tensor<3x5x{dtype}>
  %b = stablehlo.add %x, %y : {type}
  return %a, %b : tensor<3x5x{dtype}>, {type}
}}
"""


@pytest.mark.parametrize(("dtype", "kind"), ALLOWED)
def test_partial_value_of_supported_dtype_and_kind_passes_check(dtype: str, kind: str) -> None:
    module = parse_text(argument(dtype, kind))
    fused = run_stages(module, Options("cpu"), Timing(), "fuse")["fuse"]
    assert check(module, pipeline=lambda _: fused).ok


def operation(dtype: str, kind: str) -> str:
    return f"""{GRID}
func.func @f(%x: tensor<4x{dtype}>) -> tensor<4x{dtype}> {{
  %s = shard.sharding @g split_axes = [[]] partial = {kind}["x"] : !shard.sharding
  %a = shard.shard %x to %s : tensor<4x{dtype}>
  return %a : tensor<4x{dtype}>
}}
"""


def encoding(dtype: str, kind: str) -> str:
    type = f'tensor<4x{dtype}, #meshgen.split<@g, [[]] partial = {kind}["x"]>>'
    return f"{GRID}\nfunc.func @f(%x: {type}) -> {type} {{\n  return %x : {type}\n}}\n"


@pytest.mark.parametrize("written", [argument, operation, encoding])
@pytest.mark.parametrize(("dtype", "kind"), REFUSED)
def test_partial_kind_unsupported_by_dtype_is_refused(written, dtype: str, kind: str) -> None:
    with pytest.raises(ProgramError, match=f"cannot be partial with kind '{kind}'") as caught:
        parse_text(written(dtype, kind))
    assert {fault.code for fault in caught.value.diagnostics} == {"MG0204"}
    assert all(fault.loc and fault.loc.line > 1 for fault in caught.value.diagnostics)


def test_python_annotation_with_unsupported_kind_is_refused() -> None:
    mesh = mg.make_mesh({"x": 2})
    partial = mg.P(None, partial={"x": "or"})
    for function, specs in ((lambda x: x + 1, {"x": partial}), (lambda x: mg.annotate(x + 1, partial), {})):
        with pytest.raises(ShardingError, match="elements of f32 cannot be partial with kind 'or'"):
            mg.compile(function, mesh, args=[mg.spec("f32[4]")], in_specs=specs, target="cpu")


def test_all_reduce_refuses_kind_unsupported_by_dtype() -> None:
    type = "tensor<4xcomplex<f32>>"
    text = f"{GRID}func.func @f(%x: {type}) -> {type} {{\n  %a = shard.all_reduce %x on @g grid_axes = [0] reduction = max : {type} -> {type}\n  return %a : {type}\n}}"
    with pytest.raises(MeshgenError, match="elements of c64 cannot be reduced with kind 'max'"):
        parse_text(text)
