"""`mlir-opt` of LLVM 22, where it is installed (Debian: mlir-22-tools)."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache

import pytest

VERSION = 22


@cache
def _program() -> str | None:
    for name in (f"mlir-opt-{VERSION}", "mlir-opt"):
        path = shutil.which(name)
        if (
            path
            and f"LLVM version {VERSION}." in subprocess.run([path, "--version"], capture_output=True, text=True).stdout
        ):
            return path
    return None


def mlir_opt(text: str, *options: str) -> str:
    """Return what mlir-opt prints of a text that it verifies. Fails with its message, skips where there is none."""
    program = _program()
    if program is None:
        pytest.skip(f"mlir-opt of LLVM {VERSION} is not on PATH (Debian: mlir-{VERSION}-tools)")
    done = subprocess.run([program, *options], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def partitioned(text: str) -> str:
    """Return the program of a device that upstream's partition makes."""
    return mlir_opt(text, "--pass-pipeline=builtin.module(func.func(shard-partition))")


def local_types(text: str) -> list[str]:
    """Return the types of the arguments of the public function."""
    found = re.search(r"func\.func public @\w+\((.*?)\) ->", text)
    assert found
    return re.findall(r"tensor<[^>]*>", found[1])
