"""Measuring: what is timed, in which order, what is taken, and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meshgen.codegen.triton_source import KernelSource
from meshgen.codegen.tuning import tuner
from meshgen.codegen.tuning.forms import candidates
from meshgen.codegen.tuning.rewrite import modules_of
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


def blocks(found: Measured) -> int:
    """Programs of the kernel that replaces the shipped one."""
    assert found.change and found.change.form
    return found.change.form.kernel.grid[0]


def test_the_fastest_candidate_of_each_kernel_is_taken(products: LoadedModule) -> None:
    own, timer = bench()
    found = list(measure([products], own))
    shipped = {name: kernel.grid[0] for name, kernel in products.manifest.kernels.items()}
    assert [each.kernel for each in found] == ["dot_tanh", "dot"]  # the larger first
    for each in found:
        assert each.others == 3 and not each.warnings
        assert blocks(each) < shipped[each.kernel]
        assert each.row and each.row.device == "Emulated H100" and each.row.rounds == 3
        assert each.row.warm == blocks(each) * 1e-3 and each.row.cold == 2 * each.row.warm
        assert each.row.before == 1.5 * shipped[each.kernel] * 1e-3
        assert each.change and each.change.form and each.change.form.source
        assert each.change.form.source.tile == each.row.tile
    rounds = [timer.launches[start : start + 4] for start in (0, 4, 8)]
    assert rounds[1] == rounds[0][1:] + rounds[0][:1] and rounds[2] == rounds[0][2:] + rounds[0][:2]  # interleaved


def test_medians_count(products: LoadedModule) -> None:
    """One slow round of the fastest candidate does not keep it from being taken."""
    shipped, turns = products.manifest.kernels["dot_tanh"].grid[0], iter(range(1000))
    own, _ = bench(lambda launch: 10.0 if launch.grid[0] < shipped and next(turns) < 3 else launch.grid[0] * 1e-3)
    assert blocks(next(measure([products], own))) < shipped


def test_a_small_gain_is_noise(products: LoadedModule) -> None:
    for gain, is_taken in ((0.019, False), (0.021, True)):
        shipped = products.manifest.kernels["dot_tanh"].grid[0]
        own, _ = bench(lambda launch, gain=gain, shipped=shipped: 1.0 if launch.grid[0] == shipped else 1 - gain)
        found = next(measure([products], own))
        assert found.change and bool(found.change.form) == is_taken
        kernel = products.manifest.kernels["dot_tanh"]
        own_tile = (kernel.constants["BLOCK_M"], kernel.constants["BLOCK_N"])
        assert found.row and ((found.row.tile["m"], found.row.tile["n"]) == own_tile) == (not is_taken)


def test_no_kernel_is_begun_after_the_time_is_over(products: LoadedModule) -> None:
    times = iter([0.0, 0.0, 5.0])
    own, _ = bench(seconds=5.0, clock=lambda: next(times))
    assert [each.kernel for each in measure([products], own)] == ["dot_tanh"]


def changed(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """All candidates but the first have other source."""

    def found(*args: Any) -> Sequence[KernelSource]:
        first, *rest = candidates(*args)
        return [first, *(replace(source, text=source.text.replace(old, new)) for source in rest)]

    monkeypatch.setattr(tuner, "candidates", found)


def test_a_candidate_that_computes_something_else_is_dropped(
    products: LoadedModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(monkeypatch, "tl.dot(", "1 + tl.dot(")
    own, timer = bench()
    found = next(measure([products], own))
    assert found.others == 0 and len(set(timer.launches)) == 1
    assert found.change and found.change.form is None
    assert [each.code for each in found.warnings] == ["MG0612"] * 3
    assert "kernel 'dot_tanh' with tile {'m'" in found.warnings[0].message
    assert "elements of result 0 differ, by up to" in found.warnings[0].message


def test_a_candidate_that_does_not_compile_is_left_out(products: LoadedModule, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, "tl.store(", "tl.unknown(")
    own, _ = bench()
    found = next(measure([products], own))
    assert (found.others, found.change, found.warnings) == (0, None, ())


def test_a_fault_names_the_candidate(products: LoadedModule, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, "_ptr + ", "_ptr + 100000000 + ")
    own, _ = bench()
    with pytest.raises(RuntimeFailure, match=r"MG0608: kernel 'dot_tanh' with tile .* on Emulated H100: .*address"):
        list(measure([products], own))


def test_a_module_without_code_for_the_device_is_refused(products: LoadedModule) -> None:
    own, _ = bench()
    other = replace(own, api=emulated(1, "sm_80"))
    with pytest.raises(MissingError, match="MG0602: no kernel of the module is compiled for sm_80"):
        list(measure([products], other))


@pytest.mark.parametrize("target", ["cuda:sm_90,sm_80", "cuda:sm_80,sm_90"])
def test_what_a_module_has_for_other_architectures_stays(target: str, tmp_path: Path) -> None:
    (module,) = modules_of(compiled(tmp_path / "m.mgx", target=target))
    own, _ = bench()
    for each in measure([module], own):
        assert each.change and each.change.form and each.change.form.source
        form = each.change.form
        before, after = module.manifest.kernels[each.kernel], form.kernel
        assert [*after.binaries] == [*before.binaries]
        assert after.on("sm_80") == replace(before.on("sm_80"), binaries=after.binaries)
        assert form.files[after.on("sm_80").source].decode() == module.source(each.kernel, "sm_80")
        assert form.files[after.on("sm_90").source].decode() == each.change.form.source.text
        assert after.on("sm_90").grid == each.change.form.source.grid and set(after.files) <= {*form.files}


ROWS = """func.func @main(%a: tensor<256x512xf32>) -> tensor<256xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] : (tensor<256x512xf32>, tensor<f32>) -> tensor<256xf32>
  return %0 : tensor<256xf32>
}
"""


def test_kernels_of_one_tile_have_other_numbers_of_warps(tmp_path: Path) -> None:
    (module,) = modules_of(compiled(tmp_path / "m.mgx", ROWS))
    (own,) = module.manifest.kernels.values()
    most = 4 * own.num_warps
    (found,) = measure([module], bench(lambda launch: 1 / launch.threads, candidates=5)[0])
    assert found.row and found.change and found.change.form and found.row.tile["warps"] == most
    assert found.change.form.kernel.num_warps == most
    again = compiled(tmp_path / "c.mgx", ROWS, tuning=TuningTable([found.row]))
    (kernel,) = next(modules_of(again)).manifest.kernels.values()
    assert kernel == found.change.form.kernel
    (found,) = measure(list(modules_of(again)), bench(lambda launch: launch.threads, candidates=5)[0])
    assert found.row and found.row.tile["warps"] < most


SIDE_BY_SIDE = """func.func @main(%a: tensor<192x512xbf16>, %b: tensor<512x320xbf16>, %c: tensor<512x64xbf16>) -> (tensor<192x320xbf16>, tensor<192x64xbf16>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<192x512xbf16>, tensor<512x320xbf16>) -> tensor<192x320xbf16>
  %1 = stablehlo.dot_general %a, %c, contracting_dims = [1] x [0] : (tensor<192x512xbf16>, tensor<512x64xbf16>) -> tensor<192x64xbf16>
  return %0, %1 : tensor<192x320xbf16>, tensor<192x64xbf16>
}
"""


def test_the_tile_of_products_in_one_launch_is_kept_in_the_table(tmp_path: Path) -> None:
    (module,) = modules_of(compiled(tmp_path / "m.mgx", SIDE_BY_SIDE))
    (own,) = module.manifest.kernels.values()
    assert own.template == "segmented"
    (found,) = measure([module], bench(candidates=30)[0])
    assert found.row and found.change and found.change.form and blocks(found) < own.grid[0]
    again = compiled(tmp_path / "c.mgx", SIDE_BY_SIDE, tuning=TuningTable([found.row]))
    (kernel,) = next(modules_of(again)).manifest.kernels.values()
    assert kernel == found.change.form.kernel


def test_numbers_of_warps_that_no_block_has_are_ignored(tmp_path: Path) -> None:
    (module,) = modules_of(compiled(tmp_path / "m.mgx", ROWS))
    (found,) = measure([module], bench(lambda launch: 1 / launch.threads, candidates=5)[0])
    assert found.row
    for warps in (7, 64, "8", None, [8]):
        row = replace(found.row, tile={**found.row.tile, "warps": warps})
        (again,) = modules_of(compiled(tmp_path / "c.mgx", ROWS, tuning=TuningTable([row])))
        assert again.manifest.kernels == module.manifest.kernels and "tuning" not in again.record()


def test_a_kernel_of_one_candidate_has_no_choice(products: LoadedModule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner, "candidates", lambda *args: candidates(*args)[:1])
    own, timer = bench()
    found = next(measure([products], own))
    assert (found.others, found.change, found.row, timer.launches) == (0, None, None, [])
