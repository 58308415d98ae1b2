"""Tests of modules for several architectures: each architecture gets the variant of a kernel that is best for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen.commands.kernel_check import check_kernels
from meshgen.runtime.emulation_options import Emulation
from meshgen.runtime.loading import load
from meshgen.runtime.random_arrays import random_array

pytestmark = pytest.mark.usefixtures("two_multiprocessors")
PROGRAM = """func.func @main(%a: tensor<256x640xbf16>, %b: tensor<640x512xbf16>) -> tensor<256x512xbf16> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<256x640xbf16>, tensor<640x512xbf16>) -> tensor<256x512xbf16>
  %1 = stablehlo.tanh %0 : tensor<256x512xbf16>
  return %1 : tensor<256x512xbf16>
}
"""


@pytest.mark.parametrize("archs", [("sm_80", "sm_90"), ("sm_90", "sm_80"), ("sm_100", "sm_90", "sm_80")])
def test_warp_specialized_variant_is_stored_only_for_sm_90(archs: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "m.mgx"
    mg.compile(PROGRAM, {"x": 1}, target=f"cuda:{','.join(archs)}").save(path)
    module = load(path, runs=False)
    ((name, kernel),) = module.manifest.kernels.items()
    assert {arch: "warp_specialize=True" in module.source(name, arch) for arch in archs} == {
        arch: arch == "sm_90" for arch in archs
    }
    assert {*kernel.binaries} == {*archs} and kernel.source == f"kernels/{name}.py"
    assert kernel.binaries["sm_90"].threads == 384 and not any(b.spill_bytes for b in kernel.binaries.values())


def test_kernel_variants_of_architectures_compute_the_same(tmp_path: Path) -> None:
    path = tmp_path / "m.mgx"
    mg.compile(PROGRAM, {"x": 1}, target="cuda:sm_80,sm_90").save(path)
    module = load(path, runs=False)
    rows = check_kernels(module, 0, Emulation("sm_80")) + check_kernels(module, 0, Emulation("sm_90", races=True))
    assert [row["ok"] for row in rows] == [True] * 2
    args = {b.name: random_array(b.type, [3, n]) for n, b in enumerate(module.inputs)}
    old, new = (np.asarray(module.run(args, Emulation(arch))[0], np.float32) for arch in ("sm_80", "sm_90"))
    np.testing.assert_allclose(old, new, atol=2.0**-7)


def test_equal_kernel_variants_are_stored_once(tmp_path: Path) -> None:
    path = tmp_path / "m.mgx"
    text = PROGRAM.replace(
        "stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]", "stablehlo.add %a, %a"
    ).replace("(tensor<256x640xbf16>, tensor<640x512xbf16>) -> tensor<256x512xbf16>\n", "tensor<256x640xbf16>\n", 1)
    mg.compile(text.replace("256x512", "256x640"), {"x": 1}, target="cuda:sm_80,sm_90").save(path)
    (kernel,) = load(path, runs=False).manifest.kernels.values()
    assert [*kernel.binaries] == ["sm_80", "sm_90"] and not kernel.forms
