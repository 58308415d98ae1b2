"""Tests of mutated programs: a mistake gives a diagnostic with its location, never a traceback."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from meshgen.cli import main
from meshgen.errors import MeshgenError
from meshgen.mlir.text import parse_text
from tests.mlir.every_op import NAMES, program
from tests.mutants import checked, sources_of
from tests.mutator import mutant

X = "func.func @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {"
MUTANTS = {
    "a declaration in a function": (f"{X}\nshard.grid @g(shape = 4)\nreturn %x : tensor<4x6xf32>\n}}", "MG0104", "is not allowed in a function"),
    "an operation in a module": (f"{X}\nreturn %x : tensor<4x6xf32>\n}}\n%c = stablehlo.constant dense<1.0> : tensor<f32>", "MG0104", "is not allowed in a module"),
    "fewer elements than the type has": (f"{X}\n%c = stablehlo.constant dense<[1, 2, ]> : tensor<3xi32>\nreturn %x : tensor<4x6xf32>\n}}", "MG0101", "expected 3 elements, got 2"),
    "an array of a type that there is not": (f"{X}\n%0 = stablehlo.negate %x {{n = array<i100: 2>}} : tensor<4x6xf32>\nreturn %0 : tensor<4x6xf32>\n}}", "MG0101", "i100"),
    "a branch without a value": (
        f"{X}\n%t = arith.constant true\n%0 = scf.if %t -> (tensor<4x6xf32>) {{\n%1 = math.exp %x : tensor<4x6xf32>\n}} else {{\nscf.yield %x : tensor<4x6xf32>\n}}\nreturn %0 : tensor<4x6xf32>\n}}",
        "MG0104", "region 0 yields 0 values instead of 1",
    ),
    "a step that the loop defines": (
        f"{X}\n%a = arith.constant 0 : index\n%b = arith.constant 4 : index\n%0 = scf.for %c = %a to %b step %c iter_args(%t = %x) -> (tensor<4x6xf32>) {{\nscf.yield %t : tensor<4x6xf32>\n}}\nreturn %0 : tensor<4x6xf32>\n}}",
        "MG0104", "used where it is not defined",
    ),
    "an axis that is no number": (
        'mesh.cluster @mesh0(rank = 2, dim_sizes = [2, 2])\nfunc.func @main(%x: tensor<4x6xf32>) -> tensor<8x6xf32> {\n'
        "%0 = mesh.all_gather %x {mesh_axis = [[tensor<4xf32>], []]} : tensor<4x6xf32> -> tensor<8x6xf32>\nreturn %0 : tensor<8x6xf32>\n}",
        "MG0202", "is not in",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_refused_with_its_location(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, code, message = MUTANTS[name]
    file = tmp_path / "mutant.mlir"
    file.write_text(text)
    assert main(["check", str(file)]) == 1
    error = capsys.readouterr().err
    assert code in error and message in error and "mutant.mlir:" in error


@pytest.mark.parametrize("name", NAMES)
def test_random_mutant_causes_no_internal_error(name: str, tmp_path: Path) -> None:
    """This tries a few mutants of each op's program; `python -m tests.mutants` tries thousands."""
    text, first = program(name), 100 * NAMES.index(name)
    for seed in range(first, first + 4):
        with contextlib.suppress(MeshgenError):
            parse_text(mutant(text, seed))
    code, output = checked(mutant(text, first + 4), tmp_path)
    # exit code 3: values declared as replicated differ; 4: the program is too large to check
    assert code in (0, 1, 3, 4), output


def test_mutants_are_reproducible_and_differ_from_the_program() -> None:
    text = program("gather")
    mutants = [mutant(text, seed) for seed in range(20)]
    assert mutants == [mutant(text, seed) for seed in range(20)]
    assert len(set(mutants)) > 15 and text not in mutants


def test_pass_after_its_stage_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(__file__).parents[1] / "data" / "mlir" / "b11_summa.mlir"
    assert main(["opt", str(file), "--passes", "propagate,materialize,partition,propagate"]) == 2
    assert "comes after 'propagate'" in capsys.readouterr().err


def test_mutation_sources_cover_all_dialects() -> None:
    sources = sources_of([], use_jax=False)
    for word in ("tosa.", "linalg.", "scf.", "tensor.", "arith.", "stablehlo.", "shard."):
        assert sum(word in source for source in sources) > 10, word
