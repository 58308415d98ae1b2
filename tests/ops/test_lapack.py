"""Tests of LAPACK calls. Unsupported shapes and options are refused before LAPACK itself prints an error."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from meshgen.cli import main
from meshgen.errors import ProgramError
from meshgen.ir.graph import TensorType, dtype_name
from meshgen.mlir.text import parse_text, print_text
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.lapack import ROUTINES, Options, factorize

OPTIONS: dict[str, list[Options]] = {
    "gesdd": [{"mode": mode} for mode in "ASN"],
    "gesvd": [{"mode": "A"}],
    "ormqr": [{"side": side, "trans": trans} for side in "LR" for trans in "NT"],
    "gehrd": [{}, {"low": "1", "high": "2"}, {"low": "3", "high": "2"}, {"low": "0", "high": "9"}, {"low": "x"}],
}


@pytest.mark.parametrize("name", ROUTINES)
@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_lapack_prints_no_error_for_any_shape(name: str, dtype: type, capfd: pytest.CaptureFixture[str]) -> None:
    routine, rng, runs = ROUTINES[name], np.random.default_rng(0), 0
    for sizes in itertools.product((0, 1, 2, 5), repeat=3):
        size_by_letter = dict(zip("mnr", sizes, strict=True)) | {"p": sizes[0], "q": sizes[0]}
        args = [
            np.zeros([size_by_letter[d] for d in words if d in size_by_letter], np.int32) if "int" in words
            else rng.standard_normal([size_by_letter[d] for d in words if d in size_by_letter]).astype(dtype)
            for words in (text.split() for text in routine.operands.split(", "))
        ]  # fmt: skip
        for options in OPTIONS.get(name, [{}]):
            types = routine.result_types([TensorType(a.shape, dtype_name(a.dtype)) for a in args], options)
            if types is not None:
                runs += 1
                assert [a.shape for a in factorize(routine, args, types, options)] == [t.shape for t in types]
    assert runs >= 16 and capfd.readouterr() == ("", "")


REFLECTORS = """func.func @main(%a: tensor<2x{m}x{n}xf32>, %t: tensor<2x{r}xf32>) -> tensor<2x{m}x{n}xf32> {{
  %0 = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%a, %t) : (tensor<2x{m}x{n}xf32>, tensor<2x{r}xf32>) -> tensor<2x{m}x{n}xf32>
  return %0 : tensor<2x{m}x{n}xf32>
}}"""


@pytest.mark.parametrize(("m", "n", "r"), [(3, 5, 3), (5, 3, 4), (2, 3, 1)])
def test_reflectors_of_wide_matrices_are_refused(m: int, n: int, r: int) -> None:
    with pytest.raises(ProgramError, match=r"m >= n >= r") as caught:
        parse_text(REFLECTORS.format(m=m, n=n, r=r), "m.mlir")
    assert str(caught.value.diagnostics[0].loc) == "m.mlir:2"


def test_reflectors_of_tall_matrices_are_orthogonal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "m.mlir"
    text.write_text(REFLECTORS.format(m=5, n=3, r=3))
    assert main(["check", str(text), "--mesh", "x=2"]) == 0
    assert "On entry" not in capfd.readouterr().err


def test_tridiagonal_solve_supports_one_equation() -> None:
    diagonal = np.array([4.0], np.float32)
    *_, solution, info = factorize(ROUTINES["gtsv"], [diagonal, diagonal, diagonal, np.array([[2.0, 6.0]], np.float32)],
                                [TensorType((1,), "f32")] * 3 + [TensorType((1, 2), "f32"), TensorType((), "i32")], {})  # fmt: skip
    assert solution.tolist() == [[0.5, 1.5]] and info == 0


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("is_transposed", [True, False])
@pytest.mark.parametrize(("m", "r"), [(5, 3), (4, 4), (3, 0)])
def test_ormqr_multiplies_by_householder_reflectors(
    dtype: type, left: bool, is_transposed: bool, m: int, r: int
) -> None:
    rng, kind = np.random.default_rng(0), dtype_name(np.dtype(dtype))
    packed, scales = factorize(ROUTINES["geqrf"], [rng.standard_normal((m, r)).astype(dtype)], [TensorType((m, r), kind), TensorType((r,), kind)], {})  # fmt: skip
    square = np.concatenate([packed, np.zeros((m, m - r), dtype)], axis=1)
    q = factorize(ROUTINES["orgqr"], [square, scales], [TensorType((m, m), kind)], {})[0]
    x = rng.standard_normal((m, 7) if left else (7, m)).astype(dtype)
    options = {"side": "RL"[left], "trans": "NT"[is_transposed]}
    result = factorize(ROUTINES["ormqr"], [packed, scales, x], [TensorType(x.shape, kind)], options)[0]
    factor = q.conj().T if is_transposed else q
    np.testing.assert_allclose(result, factor @ x if left else x @ factor, atol=1e-5)


CALL = """func.func @main(%a: tensor<4x3xf32>, %t: tensor<3xf32>, %c: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = stablehlo.custom_call @TARGET(%a, %t, %c) {mhlo.backend_config = {left = true, transpose = true}} : (tensor<4x3xf32>, tensor<3xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}"""


@pytest.mark.parametrize("target", ["lapack_sormqr_ffi", "cusolver_ormqr_ffi"])
def test_jax_ormqr_custom_call_round_trips(target: str) -> None:
    module = parse_text(CALL.replace("TARGET", target), "m.mlir")
    (node,) = module.graph.nodes
    assert (node.attrs.routine, node.attrs.options) == ("ormqr", "side=L trans=T")
    parsed_nodes = parse_text(print_text(module), "again.mlir").graph.nodes
    assert [reparsed.attrs.options for reparsed in parsed_nodes] == ["side=L trans=T"]


@pytest.mark.parametrize("vectors", [("4x4", "4x6"), ("4x4", "6x6")])
def test_svd_without_vectors_accepts_both_vector_shapes(vectors: tuple[str, str]) -> None:
    """`full_matrices` decides the shape of the vectors even if they are not computed."""
    results = ", ".join(f"tensor<{size}xf32>" for size in ("4x6", "4", *vectors)) + ", tensor<i32>"
    text = f"""func.func @main(%a: tensor<4x6xf32>) -> tensor<4xf32> {{
  %0:5 = stablehlo.custom_call @lapack_sgesdd_ffi(%a) {{mhlo.backend_config = {{mode = 78 : ui8}}}} : (tensor<4x6xf32>) -> ({results})
  return %0#1 : tensor<4xf32>
}}"""
    module, x = parse_text(text, "m.mlir"), np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    np.testing.assert_allclose(evaluate(module.graph, [x])[0], np.linalg.svd(x, compute_uv=False), rtol=1e-5)
