"""`meshgen run --device emulate`: interpret the PTX of a module's kernels, without a GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from meshgen import api
from meshgen.cli import main
from meshgen.commands.kernel_check import check_kernels
from meshgen.errors import MissingError
from meshgen.runtime.emulation_options import Emulation
from meshgen.runtime.loading import load

pytest.importorskip("triton")

MLP = """
sdy.mesh @mesh = <["x"=2]>
func.func public @main(%a: tensor<6x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %w: tensor<64x32xf32>) -> tensor<6x32xf32> {
  %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<6x64xf32>, tensor<64x32xf32>) -> tensor<6x32xf32>
  %t = stablehlo.tanh %d : tensor<6x32xf32>
  return %t : tensor<6x32xf32>
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("emulated")
    (folder / "mlp.mlir").write_text(MLP)
    assert (
        main(["compile", str(folder / "mlp.mlir"), "--target", "cuda:sm_90,sm_80", "-o", str(folder / "mlp.mgx")]) == 0
    )
    return folder


def document(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any], str]:
    capsys.readouterr()
    code = main([*map(str, words), "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out or "{}"), err


def test_kernels_are_checked_for_each_architecture(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report, _ = document(capsys, "run", folder / "mlp.mgx", "--kernels", "--device", "emulate", "--races")
    rows = report["kernel_checks"]
    assert code == 0 and report["device"] == "emulate" and all(row["ok"] for row in rows)
    assert {row["arch"] for row in rows} == {"sm_80", "sm_90"} and len(rows) == 2 * len({row["name"] for row in rows})
    code, report, _ = document(capsys, "run", folder / "mlp.mgx", "--kernels", "--device", "emulate", "--arch", "sm_80")
    assert code == 0 and {row["arch"] for row in report["kernel_checks"]} == {"sm_80"}


def test_kernel_check_table_shows_architecture_and_seconds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(folder / "mlp.mgx"), "--kernels", "--device", "emulate"]) == 0
    out = capsys.readouterr().out
    assert "PTX on the emulated GPU against NumPy" in out and all(word in out for word in ("arch", "seconds", "sm_90"))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_module_runs_as_emulated_ptx(folder: Path, arch: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--device", "emulate", "--arch", arch, "--races", "--expect", folder / "mlp.mlir")
    code, report, _ = document(capsys, "run", folder / "mlp.mgx", *words)
    assert code == 0 and report["device"] == "emulate" and all(row["ok"] for row in report["compared"])


@pytest.mark.parametrize("precision", ["default", "high", "highest"])
def test_tolerance_follows_the_modules_precision(
    precision: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tolerance depends on the precision of the module's GEMMs. With full f32 it is close to the tolerance of a
    CPU.
    """
    module, allowed = folder / f"{precision}.mgx", dict[str, float]()
    multiplied = {"default": "tf32", "high": "tf32x3", "highest": "f32"}[precision]
    words = ("--precision", precision, "--target", "cuda:sm_90", "-o", module)
    code, report, _ = document(capsys, "compile", folder / "mlp.mlir", *words)
    assert code == 0 and list(report["multiplied_as"]) == [multiplied]
    for device, device_words in {"emulate": ("--device", "emulate"), "reference": ()}.items():
        code, report, _ = document(capsys, "run", module, "--device", device, "--expect", folder / "mlp.mlir")
        assert code == 0 and all(row["ok"] for row in report["compared"])
        allowed[device] = max(row["tolerance"] for row in report["compared"])
        code, report, _ = document(capsys, "run", module, "--kernels", *device_words)
        assert code == 0 and all(row["ok"] for row in report["kernel_checks"])
    assert (allowed["emulate"] > 20 * allowed["reference"]) == (precision == "default")
    # A tolerance is reported for the element with the largest error. Two devices may have their largest error in
    # different elements.
    assert (allowed["emulate"] < 1.5 * allowed["reference"]) == (precision == "highest")


def test_emulation_options_are_refused_for_other_devices(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--arch", "sm_80"], ["--races"]):
        assert main(["run", str(folder / "mlp.mgx"), *words]) == 2
        assert "MG0001" in capsys.readouterr().err


def test_uncompiled_architecture_is_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(folder / "mlp.mgx"), "--device", "emulate", "--kernels", "--arch", "sm_100"]) == 5
    assert "MG0602" in capsys.readouterr().err
    exe = api.compile(MLP, target="cpu")
    exe.save(tmp_path / "cpu.mgx")
    with pytest.raises(MissingError, match="was not compiled"):
        load(tmp_path / "cpu.mgx").emulated_kernels()


def forged(folder: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str) -> Any:
    """Return the module with the text `before` in its PTX replaced by `after`, as if the compiler had miscompiled the
    kernel.
    """
    module = load(folder / "mlp.mgx")
    original = type(module).ptx

    def ptx(self: Any, kernel: str, arch: str) -> str:
        text = original(self, kernel, arch)
        assert before in text
        return text.replace(before, after)

    monkeypatch.setattr(type(module), "ptx", ptx)
    return module


def test_race_is_reported_with_kernel_line_and_source(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = forged(folder, monkeypatch, "bar.sync", "// bar.sync")
    faults = [row["fault"] for row in check_kernels(module, 0, Emulation("sm_90", races=True)) if row["fault"]]
    fault = faults[0]
    assert fault.code == "MG0608" and "race" in fault.message and "sm_90" in fault.message
    assert fault.loc and fault.loc.file.startswith("kernels/") and fault.loc.line
    name = fault.loc.file.removeprefix("kernels/").removesuffix(".py")
    assert fault.notes[0][0] == module.source(name).splitlines()[fault.loc.line - 1].strip()


def test_invalid_ptx_ends_the_kernel_check(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    forged(folder, monkeypatch, "fma.rn.f32", "frobnicate.f32")
    assert main(["run", str(folder / "mlp.mgx"), "--kernels", "--device", "emulate"]) == 4
    err = capsys.readouterr().err
    assert "MG0608" in err and "frobnicate" in err


def test_miscompiled_kernel_is_reported_as_different(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forged(folder, monkeypatch, "fma.rn.f32", "fma.rz.f32")
    assert main(["run", str(folder / "mlp.mgx"), "--kernels", "--device", "emulate"]) == 0, "within the bound"
    forged(folder, monkeypatch, "fma.rz.f32", "sub.f32 %r1, %r1, %r1; //")
    capsys.readouterr()
    assert main(["run", str(folder / "mlp.mgx"), "--kernels", "--device", "emulate"]) == 3
    assert "DIFFERS" in capsys.readouterr().out
