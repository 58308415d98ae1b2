"""The command line on a small program: the output, files and exit code of each command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meshgen.cli import main
from meshgen.packages import install_command
from tests.programs import mlp


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the program and its compiled module."""
    directory = tmp_path_factory.mktemp("cli")
    (directory / "mlp.mlir").write_text(mlp())
    assert (
        main(["compile", str(directory / "mlp.mlir"), "--target", "cpu", "-o", str(directory / "mlp.mgx"), "--json"])
        == 0
    )
    return directory


def document(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    """Run a command with `--json`. Require that its only output is a JSON document, and return it."""
    capsys.readouterr()
    assert main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_explain_json_has_the_figures_of_the_plan(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = document(capsys, "explain", folder / "mlp.mlir")
    assert report["mesh"] == {"x": 2, "y": 2}
    assert report["counts"] == {"all_reduce": 1}
    (row,) = report["collectives"]
    local = 4 * 12 * 4  # bytes of an all-columns f32 tensor with the rows of one shard of x
    expected = {
        "kind": "all_reduce",
        "axes": ["y"],
        "group_size": 2,
        "dtype": "f32",
        "local_bytes": local,
        "ring_bytes": local,
        "reduction": "sum",
        "times": 1,
    }
    assert {key: row[key] for key in expected} == expected
    assert "%w2" in row["why"] and "mlp.mlir:3" in row["why"]
    assert (report["ring_bytes"], report["kernels"], report["distinct_kernels"]) == (local, 2, 2)
    # the kernels x, w1 -> t and t, w2 -> y read and write each of their buffers once
    assert report["device_bytes"] == 4 * (4 * 12 + 12 * 8 + 4 * 8 + 4 * 8 + 8 * 12 + 4 * 12)
    assert report["flops_per_device"] >= 2 * (4 * 12 * 8 + 4 * 8 * 12)
    assert report["peak_memory_bytes"] >= 4 * (4 * 12 + 12 * 8 + 8 * 12 + 4 * 12)
    assert 0 < report["exposed_seconds"] <= report["step_seconds"]
    assert list(report["seconds"]) == [
        "import",
        "propagate",
        "materialize",
        "optimize",
        "partition",
        "fuse",
        "schedule",
    ]


@pytest.mark.parametrize(
    ("what", "values"), [("t", ["t"]), ("%t", ["t"]), ("4", ["h"]), ("x", ["x"]), ("3", ["x", "w1", "w2"])]
)
def test_explain_accepts_a_value_or_a_line(
    folder: Path, capsys: pytest.CaptureFixture[str], what: str, values: list[str]
) -> None:
    got = document(capsys, "explain", folder / "mlp.mlir", what)["explanations"]
    assert [row["value"] for row in got] == values
    assert all(row["why"] for row in got)


def test_check_compares_all_ranks_with_unsharded_program(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = document(capsys, "check", folder / "mlp.mlir")
    check = report["check"]
    assert check["ok"] and check["max_abs_error"] <= check["tolerance"]
    assert [(o["shape"], o["dtype"]) for o in check["outputs"]] == [([8, 12], "f32")]
    assert report["counts"] == {"all_reduce": 1}


def test_compile_prints_reasons_kernels_and_stage_times(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "compile",
                str(folder / "mlp.mlir"),
                "--target",
                "cpu",
                "-o",
                str(folder / "again.mgx"),
                "--dump",
                str(folder / "dump"),
            ]
        )
        == 0
    )
    text = capsys.readouterr().out
    for expected in (
        "Collectives: 1",
        "hidden",
        "exposed",
        "%w2",
        "Kernels: 2 launches, 2 distinct, 0 refused",
        "Memory:",
        "Where time went",
        "again.mgx",
    ):
        assert expected in text
    assert (folder / "again.mgx").read_bytes() == (folder / "mlp.mgx").read_bytes()
    assert [p.name for p in sorted((folder / "dump").glob("*.mlir"))] == [
        "00_import.mlir", "01_propagate.mlir", "02_materialize.mlir", "03_optimize.mlir", "04_partition.mlir", "05_fuse.mlir", "06_schedule.mlir"
    ]  # fmt: skip
    assert len(list((folder / "dump" / "kernels").glob("*.py"))) == 2


def test_all_ops_without_kernel_are_reported_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each op without a kernel has one diagnostic with its types, its launches per step, and all its source locations."""
    lines, sizes = list[str](), [2053] * 7 + [2063]  # lengths for which no FFT kernel exists: long primes
    for n, size in enumerate(sizes):
        real, half = f"tensor<6x{size}xf32>", f"tensor<6x{size // 2 + 1}x{{}}>"
        attributes = f"type = RFFT, length = [{size}] : ({real}) -> {half.format('complex<f32>')}"
        lines.append(f"  %c{n} = stablehlo.fft %{'xxxxxxxy'[n]}, {attributes}")
        lines.append(f"  %r{n} = stablehlo.real %c{n} : ({half.format('complex<f32>')}) -> {half.format('f32')}")
    results = ", ".join(f"tensor<6x{size // 2 + 1}xf32>" for size in sizes)
    names = ", ".join(f"%r{n}" for n in range(8))
    header = f"func.func @f(%x: tensor<6x2053xf32>, %y: tensor<6x2063xf32>) -> ({results}) {{"
    program = folder / "many.mlir"
    program.write_text("\n".join([header, *lines, f"  return {names} : {results}", "}\n"]))
    assert (
        main(["compile", str(program), "--mesh", "x=3", "-o", str(folder / "many.mgx"), "--target", "cuda:sm_90"]) == 1
    )
    errors = capsys.readouterr().err
    # the fft, the real, and a node between them have no kernel
    assert errors.count("error MG0301") == 3 and "many.mlir:2: error" in errors
    assert "'fft' of f32[6,2053]; f32[6,2063]: 2 times a step, in 2 kernels" in errors
    assert "also here" in errors and "many.mlir:16)" in errors


def test_op_without_kernel_runs_on_the_reference_device(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensor_type = "tensor<6x5xf8E4M3FN>"
    text = f"func.func @f(%x: {tensor_type}) -> {tensor_type} {{\n  %a = chlo.next_after %x, %x : {tensor_type}, {tensor_type} -> {tensor_type}\n  return %a : {tensor_type}\n}}\n"
    program, module = folder / "next.mlir", folder / "next.mgx"
    program.write_text(text)
    words = ["compile", str(program), "--mesh", "x=4", "-o", str(module)]
    assert main([*words, "--target", "cuda:sm_90"]) == 1
    assert "MG0301" in capsys.readouterr().err and not module.exists()
    assert main([*words, "--target", "cpu"]) == 0
    assert "no code can be generated for next_after" in capsys.readouterr().err
    assert main(["inspect", str(module), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["report"]["kernels_without_code"] == ["next_after"]
    assert main(["run", str(module), "--expect", str(program)]) == 0


def test_run_compares_with_arrays_and_programs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module, results = str(folder / "mlp.mgx"), str(folder / "y.npz")
    x = np.linspace(-1, 1, 96, dtype=np.float32).reshape(8, 12)
    np.save(folder / "x.npy", x)
    np.savez(folder / "w.npz", w1=np.ones((12, 16), np.float32), w2=np.full((16, 12), 0.5, np.float32))
    inputs = ["--input", f"x=@{folder / 'x.npy'}", "--input", f"@{folder / 'w.npz'}"]
    assert main(["run", module, *inputs, "--output", results]) == 0
    (y,) = np.load(results).values()
    want = (
        np.tanh(x.sum(1, keepdims=True) * np.ones((1, 16), np.float32)).sum(1, keepdims=True) * 0.5 * np.ones((1, 12))
    )
    np.testing.assert_allclose(y, want, rtol=0, atol=1e-5)  # tolerance for sums of 12 and of 16 terms of about 0.5
    assert main(["run", module, *inputs, "--expect", results]) == 0
    assert main(["run", module, "--expect", str(folder / "mlp.mlir")]) == 0
    # random inputs, so the results differ from the expected ones
    assert main(["run", module, "--expect", results]) == 3
    # the same inputs, so the results are bitwise equal
    assert main(["run", module, *inputs, "--expect", results, "--tolerance", "0"]) == 0
    capsys.readouterr()


def test_run_interprets_the_generated_kernels(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton")
    report = document(capsys, "run", folder / "mlp.mgx", "--kernels")
    assert [row["ok"] for row in report["kernel_checks"]] == [True, True]
    report = document(capsys, "run", folder / "mlp.mgx", "--device", "interpret", "--expect", folder / "mlp.mlir")
    assert [row["ok"] for row in report["compared"]] == [True]


def test_opt_resumes_at_every_stage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    passes = ["propagate", "materialize", "optimize", "partition", "fuse", "schedule"]
    final_text = document(capsys, "opt", folder / "mlp.mlir", "--passes", ",".join(passes))["text"]
    source = folder / "mlp.mlir"
    for name in passes:
        step = folder / f"{name}.mlir"
        assert main(["opt", str(source), "--passes", name, "-o", str(step)]) == 0
        source = step
    assert without_locations(source.read_text()) == without_locations(final_text)


def without_locations(text: str) -> str:
    """Mask the file in provenance: it differs between stages, because each stage reads the text of the stage before."""
    return re.sub(r"\S+\.mlir:\d+", "PLACE", text)


def test_inspect_shows_the_module(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = document(capsys, "inspect", folder / "mlp.mgx")
    assert [b["name"] for b in report["inputs"]] == ["x", "w1", "w2"]
    assert [b["local_shape"] for b in report["inputs"]] == [[4, 12], [12, 8], [8, 12]]
    assert [row["launch"] for row in report["schedule"]].count("all_reduce over y") == 1
    name = report["kernel_list"][0]["name"]
    assert main(["inspect", str(folder / "mlp.mgx"), "--kernel", name]) == 0
    assert "@triton.jit" in capsys.readouterr().out
    assert main(["inspect", str(folder / "mlp.mgx"), "--stage", "partition"]) == 0
    assert "shard.all_reduce" in capsys.readouterr().out
    assert main(["inspect", str(folder / "mlp.mgx"), "--schedule"]) == 0
    assert "Schedule of every rank" in capsys.readouterr().out


def test_diff_lists_changed_figures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "other.mlir").write_text(mlp(w1=("", ""), w2=("", "")))
    assert (
        main(["compile", str(folder / "other.mlir"), "--target", "cpu", "-o", str(folder / "other.mgx"), "--json"]) == 0
    )
    same = document(capsys, "diff", folder / "mlp.mgx", folder / "mlp.mgx")
    changed = document(capsys, "diff", folder / "mlp.mgx", folder / "other.mgx")["changed"]
    assert same["changed"] == {}
    assert changed["collectives: all_reduce"] == {"before": 1, "after": 0}


def test_report_is_one_self_contained_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(folder / "mlp.mlir"), "-o", str(folder / "mlp.html")]) == 0
    page = (folder / "mlp.html").read_text()
    assert "all_reduce" in page and "<svg" in page and "src=" not in page and "http" not in page
    capsys.readouterr()


def test_doctor_names_missing_packages(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from meshgen.commands import doctor

    report = document(capsys, "doctor")
    assert report["missing"] == [] and report["machine"].keys() == {
        "processor",
        "GPUs",
        "driver",
        "NCCL",
        "MPI",
        "NVML",
    }
    assert all(report["machine"].values())
    monkeypatch.setitem(doctor.CORE, "no-such-package>=1", "nothing")
    assert main(["doctor"]) == 5
    assert install_command(["no-such-package>=1"]) in capsys.readouterr().out


def test_bench_collectives_without_gpu_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    from meshgen.benchmarks.environment import gpu_facts

    if "gpus" in gpu_facts():
        pytest.skip("there is a GPU")
    assert main(["bench", "collectives"]) == 5
    assert "MG0602" in capsys.readouterr().err


def test_python_function_is_accepted_as_program(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "model_for_cli.py").write_text("import meshgen as mg\n\ndef model(x, w):\n    return mg.softmax(x @ w)\n")
    monkeypatch.chdir(folder)
    types = ["--arg", "f32[7,4]", "--arg", "f32[4,5]"]
    specs = ["--spec", "x=a", "--out-spec", "result=a,_"]
    report = document(capsys, "check", "model_for_cli:model", "--mesh", "a=3", *types, *specs)
    assert report["check"]["ok"] and report["mesh"] == {"a": 3} and report["counts"] == {}


def test_check_tries_sizes_of_an_open_mesh_axis(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "open.mlir").write_text(
        "shard.grid @g(shape = ?x3)\nfunc.func @main(%x: tensor<8x12xf32>) -> tensor<8x12xf32> {\n"
        "  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding\n  %a = shard.shard %x to %s : tensor<8x12xf32>\n"
        "  %b = stablehlo.tanh %a : tensor<8x12xf32>\n  return %b : tensor<8x12xf32>\n}\n"
    )
    assert main(["check", str(folder / "open.mlir"), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["mesh"] == {"0": 2, "1": 3} and "tried 3 combinations" in err
    assert main(["compile", str(folder / "open.mlir"), "-o", str(folder / "open.mgx"), "--target", "cpu"]) == 0
    out, err = capsys.readouterr()
    assert "open until load: mesh axis 0" in out and "needs the compiler" in err


def test_program_is_read_from_stdin(folder: Path) -> None:
    call = [sys.executable, "-m", "meshgen", "opt", "-"]
    outcome = subprocess.run(call, input=mlp(), capture_output=True, text=True, cwd=Path(__file__).resolve().parents[2])
    assert outcome.returncode == 0, outcome.stderr
    assert "stablehlo.tanh" in outcome.stdout and outcome.stderr == ""


def test_version_option_prints_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("meshgen ")


def test_dump_stays_in_its_folder_for_any_mesh_name(tmp_path: Path) -> None:
    away = '@"../../../away"'
    (tmp_path / "away").mkdir()
    (tmp_path / "p.mlir").write_text(f"""
shard.grid {away}(shape = 2) {{axis_names = ["x"]}}
shard.grid @near(shape = 2) {{axis_names = ["x"]}}
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {{
  %there = shard.sharding {away} split_axes = [[0]] : !shard.sharding
  %x0 = shard.shard %x to %there : tensor<8xf32>
  %y = stablehlo.tanh %x0 : tensor<8xf32>
  %here = shard.sharding @near split_axes = [[0]] : !shard.sharding
  %y0 = shard.shard %y to %here : tensor<8xf32>
  %z = stablehlo.tanh %y0 : tensor<8xf32>
  return %z : tensor<8xf32>
}}""")
    words = ["compile", str(tmp_path / "p.mlir"), "-o", str(tmp_path / "p.mgx"), "--target", "cpu"]
    assert main([*words, "--dump", str(tmp_path / "a/b/dump")]) == 0
    assert not list((tmp_path / "away").iterdir())
    assert len(list((tmp_path / "a/b/dump/kernels").glob("*/tanh.py"))) == 2


def test_unusable_cache_warns_once_and_does_not_change_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mlp.mlir").write_text(mlp())
    (tmp_path / "cache").mkdir(mode=0o700)
    words = ["compile", str(tmp_path / "mlp.mlir"), "--json", "-o"]
    for mode, warned in ((0o700, False), (0o777, True)):
        monkeypatch.setenv("MESHGEN_CACHE_DIR", str(tmp_path / "cache"))
        (tmp_path / "cache").chmod(mode)
        assert main([*words, str(tmp_path / f"{mode}.mgx")]) == 0
        err = capsys.readouterr().err
        assert err.count("warning MG0004: built kernels are not cached") == warned, err
        assert main(["doctor"]) == 0
        assert ("others may write to it" in capsys.readouterr().out) == warned
    assert (tmp_path / f"{0o700}.mgx").read_bytes() == (tmp_path / f"{0o777}.mgx").read_bytes()
