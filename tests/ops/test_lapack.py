"""Routines of LAPACK get shapes and options that they take, or are refused; they write nothing of their own."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from meshgen.cli import main
from meshgen.errors import ProgramError
from meshgen.ir.graph import TensorType, dtype_name
from meshgen.mlir.text import parse_text
from meshgen.ops.lapack import ROUTINES, Options, factorise

OPTIONS: dict[str, list[Options]] = {
    "gesdd": [{"mode": mode} for mode in "ASN"],
    "gesvd": [{"mode": "A"}],
    "gehrd": [{}, {"low": "1", "high": "2"}, {"low": "3", "high": "2"}, {"low": "0", "high": "9"}, {"low": "x"}],
}


@pytest.mark.parametrize("name", ROUTINES)
@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_no_shape_makes_lapack_complain(name: str, dtype: type, capfd: pytest.CaptureFixture[str]) -> None:
    routine, rng, runs = ROUTINES[name], np.random.default_rng(0), 0
    for sizes in itertools.product((0, 1, 2, 5), repeat=3):
        known = dict(zip("mnr", sizes, strict=True))
        args = [
            np.zeros([known[d] for d in words if d in known], np.int32) if "int" in words
            else rng.standard_normal([known[d] for d in words if d in known]).astype(dtype)
            for words in (text.split() for text in routine.operands.split(", "))
        ]  # fmt: skip
        for options in OPTIONS.get(name, [{}]):
            types = routine.result_types([TensorType(a.shape, dtype_name(a.dtype)) for a in args], options)
            if types is not None:
                runs += 1
                assert [a.shape for a in factorise(routine, args, types, options)] == [t.shape for t in types]
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


def test_a_system_of_one_equation() -> None:
    one = np.array([4.0], np.float32)
    *_, found, info = factorise(ROUTINES["gtsv"], [one, one, one, np.array([[2.0, 6.0]], np.float32)],
                                [TensorType((1,), "f32")] * 3 + [TensorType((1, 2), "f32"), TensorType((), "i32")], {})  # fmt: skip
    assert found.tolist() == [[0.5, 1.5]] and info == 0
