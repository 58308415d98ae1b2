"""Programs that JAX lowered give JAX's numbers: checked, compiled, and run with the arguments that JAX was given."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meshgen.cli import main
from meshgen.frontend.mlir import read_mlir
from meshgen.mlir.text import print_text
from meshgen.runtime.loading import load
from tests.acceptance.cases import CASES, PROGRAMS, arguments, needs_cases, recipe, small

pytestmark = needs_cases


def document(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    """The exit code of a command, and what it prints with `--json`."""
    capsys.readouterr()
    code = main([*map(str, words), "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out or "{}") | {"stderr": err}


@pytest.mark.parametrize("name", PROGRAMS)
def test_check_is_ok(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, got = document(capsys, "check", small(name), "--target", "cpu")
    assert code == 0, got["stderr"]
    assert got["check"]["ok"] and got["check"]["max_abs_error"] <= got["check"]["tolerance"]
    with np.load(CASES / "small" / f"{name}.npz") as expected:
        assert [tuple(o["shape"]) for o in got["check"]["outputs"]] == [expected[k].shape for k in expected.files]


def read_text(name: str, form: str) -> str:
    """The program as it is read from a form; the forms name values differently, so that they are numbered here."""
    numbers: dict[str, str] = {}
    text = print_text(read_mlir(small(name, form)))
    return re.sub(r"%[\w$.]+", lambda found: numbers.setdefault(found[0], f"%{len(numbers)}"), text)


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_forms_are_one_program(name: str) -> None:
    assert read_text(name, "shardy") == read_text(name, "generic")


def run_case(name: str, device: str, place: Path, capsys: pytest.CaptureFixture[str], target: str = "cpu") -> None:
    """Compile the program, run the module, and compare with what JAX computed on a CPU, which multiplies f32."""
    module, inputs = place / f"{name}.mgx", place / "inputs.npz"
    code, got = document(capsys, "compile", small(name), "--target", target, "--precision", "highest", "-o", module)
    assert code == 0, got["stderr"]
    names = [binding.name for binding in load(module).inputs]
    np.savez(inputs, allow_pickle=False, **dict(zip(names, arguments(name), strict=True)))
    words = ["--device", device, "--input", f"@{inputs}", "--expect", CASES / "small" / f"{name}.npz"]
    code, got = document(capsys, "run", module, *words, "--tolerance", recipe(name)["small"]["tol"])
    assert code == 0, f"{got.get('compared')} {got['stderr']}"
    assert got["compared"] and all(row["ok"] for row in got["compared"])


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_module_gives_the_numbers_of_jax(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_case(name, "reference", tmp_path, capsys)


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("block_dp_tp", "sm_80"),  # in f32, which all GPUs multiply alike
        ("block_dp_tp_bf16", "sm_80"),
        ("block_dp_tp_bf16", "sm_90"),
        ("softmax_sharded", "sm_90"),
    ],
)
def test_its_kernels_give_the_numbers_of_jax(
    name: str, arch: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The PTX that ships, on all ranks."""
    pytest.importorskip("triton")
    run_case(name, "emulate", tmp_path, capsys, f"cuda:{arch}")


def test_its_interpreted_kernels_give_the_numbers_of_jax(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton")
    run_case("mlp_1d_ws_2", "interpret", tmp_path, capsys)


def test_wrong_arguments_are_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The comparison can fail: other inputs give other numbers, and exit code 3."""
    module = tmp_path / "softmax.mgx"
    assert document(capsys, "compile", small("softmax_sharded"), "--target", "cpu", "-o", module)[0] == 0
    words = ["--expect", CASES / "small" / "softmax_sharded.npz", "--tolerance", 1e-3]
    assert document(capsys, "run", module, *words)[0] == 3
