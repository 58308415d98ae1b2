"""Partly manual computations of JAX with sharding constraints over the free axes, compared with JAX."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meshgen.api import plan
from meshgen.mlir.text import parse_text
from meshgen.testing.oracle import check

pytest.importorskip("jax")
SCRIPT = Path(__file__).with_name("partly_manual_in_jax.py")


@pytest.fixture(scope="module")
def jax_numbers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("jax") / "cases.npz"
    subprocess.run([sys.executable, str(SCRIPT), str(path)], check=True, capture_output=True)
    with np.load(path) as arrays:
        return dict(arrays)


@pytest.mark.parametrize("mesh", ["2x2x2", "1x2x2", "2x1x3"])
def test_partly_manual_programs_match_jax(jax_numbers: dict[str, Any], mesh: str) -> None:
    """Some meshes have manual or free axes of one device, and some tiles are uneven."""
    names = [name.removesuffix("/text") for name in jax_numbers if name.endswith(f"{mesh}/text")]
    assert len(names) >= 8
    for name in names:
        text, argument, expected = (jax_numbers[f"{name}/{part}"] for part in ("text", "given", "expected"))
        executable = plan(str(text), target="cpu")
        np.testing.assert_allclose(np.asarray(executable(argument)), expected, rtol=1e-5, atol=1e-5, err_msg=name)
        result = check(parse_text(str(text)), pipeline=lambda _, fused=executable.fused: fused, args=[argument])
        assert result.ok, (name, result.faults)
