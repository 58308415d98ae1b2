"""Tests of tuning measurements: which candidates are timed, in which order, and which one is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meshgen.codegen.triton_source import KernelSource
from meshgen.codegen.tuning import tuner
from meshgen.codegen.tuning.forms import candidates
from meshgen.codegen.tuning.kernel_replacement import modules_of
from meshgen.codegen.tuning.table import TuningTable
from meshgen.codegen.tuning.tuner import Measured, measure
from meshgen.errors import MissingError, RuntimeFailure
from meshgen.runtime.cuda.api import emulated
from meshgen.runtime.module import LoadedModule
from tests.codegen.tuning.measuring import bench, compiled


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> LoadedModule:
    (module,) = modules_of(compiled(tmp_path_factory.mktemp("products") / "m.mgx"))
    return module


def blocks(result: Measured) -> int:
    """Return the grid size of the tuned kernel that replaces the shipped kernel."""
    assert result.change and result.change.form
    return result.change.form.kernel.grid[0]


def test_fastest_candidate_of_each_kernel_is_chosen(products: LoadedModule) -> None:
    tuning_bench, timer = bench()
    results = list(measure([products], tuning_bench))
    shipped = {name: kernel.grid[0] for name, kernel in products.manifest.kernels.items()}
    assert [result.kernel for result in results] == ["dot_tanh", "dot"]  # the larger GEMM is measured first
    for result in results:
        assert result.others == 3 and not result.warnings
        assert blocks(result) < shipped[result.kernel]
        assert result.row and result.row.device == "Emulated H100" and result.row.rounds == 3
        assert result.row.warm == blocks(result) * 1e-3 and result.row.cold == 2 * result.row.warm
        assert result.row.before == 1.5 * shipped[result.kernel] * 1e-3
        assert result.change and result.change.form and result.change.form.source
        assert result.change.form.source.tile == result.row.tile
    rounds = [timer.launches[start : start + 4] for start in (0, 4, 8)]
    # rounds interleave the candidates, each starting with another one
    assert rounds[1] == rounds[0][1:] + rounds[0][:1] and rounds[2] == rounds[0][2:] + rounds[0][:2]


def test_candidates_are_compared_by_median_time(products: LoadedModule) -> None:
    """Check that one slow round of the fastest candidate does not prevent its choice."""
    shipped, launch_counter = products.manifest.kernels["dot_tanh"].grid[0], iter(range(1000))
    tuning_bench, _ = bench(
        lambda launch: 10.0 if launch.grid[0] < shipped and next(launch_counter) < 3 else launch.grid[0] * 1e-3
    )
    assert blocks(next(measure([products], tuning_bench))) < shipped


def test_gain_below_the_noise_threshold_is_ignored(products: LoadedModule) -> None:
    for gain, is_taken in ((0.019, False), (0.021, True)):
        shipped = products.manifest.kernels["dot_tanh"].grid[0]
        tuning_bench, _ = bench(
            lambda launch, gain=gain, shipped=shipped: 1.0 if launch.grid[0] == shipped else 1 - gain
        )
        result = next(measure([products], tuning_bench))
        assert result.change and bool(result.change.form) == is_taken
        kernel = products.manifest.kernels["dot_tanh"]
        shipped_tile = (kernel.constants["BLOCK_M"], kernel.constants["BLOCK_N"])
        assert result.row and ((result.row.tile["m"], result.row.tile["n"]) == shipped_tile) == (not is_taken)


def test_tuning_stops_when_its_time_is_over(products: LoadedModule) -> None:
    times = iter([0.0, 0.0, 5.0])
    tuning_bench, _ = bench(seconds=5.0, clock=lambda: next(times))
    assert [result.kernel for result in measure([products], tuning_bench)] == ["dot_tanh"]


def change_candidates(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """Change the source of all candidates except the first."""

    def changed_candidates(*args: Any) -> Sequence[KernelSource]:
        first, *rest = candidates(*args)
        return [first, *(replace(source, text=source.text.replace(old, new)) for source in rest)]

    monkeypatch.setattr(tuner, "candidates", changed_candidates)


def test_candidate_with_wrong_results_is_dropped(products: LoadedModule, monkeypatch: pytest.MonkeyPatch) -> None:
    change_candidates(monkeypatch, "tl.dot(", "1 + tl.dot(")
    tuning_bench, timer = bench()
    result = next(measure([products], tuning_bench))
    assert result.others == 0 and len(set(timer.launches)) == 1
    assert result.change and result.change.form is None
    assert [warning.code for warning in result.warnings] == ["MG0612"] * 3
    assert "kernel 'dot_tanh' with tile {'m'" in result.warnings[0].message
    assert "elements of result 0 differ, by up to" in result.warnings[0].message


def test_uncompilable_candidate_is_not_timed(products: LoadedModule, monkeypatch: pytest.MonkeyPatch) -> None:
    change_candidates(monkeypatch, "tl.store(", "tl.unknown(")
    tuning_bench, _ = bench()
    result = next(measure([products], tuning_bench))
    assert (result.others, result.change, result.warnings) == (0, None, ())


def test_runtime_failure_names_the_candidate(products: LoadedModule, monkeypatch: pytest.MonkeyPatch) -> None:
    change_candidates(monkeypatch, "_ptr + ", "_ptr + 100000000 + ")
    tuning_bench, _ = bench()
    with pytest.raises(RuntimeFailure, match=r"MG0608: kernel 'dot_tanh' with tile .* on Emulated H100: .*address"):
        list(measure([products], tuning_bench))


def test_module_without_code_for_the_gpu_is_rejected(products: LoadedModule) -> None:
    tuning_bench, _ = bench()
    other_bench = replace(tuning_bench, api=emulated(1, "sm_80"))
    with pytest.raises(MissingError, match="MG0602: no kernel of the module is compiled for sm_80"):
        list(measure([products], other_bench))


@pytest.mark.parametrize("target", ["cuda:sm_90,sm_80", "cuda:sm_80,sm_90"])
def test_tuning_keeps_kernels_of_other_architectures(target: str, tmp_path: Path) -> None:
    (module,) = modules_of(compiled(tmp_path / "m.mgx", target=target))
    tuning_bench, _ = bench()
    for result in measure([module], tuning_bench):
        assert result.change and result.change.form and result.change.form.source
        form = result.change.form
        before, after = module.manifest.kernels[result.kernel], form.kernel
        assert [*after.binaries] == [*before.binaries]
        assert after.on("sm_80") == replace(before.on("sm_80"), binaries=after.binaries)
        assert form.files[after.on("sm_80").source].decode() == module.source(result.kernel, "sm_80")
        assert form.files[after.on("sm_90").source].decode() == result.change.form.source.text
        assert after.on("sm_90").grid == result.change.form.source.grid and set(after.files) <= {*form.files}


ROWS = """func.func @main(%a: tensor<256x512xf32>) -> tensor<256xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] : (tensor<256x512xf32>, tensor<f32>) -> tensor<256xf32>
  return %0 : tensor<256xf32>
}
"""


def test_row_kernels_are_tuned_by_warp_count(tmp_path: Path) -> None:
    (module,) = modules_of(compiled(tmp_path / "m.mgx", ROWS))
    (shipped,) = module.manifest.kernels.values()
    most_warps = 4 * shipped.num_warps
    (result,) = measure([module], bench(lambda launch: 1 / launch.threads, candidates=5)[0])
    assert result.row and result.change and result.change.form and result.row.tile["warps"] == most_warps
    assert result.change.form.kernel.num_warps == most_warps
    recompiled = compiled(tmp_path / "c.mgx", ROWS, tuning=TuningTable([result.row]))
    (kernel,) = next(modules_of(recompiled)).manifest.kernels.values()
    assert kernel == result.change.form.kernel
    (result,) = measure(list(modules_of(recompiled)), bench(lambda launch: launch.threads, candidates=5)[0])
    assert result.row and result.row.tile["warps"] < most_warps


SIDE_BY_SIDE = """func.func @main(%a: tensor<192x512xbf16>, %b: tensor<512x320xbf16>, %c: tensor<512x64xbf16>) -> (tensor<192x320xbf16>, tensor<192x64xbf16>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<192x512xbf16>, tensor<512x320xbf16>) -> tensor<192x320xbf16>
  %1 = stablehlo.dot_general %a, %c, contracting_dims = [1] x [0] : (tensor<192x512xbf16>, tensor<512x64xbf16>) -> tensor<192x64xbf16>
  return %0, %1 : tensor<192x320xbf16>, tensor<192x64xbf16>
}
"""


def test_tile_of_segmented_gemms_is_stored_in_the_table(tmp_path: Path) -> None:
    (module,) = modules_of(compiled(tmp_path / "m.mgx", SIDE_BY_SIDE))
    (shipped,) = module.manifest.kernels.values()
    assert shipped.template == "segmented"
    (result,) = measure([module], bench(candidates=30)[0])
    assert result.row and result.change and result.change.form and blocks(result) < shipped.grid[0]
    recompiled = compiled(tmp_path / "c.mgx", SIDE_BY_SIDE, tuning=TuningTable([result.row]))
    (kernel,) = next(modules_of(recompiled)).manifest.kernels.values()
    assert kernel == result.change.form.kernel


def test_invalid_warp_counts_in_the_table_are_ignored(tmp_path: Path) -> None:
    (module,) = modules_of(compiled(tmp_path / "m.mgx", ROWS))
    (result,) = measure([module], bench(lambda launch: 1 / launch.threads, candidates=5)[0])
    assert result.row
    for warps in (7, 64, "8", None, [8]):
        row = replace(result.row, tile={**result.row.tile, "warps": warps})
        (recompiled,) = modules_of(compiled(tmp_path / "c.mgx", ROWS, tuning=TuningTable([row])))
        assert recompiled.manifest.kernels == module.manifest.kernels and "tuning" not in recompiled.record()


def test_kernel_with_one_candidate_is_not_timed(products: LoadedModule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner, "candidates", lambda *args: candidates(*args)[:1])
    tuning_bench, timer = bench()
    result = next(measure([products], tuning_bench))
    assert (result.others, result.change, result.row, timer.launches) == (0, None, None, [])
