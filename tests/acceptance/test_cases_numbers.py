"""Programs lowered by JAX give JAX's results when they are checked, compiled and run with JAX's arguments."""

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
    """Run a command. Return its exit code and its `--json` document, with stderr as an additional entry."""
    capsys.readouterr()
    code = main([*map(str, words), "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out or "{}") | {"stderr": err}


@pytest.mark.parametrize("name", PROGRAMS)
def test_check_accepts_jax_program(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = document(capsys, "check", small(name), "--target", "cpu")
    assert code == 0, report["stderr"]
    assert report["check"]["ok"] and report["check"]["max_abs_error"] <= report["check"]["tolerance"]
    with np.load(CASES / "small" / f"{name}.npz") as expected:
        assert [tuple(o["shape"]) for o in report["check"]["outputs"]] == [expected[k].shape for k in expected.files]


def read_text(name: str, form: str) -> str:
    """Return the imported program as text, with numbers instead of value names, because the two forms name values
    differently.
    """
    numbers: dict[str, str] = {}
    text = print_text(read_mlir(small(name, form)))
    return re.sub(r"%[\w$.]+", lambda match: numbers.setdefault(match[0], f"%{len(numbers)}"), text)


@pytest.mark.parametrize("name", PROGRAMS)
def test_pretty_and_generic_forms_import_alike(name: str) -> None:
    assert read_text(name, "shardy") == read_text(name, "generic")


def run_case(name: str, device: str, folder: Path, capsys: pytest.CaptureFixture[str], target: str = "cpu") -> None:
    """Compile the program and run the module. Compare with JAX's results on a CPU, whose matmuls are in full f32."""
    module, inputs = folder / f"{name}.mgx", folder / "inputs.npz"
    code, report = document(capsys, "compile", small(name), "--target", target, "--precision", "highest", "-o", module)
    assert code == 0, report["stderr"]
    names = [binding.name for binding in load(module).inputs]
    np.savez(inputs, allow_pickle=False, **dict(zip(names, arguments(name), strict=True)))
    words = ["--device", device, "--input", f"@{inputs}", "--expect", CASES / "small" / f"{name}.npz"]
    code, report = document(capsys, "run", module, *words, "--tolerance", recipe(name)["small"]["tol"])
    assert code == 0, f"{report.get('compared')} {report['stderr']}"
    assert report["compared"] and all(row["ok"] for row in report["compared"])


@pytest.mark.parametrize("name", PROGRAMS)
def test_module_matches_jax(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_case(name, "reference", tmp_path, capsys)


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("block_dp_tp", "sm_80"),  # in f32, whose GEMMs have equal results on all GPUs
        ("block_dp_tp_bf16", "sm_80"),
        ("block_dp_tp_bf16", "sm_90"),
        ("softmax_sharded", "sm_90"),
    ],
)
def test_emulated_kernels_match_jax(name: str, arch: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run the PTX of the module on emulated GPUs, one for each rank."""
    pytest.importorskip("triton")
    run_case(name, "emulate", tmp_path, capsys, f"cuda:{arch}")


def test_interpreted_kernels_match_jax(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton")
    run_case("mlp_1d_ws_2", "interpret", tmp_path, capsys)


def test_wrong_arguments_fail_the_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Changed inputs change the results, so the comparison fails with exit code 3."""
    module = tmp_path / "softmax.mgx"
    assert document(capsys, "compile", small("softmax_sharded"), "--target", "cpu", "-o", module)[0] == 0
    words = ["--expect", CASES / "small" / "softmax_sharded.npz", "--tolerance", 1e-3]
    assert document(capsys, "run", module, *words)[0] == 3
