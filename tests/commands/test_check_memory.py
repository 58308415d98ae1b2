"""Programs and modules whose arrays do not fit into memory are refused before they run."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from meshgen.api import read
from meshgen.cli import main
from meshgen.errors import RuntimeFailure
from meshgen.host_memory import free_bytes
from meshgen.ir.graph import Graph
from meshgen.ops.tolerance.memory import most_bytes
from meshgen.runtime import memory_estimate as footprint
from meshgen.runtime.loading import load
from meshgen.testing.oracle import meaning
from meshgen.testing.random_graphs import random_arguments

PROGRAM = """sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<ROWSx64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %w: tensor<64x64xf32>) -> tensor<ROWSx64xf32> {
  %b = stablehlo.tanh %a : tensor<ROWSx64xf32>
  %c = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<ROWSx64xf32>, tensor<64x64xf32>) -> tensor<ROWSx64xf32>
  return %c : tensor<ROWSx64xf32>
}
"""
LOOP = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<256x64xf32>) -> tensor<256x64xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %v = %a, %u = %a) : tensor<i32>, tensor<256x64xf32>, tensor<256x64xf32>
    cond {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %t = stablehlo.tanh %v : tensor<256x64xf32>
      %s = stablehlo.add %t, %u : tensor<256x64xf32>
      stablehlo.return %j, %s, %u : tensor<i32>, tensor<256x64xf32>, tensor<256x64xf32>
    }
  return %r#1 : tensor<256x64xf32>
}
"""


def program(rows: int) -> str:
    return PROGRAM.replace("ROWS", str(rows))


def graph_of(text: str) -> Graph:
    return read(text)[0].graph


@pytest.mark.parametrize("text", [program(512), LOOP], ids=["straight", "loop"])
def test_memory_estimate_is_a_lower_bound_near_the_peak(text: str) -> None:
    module, _ = read(text)
    args = random_arguments(module, 0)
    tracemalloc.start()
    meaning(module.graph, args, module.mesh)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.4 * peak_bytes < most_bytes(module.graph).bytes <= peak_bytes


def test_memory_estimate_counts_dead_and_loop_invariant_values_once() -> None:
    def chain(length: int) -> Graph:
        lines = [f"  %v{n + 1} = stablehlo.tanh %v{n} : tensor<64x64xf32>" for n in range(length)]
        head = "func.func @main(%v0: tensor<64x64xf32>) -> tensor<64x64xf32> {"
        return graph_of("\n".join([head, *lines, f"  return %v{length} : tensor<64x64xf32>", "}"]))

    assert most_bytes(chain(3)).bytes == most_bytes(chain(30)).bytes
    longer_loop = (
        LOOP.replace("%r:3", "%r:4").replace("%u = %a)", "%u = %a, %w = %a)").replace("%s, %u :", "%s, %u, %w :")
    )
    longer_loop = longer_loop.replace("tensor<256x64xf32>, tensor<256x64xf32>\n", "tensor<256x64xf32>, tensor<256x64xf32>, tensor<256x64xf32>\n")  # fmt: skip
    assert most_bytes(graph_of(longer_loop)).bytes == most_bytes(graph_of(LOOP)).bytes


def test_memory_of_local_program_is_counted_for_all_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "local.mlir"
    path.write_text("""shard.grid @g(shape = 4)
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %r = shard.all_reduce %x on @g grid_axes = [0] : tensor<64x64xf32> -> tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}
""")
    assert main(["check", str(path), "--memory", "1kB"]) == RuntimeFailure.exit_code
    assert "MG0606: 4 simulated devices need at least" in capsys.readouterr().err


def test_memory_estimate_grows_with_sizes_and_names_the_op() -> None:
    small, large = (most_bytes(graph_of(program(rows))) for rows in (1000, 100_000))
    assert 50 * small.bytes < large.bytes < 100 * small.bytes
    assert small.at and small.at.op == "dot_general"


def test_program_beyond_memory_is_refused_with_location(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    path = tmp_path / "huge.mlir"
    path.write_text(program(10**12))
    assert main(["check", str(path)]) == RuntimeFailure.exit_code
    error = capsys.readouterr().err
    assert f"{path}:4: error MG0606" in error
    assert "'dot_general' need at least" in error
    assert "--memory" in error


@pytest.mark.parametrize(("size", "code"), [("1MB", 4), ("0.001GB", 4), ("1000000", 4), ("1GB", 0), ("2 TB", 0)])
def test_memory_option_limits_the_estimate(size: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    path = tmp_path / "p.mlir"
    path.write_text(program(512))
    assert main(["check", str(path), "--memory", size, "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert document["check"]["ok"] if not code else document["diagnostics"][0]["code"] == "MG0606"


def test_memory_estimate_sums_over_simulated_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.mlir"
    path.write_text(program(512).replace('["x"=2, "y"=2]', '["x"=2, "y"=512]'))
    assert main(["check", str(path), "--memory", "100MB"]) == RuntimeFailure.exit_code
    assert "MG0606: 1024 simulated devices need at least" in capsys.readouterr().err


def test_malformed_memory_size_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.mlir"
    path.write_text(program(8))
    assert main(["check", str(path), "--memory", "much"]) == 2
    assert "MG0001: --memory: 'much' is not a size" in capsys.readouterr().err


def test_arenas_beyond_free_memory_are_refused_before_allocation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    path = tmp_path / "p.mlir"
    path.write_text(program(512))
    assert main(["compile", str(path), "--target", "cpu", "-o", str(tmp_path / "p.mgx")]) == 0
    module = load(tmp_path / "p.mgx")
    args = {b.name: array for b, array in zip(module.inputs, random_arguments(read(path)[0], 0), strict=True)}
    monkeypatch.setattr(footprint, "free_bytes", lambda: 1000)
    with pytest.raises(RuntimeFailure, match=r"MG0604.*4 ranks with \d+ k?B.*1 kB are free"):
        module.run(args)


def test_free_memory_is_the_minimum_of_machine_and_container(tmp_path: Path) -> None:
    assert free_bytes(tmp_path) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9000 kB\nMemAvailable:  2000 kB\nSwapFree: 1000 kB\n")
    assert free_bytes(tmp_path) == 3000 * 1024
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.current").write_text("600\n")
    (group / "memory.max").write_text("max\n")
    assert free_bytes(tmp_path) == 3000 * 1024
    (group / "memory.max").write_text("1000\n")
    assert free_bytes(tmp_path) == 400
    (group / "memory.stat").write_text("anon 100\ninactive_file 150\n")
    assert free_bytes(tmp_path) == 550  # includes cached file pages, which the kernel can drop
    (group / "memory.current").write_text("1600\n")
    assert free_bytes(tmp_path) == 0
