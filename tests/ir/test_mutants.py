"""Programs that a slip of the pen has made: a diagnostic with its place, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshgen.cli import main

X = "func.func @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {"
MUTANTS = {
    "a declaration in a function": (f"{X}\nshard.grid @g(shape = 4)\nreturn %x : tensor<4x6xf32>\n}}", "MG0104", "does not stand in a function"),
    "an operation in a module": (f"{X}\nreturn %x : tensor<4x6xf32>\n}}\n%c = stablehlo.constant dense<1.0> : tensor<f32>", "MG0104", "does not stand in a module"),
    "fewer elements than the type has": (f"{X}\n%c = stablehlo.constant dense<[1, 2, ]> : tensor<3xi32>\nreturn %x : tensor<4x6xf32>\n}}", "MG0101", "2 elements for a type of 3"),
    "an array of a type that there is not": (f"{X}\n%0 = stablehlo.negate %x {{n = array<i100: 2>}} : tensor<4x6xf32>\nreturn %0 : tensor<4x6xf32>\n}}", "MG0101", "i100"),
    "a branch without a value": (
        f"{X}\n%t = arith.constant true\n%0 = scf.if %t -> (tensor<4x6xf32>) {{\n%1 = math.exp %x : tensor<4x6xf32>\n}} else {{\nscf.yield %x : tensor<4x6xf32>\n}}\nreturn %0 : tensor<4x6xf32>\n}}",
        "MG0104", "gives 0 values for 1 results",
    ),
    "a step that the loop defines": (
        f"{X}\n%a = arith.constant 0 : index\n%b = arith.constant 4 : index\n%0 = scf.for %c = %a to %b step %c iter_args(%t = %x) -> (tensor<4x6xf32>) {{\nscf.yield %t : tensor<4x6xf32>\n}}\nreturn %0 : tensor<4x6xf32>\n}}",
        "MG0104", "not defined where it is used",
    ),
    "an axis that is no number": (
        'mesh.cluster @mesh0(rank = 2, dim_sizes = [2, 2])\nfunc.func @main(%x: tensor<4x6xf32>) -> tensor<8x6xf32> {\n'
        "%0 = mesh.all_gather %x {mesh_axis = [[tensor<4xf32>], []]} : tensor<4x6xf32> -> tensor<8x6xf32>\nreturn %0 : tensor<8x6xf32>\n}",
        "MG0202", "is not in",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_it_is_refused_with_its_place(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, code, message = MUTANTS[name]
    file = tmp_path / "mutant.mlir"
    file.write_text(text)
    assert main(["check", str(file)]) == 1
    error = capsys.readouterr().err
    assert code in error and message in error and "mutant.mlir:" in error


def test_a_pass_whose_stage_is_over_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(__file__).parents[1] / "data" / "mlir" / "b11_summa.mlir"
    assert main(["opt", str(file), "--passes", "propagate,materialize,partition,propagate"]) == 2
    assert "comes after the pass 'propagate'" in capsys.readouterr().err
