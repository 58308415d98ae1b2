"""Small programs that an earlier meshgen compiled wrongly. `meshgen check` accepts each, or refuses it with the code
that is listed here.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from meshgen.cli import main

PLACE = Path(__file__).resolve().parents[3] / "shared" / "cases" / "repros"
REFUSED = {
    "all_reduce_empty_region": "MG0104", "constant_of_open_size": "MG0101", "convolution_zero_groups": "MG0104",
    "householder_noise": "MG0104", "manual_axis_twice": "MG0203", "map_arity": "MG0104", "map_no_scalar": "MG0104",
    "reduce_window_no_operands": "MG0104", "replicated_and_split": "MG0203", "replicated_unknown_axis": "MG0202",
}  # fmt: skip
TOO_LARGE_TO_RUN = ("fuse_undefined",)  # tests generate the kernels of this program but do not run it
PROGRAMS = [path for path in sorted(PLACE.glob("*.mlir")) if path.stem not in TOO_LARGE_TO_RUN]


def options(path: Path) -> list[str]:
    """Return a mesh option if the program declares no mesh, else no options."""
    has_mesh = re.search(r"mesh|shard\.grid|num_partitions", path.read_text())
    return [] if has_mesh else ["--mesh", "x=2"]


@pytest.mark.skipif(not PROGRAMS, reason="the programs are not in the repository")
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_repro_is_correct_or_refused(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["check", str(path), *options(path)])
    out, err = capfd.readouterr()
    if path.stem in REFUSED:
        assert code == 1 and f"error {REFUSED[path.stem]}" in err
        # LAPACK prints this message itself, if it is called with invalid arguments
        assert "On entry to" not in out + err
    else:
        assert code == 0 and "ok: largest error" in out


@pytest.mark.skipif(not PROGRAMS, reason="the programs are not in the repository")
@pytest.mark.parametrize("name", ["fuse_undefined", "flip_after_transpose", "kernel_named_and"])
def test_kernels_of_repro_are_generated(name: str) -> None:
    from meshgen import api

    text = (PLACE / f"{name}.mlir").read_text()
    mesh = None if "mesh" in text else {"x": 2}
    assert api.plan(text, mesh, target="cuda:sm_90").sources
