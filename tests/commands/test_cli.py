"""The command line on a small program: what each command prints, writes and returns."""

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
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the program, and the module compiled from it."""
    directory = tmp_path_factory.mktemp("cli")
    (directory / "mlp.mlir").write_text(mlp())
    assert (
        main(["compile", str(directory / "mlp.mlir"), "--target", "cpu", "-o", str(directory / "mlp.mgx"), "--json"])
        == 0
    )
    return directory


def document(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    """What a command prints with `--json`: one document and nothing else."""
    capsys.readouterr()
    assert main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_explain_holds_the_figures_of_the_design(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got = document(capsys, "explain", place / "mlp.mlir")
    assert got["mesh"] == {"x": 2, "y": 2}
    assert got["counts"] == {"all_reduce": 1}
    (row,) = got["collectives"]
    local = 4 * 12 * 4  # rows of one x shard, all columns, f32
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
    assert (got["ring_bytes"], got["kernels"], got["distinct_kernels"]) == (local, 2, 2)
    # x, w1 -> t and t, w2 -> y, each buffer once per kernel
    assert got["device_bytes"] == 4 * (4 * 12 + 12 * 8 + 4 * 8 + 4 * 8 + 8 * 12 + 4 * 12)
    assert got["flops_per_device"] >= 2 * (4 * 12 * 8 + 4 * 8 * 12)
    assert got["peak_memory_bytes"] >= 4 * (4 * 12 + 12 * 8 + 8 * 12 + 4 * 12)
    assert 0 < got["exposed_seconds"] <= got["step_seconds"]
    assert list(got["seconds"]) == ["import", "propagate", "materialize", "optimize", "partition", "fuse", "schedule"]


@pytest.mark.parametrize(
    ("what", "values"), [("t", ["t"]), ("%t", ["t"]), ("4", ["h"]), ("x", ["x"]), ("3", ["x", "w1", "w2"])]
)
def test_explain_answers_for_a_value_or_a_line(
    place: Path, capsys: pytest.CaptureFixture[str], what: str, values: list[str]
) -> None:
    got = document(capsys, "explain", place / "mlp.mlir", what)["explanations"]
    assert [row["value"] for row in got] == values
    assert all(row["why"] for row in got)


def test_check_compares_all_ranks_with_the_program(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got = document(capsys, "check", place / "mlp.mlir")
    check = got["check"]
    assert check["ok"] and check["max_abs_error"] <= check["tolerance"]
    assert [(o["shape"], o["dtype"]) for o in check["outputs"]] == [([8, 12], "f32")]
    assert got["counts"] == {"all_reduce": 1}


def test_compile_prints_reasons_kernels_and_where_time_went(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "compile",
                str(place / "mlp.mlir"),
                "--target",
                "cpu",
                "-o",
                str(place / "again.mgx"),
                "--dump",
                str(place / "dump"),
            ]
        )
        == 0
    )
    text = capsys.readouterr().out
    for part in (
        "Collectives: 1",
        "hidden",
        "exposed",
        "%w2",
        "Kernels: 2 launches, 2 distinct, 0 refused",
        "Memory:",
        "Where time went",
        "again.mgx",
    ):
        assert part in text
    assert (place / "again.mgx").read_bytes() == (place / "mlp.mgx").read_bytes()
    assert [p.name for p in sorted((place / "dump").glob("*.mlir"))] == [
        "00_import.mlir", "01_propagate.mlir", "02_materialize.mlir", "03_optimize.mlir", "04_partition.mlir", "05_fuse.mlir", "06_schedule.mlir"
    ]  # fmt: skip
    assert len(list((place / "dump" / "kernels").glob("*.py"))) == 2


def test_all_that_has_no_kernel_is_refused_at_once(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each op once, with its types, how often it runs (equal ones are one) and the other places where it stands."""
    lines, sizes = list[str](), [2053] * 7 + [2063]  # lengths that no transform of kernels is for: prime and long
    for n, size in enumerate(sizes):
        real, half = f"tensor<6x{size}xf32>", f"tensor<6x{size // 2 + 1}x{{}}>"
        form = f"type = RFFT, length = [{size}] : ({real}) -> {half.format('complex<f32>')}"
        lines.append(f"  %c{n} = stablehlo.fft %{'xxxxxxxy'[n]}, {form}")
        lines.append(f"  %r{n} = stablehlo.real %c{n} : ({half.format('complex<f32>')}) -> {half.format('f32')}")
    results = ", ".join(f"tensor<6x{size // 2 + 1}xf32>" for size in sizes)
    names = ", ".join(f"%r{n}" for n in range(8))
    header = f"func.func @f(%x: tensor<6x2053xf32>, %y: tensor<6x2063xf32>) -> ({results}) {{"
    program = place / "many.mlir"
    program.write_text("\n".join([header, *lines, f"  return {names} : {results}", "}\n"]))
    assert (
        main(["compile", str(program), "--mesh", "x=3", "-o", str(place / "many.mgx"), "--target", "cuda:sm_90"]) == 1
    )
    said = capsys.readouterr().err
    assert said.count("error MG0301") == 3 and "many.mlir:2: error" in said  # fft, real, and what is between
    assert "'fft' of f32[6,2053]; f32[6,2063]: 2 times a step, in 2 kernels" in said
    assert "also here" in said and "many.mlir:16)" in said


