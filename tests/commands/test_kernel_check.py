"""`run --kernels` runs each kernel of a module alone, on random operands. The operands here have every dtype and
several ranks.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from meshgen.cli import main
from meshgen.ir.graph import DTYPES, TensorType
from meshgen.ops.triton.registers import TRITON_TYPES
from meshgen.runtime.random_arrays import random_array

DTYPES_OF_KERNELS = tuple(TRITON_TYPES)


def scalars_appended() -> str:
    """Return a program with `concatenate(x, [s])` for every dtype. The operand `s` of each kernel has no dims."""
    inputs = ", ".join(f"%x{n}: tensor<5x{d}>, %s{n}: tensor<{d}>" for n, d in enumerate(DTYPES_OF_KERNELS))
    types = [f"tensor<6x{d}>" for d in DTYPES_OF_KERNELS]
    lines = [
        f"    %r{n} = stablehlo.reshape %s{n} : (tensor<{d}>) -> tensor<1x{d}>\n"
        f"    %c{n} = stablehlo.concatenate %x{n}, %r{n}, dim = 0 : (tensor<5x{d}>, tensor<1x{d}>) -> tensor<6x{d}>\n"
        for n, d in enumerate(DTYPES_OF_KERNELS)
    ]
    results = ", ".join(f"%c{n}" for n in range(len(types)))
    return (
        f"module @m {{\n  func.func public @main({inputs}) -> ({', '.join(types)}) {{\n"
        + "".join(lines)
        + f"    func.return {results} : {', '.join(types)}\n  }}\n}}\n"
    )


def test_kernel_check_supports_scalar_operands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton")
    (tmp_path / "m.mlir").write_text(scalars_appended())
    module = str(tmp_path / "m.mgx")
    assert (
        main(
            [
                "compile",
                str(tmp_path / "m.mlir"),
                "--mesh",
                "x=1",
                "--target",
                "cpu",
                "--skip",
                "horizontal-fusion",
                "-o",
                module,
            ]
        )
        == 0
    )
    capsys.readouterr()
    assert main(["run", module, "--kernels", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["kernel_checks"]
    assert len(rows) == len(DTYPES_OF_KERNELS) and all(row["ok"] for row in rows)


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_scalar_operand_is_an_array(dtype: str) -> None:
    array = random_array(TensorType((), dtype), [1, 2])
    assert isinstance(array, np.ndarray) and array.shape == () and array.dtype == DTYPES[dtype]