def test_what_has_no_kernel_runs_on_the_reference_device(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind = "tensor<6x5xf8E4M3FN>"
    text = f"func.func @f(%x: {kind}) -> {kind} {{\n  %a = chlo.next_after %x, %x : {kind}, {kind} -> {kind}\n  return %a : {kind}\n}}\n"
    program, module = place / "next.mlir", place / "next.mgx"
    program.write_text(text)
    words = ["compile", str(program), "--mesh", "x=4", "-o", str(module)]
    assert main([*words, "--target", "cuda:sm_90"]) == 1
    assert "MG0301" in capsys.readouterr().err and not module.exists()
    assert main([*words, "--target", "cpu"]) == 0
    assert "no code can be generated for next_after" in capsys.readouterr().err
    assert main(["inspect", str(module), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["report"]["kernels_without_code"] == ["next_after"]
    assert main(["run", str(module), "--expect", str(program)]) == 0


def test_run_compares_with_arrays_and_programs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module, results = str(place / "mlp.mgx"), str(place / "y.npz")
    x = np.linspace(-1, 1, 96, dtype=np.float32).reshape(8, 12)
    np.save(place / "x.npy", x)
    np.savez(place / "w.npz", w1=np.ones((12, 16), np.float32), w2=np.full((16, 12), 0.5, np.float32))
    inputs = ["--input", f"x=@{place / 'x.npy'}", "--input", f"@{place / 'w.npz'}"]
    assert main(["run", module, *inputs, "--output", results]) == 0
    (y,) = np.load(results).values()
    want = (
        np.tanh(x.sum(1, keepdims=True) * np.ones((1, 16), np.float32)).sum(1, keepdims=True) * 0.5 * np.ones((1, 12))
    )
    np.testing.assert_allclose(y, want, rtol=0, atol=1e-5)  # 16 terms of about 0.5, sums of 12
    assert main(["run", module, *inputs, "--expect", results]) == 0
    assert main(["run", module, "--expect", str(place / "mlp.mlir")]) == 0
    assert main(["run", module, "--expect", results]) == 3  # other, random inputs
    assert main(["run", module, *inputs, "--expect", results, "--tolerance", "0"]) == 0  # the same, bit for bit
    capsys.readouterr()


def test_run_interprets_the_generated_kernels(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton")
    got = document(capsys, "run", place / "mlp.mgx", "--kernels")
    assert [row["ok"] for row in got["kernel_checks"]] == [True, True]
    got = document(capsys, "run", place / "mlp.mgx", "--device", "interpret", "--expect", place / "mlp.mlir")
    assert [row["ok"] for row in got["compared"]] == [True]


def test_opt_enters_at_every_stage(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    passes = ["propagate", "materialize", "optimize", "partition", "fuse", "schedule"]
    whole = document(capsys, "opt", place / "mlp.mlir", "--passes", ",".join(passes))["text"]
    source = place / "mlp.mlir"
    for name in passes:
        step = place / f"{name}.mlir"
        assert main(["opt", str(source), "--passes", name, "-o", str(step)]) == 0
        source = step
    assert without_places(source.read_text()) == without_places(whole)


def without_places(text: str) -> str:
    """Reasons name the file that was read, which is another one at each stage."""
    return re.sub(r"\S+\.mlir:\d+", "PLACE", text)


def test_inspect_shows_the_module(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got = document(capsys, "inspect", place / "mlp.mgx")
    assert [b["name"] for b in got["inputs"]] == ["x", "w1", "w2"]
    assert [b["local_shape"] for b in got["inputs"]] == [[4, 12], [12, 8], [8, 12]]
    assert [row["launch"] for row in got["schedule"]].count("all_reduce over y") == 1
    name = got["kernel_list"][0]["name"]
    assert main(["inspect", str(place / "mlp.mgx"), "--kernel", name]) == 0
    assert "@triton.jit" in capsys.readouterr().out
    assert main(["inspect", str(place / "mlp.mgx"), "--stage", "partition"]) == 0
    assert "shard.all_reduce" in capsys.readouterr().out
    assert main(["inspect", str(place / "mlp.mgx"), "--schedule"]) == 0
    assert "Schedule of every rank" in capsys.readouterr().out


def test_diff_says_what_changed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "other.mlir").write_text(mlp(w1=("", ""), w2=("", "")))
    assert (
        main(["compile", str(place / "other.mlir"), "--target", "cpu", "-o", str(place / "other.mgx"), "--json"]) == 0
    )
    same = document(capsys, "diff", place / "mlp.mgx", place / "mlp.mgx")
    changed = document(capsys, "diff", place / "mlp.mgx", place / "other.mgx")["changed"]
    assert same["changed"] == {}
    assert changed["collectives: all_reduce"] == {"before": 1, "after": 0}


def test_report_is_one_page(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(place / "mlp.mlir"), "-o", str(place / "mlp.html")]) == 0
    page = (place / "mlp.html").read_text()
    assert "all_reduce" in page and "<svg" in page and "src=" not in page and "http" not in page
    capsys.readouterr()


def test_doctor_names_what_is_missing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from meshgen.commands import doctor

    found = document(capsys, "doctor")
    assert found["missing"] == [] and found["machine"].keys() == {"processor", "GPUs", "driver", "NCCL", "MPI", "NVML"}
    assert all(found["machine"].values())
    monkeypatch.setitem(doctor.CORE, "no-such-package>=1", "nothing")
    assert main(["doctor"]) == 5
    assert install_command(["no-such-package>=1"]) in capsys.readouterr().out


def test_collectives_on_gpus_need_some(capsys: pytest.CaptureFixture[str]) -> None:
    from meshgen.benchmarks.environment import gpu_facts

    if "gpus" in gpu_facts():
        pytest.skip("there is a GPU")
    assert main(["bench", "collectives"]) == 5
    assert "MG0602" in capsys.readouterr().err


def test_a_python_function_is_a_program(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "model_for_cli.py").write_text("import meshgen as mg\n\ndef model(x, w):\n    return mg.softmax(x @ w)\n")
    monkeypatch.chdir(place)
    words = [
        "check",
        "model_for_cli:model",
        "--mesh",
        "a=3",
        "--arg",
        "f32[7,4]",
        "--arg",
        "f32[4,5]",
        "--spec",
        "x=a",
        "--out-spec",
        "result=a,_",
    ]
    got = document(capsys, *words)
    assert got["check"]["ok"] and got["mesh"] == {"a": 3} and got["counts"] == {}


def test_an_axis_of_unknown_size_is_tried(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "open.mlir").write_text(
        "shard.grid @g(shape = ?x3)\nfunc.func @main(%x: tensor<8x12xf32>) -> tensor<8x12xf32> {\n"
        "  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding\n  %a = shard.shard %x to %s : tensor<8x12xf32>\n"
        "  %b = stablehlo.tanh %a : tensor<8x12xf32>\n  return %b : tensor<8x12xf32>\n}\n"
    )
    assert main(["check", str(place / "open.mlir"), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["mesh"] == {"0": 2, "1": 3} and "tried 3 combinations" in err
    assert main(["compile", str(place / "open.mlir"), "-o", str(place / "open.mgx"), "--target", "cpu"]) == 0
    out, err = capsys.readouterr()
    assert "open until load: mesh axis 0" in out and "needs the compiler" in err


def test_stdin_is_a_program(place: Path) -> None:
    call = [sys.executable, "-m", "meshgen", "opt", "-"]
    outcome = subprocess.run(call, input=mlp(), capture_output=True, text=True, cwd=Path(__file__).resolve().parents[2])
    assert outcome.returncode == 0, outcome.stderr
    assert "stablehlo.tanh" in outcome.stdout and outcome.stderr == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("meshgen ")


def test_a_dump_stays_in_its_folder_whatever_meshes_are_called(tmp_path: Path) -> None:
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


def test_a_cache_that_cannot_be_used_is_told_once_and_changes_no_module(
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
